"""Documents: what each result says, as blocks that any renderer can print."""
