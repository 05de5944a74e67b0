"""Findings for release: small counts are withheld, others moved, once."""
