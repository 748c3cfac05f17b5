"""Plain data and pure functions that every other room builds on. No I/O, no SSH, no cluster."""
