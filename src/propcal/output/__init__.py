"""Ways out: files, SQL, JSON, the report, pictures, and text for terminals and notebooks."""
