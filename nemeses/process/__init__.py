"""Faults of server processes and of what they need."""
