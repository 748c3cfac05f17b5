"""From what is required to what was shown: requirement, claim, invariant, scenario, evidence.

`matrix.py` joins what a plan says, `stated.py` holds requirements to their sources and claims to
their requirements, `executed.py` looks at what the runs of an execution have executed.
"""
