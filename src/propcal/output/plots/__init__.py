"""Pictures with matplotlib; each draws a result that can also be printed."""
