"""What a monitor found: in the terminal, as JSON, as a page, and as metrics for Prometheus."""
