"""The patterns, a file for each family."""
