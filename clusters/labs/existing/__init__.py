"""Machines that exist already: read from the user's own list, adopted, used, released."""
