"""One run, from nothing to a verdict."""
