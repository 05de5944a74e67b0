"""What was found across sites: in the terminal, as JSON, and as a section of a page."""
