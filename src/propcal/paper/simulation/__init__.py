"""The paper's simulation study: its numbers and its figure."""
