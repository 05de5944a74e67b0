"""Pages that are handed on: computed from protected counts, and from nothing else."""
