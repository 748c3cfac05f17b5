"""Faults, each with its injector counters, its victim probe and its heal."""
