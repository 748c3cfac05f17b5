"""Transactions with predicate reads, decided; see `plugin`."""
