"""The driver of all faults, and what those of one family have in common."""
