"""A plan executed: its scenarios one after the other, each as the `dstest run` that it describes.

`state.py` is what is kept of it on disk, `capabilities.py` what is looked for before anything is
started, `driver.py` goes through the steps, `outcome.py` reads what a step came to out of the runs
that it left, `logbook.py` writes session-log.md.
"""
