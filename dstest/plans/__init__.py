"""Test plans: claims, how they could be false, and scenarios that `dstest run` executes.

`model.py` is what a plan holds, `reader.py` reads one from Markdown, `lint/` has the rules that a
plan is held to, `choice.py` says what judges which claim, `draft/` writes new ones, `execution/`
runs them, `review/` reports on that.
"""
