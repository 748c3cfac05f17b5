"""Faults of the paths between nodes."""
