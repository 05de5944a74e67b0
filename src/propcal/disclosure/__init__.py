"""What a page that is handed on may show: everything that hides small counts."""
