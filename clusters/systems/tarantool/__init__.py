"""Tarantool."""
