"""Histories in, verdicts out. A library of its own: needs no cluster and no SSH."""
