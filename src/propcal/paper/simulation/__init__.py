"""The simulation study, its numbers and its picture."""
