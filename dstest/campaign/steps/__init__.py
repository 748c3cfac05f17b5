"""Steps that are commands of dstest, each in a process of its own: what a plan's execution, a night
and a worker on another machine have in common.

`process.py` starts one and ends with it, `results.py` reads what it came to out of the run and
session directories that it left, as they were summed up.
"""
