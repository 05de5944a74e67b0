"""Ways in: frames, arrays and files -> checked columns and atoms."""
