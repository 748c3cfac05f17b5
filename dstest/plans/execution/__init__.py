"""A plan executed: its scenarios one after the other, each as the `dstest run` that it describes.

`state.py` is what is kept of it on disk, and what a step came to by the runs that it left;
`driver.py` looks for what is needed, goes through the steps and writes session-log.md.
"""
