"""Faults of the clock."""
