"""Transaction isolation by cycle detection: list-append and rw-register histories.

`columns` is the shape that every reader fills and every analysis takes.
"""
