"""Files of people: what they are, reading them through DuckDB, and reducing them to atoms."""
