"""Runs compared with runs: as numbers with intervals, and answer by answer.

`measured.py` says whether they may be compared and what each of them measured, `intervals.py` what
the difference between two sides is worth, `streams.py` compares the answers that two systems,
versions or settings gave to the same operations.
"""
