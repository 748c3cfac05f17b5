"""The findings report: what a reviewer decides from, and the rules R01 to R19 that it is held to.

`model.py` is what it says, as data; `render.py` writes it as Markdown; `rules.py` reads that back,
and holds a report that lies somewhere against what the evidence gives.
"""
