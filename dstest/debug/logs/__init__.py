"""Logs of nodes that were collected: checks over all of them, joined with what a run did."""
