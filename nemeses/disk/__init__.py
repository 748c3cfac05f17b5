"""Faults of the disk under a server."""
