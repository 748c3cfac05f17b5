"""Faults inside a member: its files, settings, secrets, build and membership."""
