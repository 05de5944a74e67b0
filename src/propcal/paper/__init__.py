"""The paper's experiments: one module for each table or figure; settings and published numbers are data."""
