"""Slow judges in plain Python that share nothing with the checkers: for whoever doubts those."""
