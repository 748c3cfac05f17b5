"""Skeletons of systems, workloads, nemeses and checkers of one's own, and what writes them."""
