"""The report: an audit to a summary (plain numbers and sentences), a summary to a page."""
