"""What is made of a night for others: its index and its page."""

from __future__ import annotations

from dstest.nightly.index import opened, rebuild
from dstest.nightly.page import render
from dstest.nightly.state import Night, NightDir
from dstest.nightly.trends import trends_of

__all__ = ["PAGE", "write_pages"]

PAGE = "report.html"


def write_pages(directory: NightDir, night: Night) -> None:
    """Make the index anew, and the page of this night."""
    folder = directory.path.parent
    rebuild(folder)
    with opened(folder) as db:
        trends = trends_of(db)
    directory.write(PAGE, render(night, trends).encode())
