"""Skeletons of workloads, nemeses and checkers of one's own, and what writes them."""
