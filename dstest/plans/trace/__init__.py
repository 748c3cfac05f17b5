"""From what is required to what was shown: requirement, claim, invariant, scenario, evidence.

`matrix.py` joins what a plan says, holds requirements to their sources and claims to their
requirements, and looks at what the runs of an execution have executed.
"""
