"""Published bugs that are found again, and controls that must stay quiet."""
