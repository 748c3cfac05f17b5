"""The findings report of a plan that was executed, made from its runs alone: `gather.py` makes it,
lays it down and holds what lies there to the rules R01 to R19 (`dstest/report/review/rules.py`)."""
