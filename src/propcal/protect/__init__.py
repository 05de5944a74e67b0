"""What may be released: counts are protected, findings and statistics are not."""
