"""Chaos for plain HTTP services: a seeded proxy injects faults, an open-loop load meets them, and
what failed is told apart by whether a fault had hit it. The service's source is never edited."""
