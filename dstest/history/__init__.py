"""Run directories: the crash-safe event log, the sealed history, and what surrounds them."""
