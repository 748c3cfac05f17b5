"""What is made of a night for others: its index, its page, and a file for CI servers."""

from __future__ import annotations

from typing import Final

from dstest.nightly.index import opened, rebuild
from dstest.nightly.junit import render_junit
from dstest.nightly.page import headline, render
from dstest.nightly.state import Night, NightDir
from dstest.nightly.trends import trends_of

PAGE: Final = "report.html"
JUNIT: Final = "junit.xml"


def write_pages(directory: NightDir, night: Night) -> None:
    """Make the index anew, and the page and junit.xml of this night."""
    folder = directory.path.parent
    rebuild(folder)
    with opened(folder) as db:
        trends = trends_of(db)
    directory.write(PAGE, render(night, trends, directory.path).encode())
    directory.write(JUNIT, render_junit(night, *headline(night)).encode())
