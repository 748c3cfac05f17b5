"""Addresses of pages. They are the same over HTTP and as files, and all links are relative, so that
what is exported can lie anywhere."""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

PAGES: Final = (
    ("index.html", "Runs"),
    ("triage.html", "Violations"),
    ("trends.html", "Trends"),
    ("live.html", "Running"),
    ("groups.html", "Sessions, plans, nights"),
)
"""Of the navigation."""


def run_folder(ref: str) -> str:
    """Where the pages and files of a run are."""
    return f"run/{ref}"


def run_address(ref: str) -> str:
    return f"{run_folder(ref)}/index.html"


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]


def cell_address(name: tuple[str, str, str]) -> str:
    """Names are plug-ins', and may be anything in a run that somebody made up."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(name))[:60].strip("-")
    return f"trends/{words}-{_mark(repr(name))}.html"


def pair_address(left: str, right: str) -> str:
    """Of a page that an export has for two runs."""
    return f"pair/{_mark(repr((left, right)))}.html"


class Site(NamedTuple):
    """Where a page is, and whether there is a server. `to` gives a link from there."""

    address: str
    static: bool

    def to(self, address: str, **query: str | list[str]) -> str:
        up = "../" * self.address.count("/")
        asked = f"?{urlencode(query, doseq=True)}" if query else ""
        return f"{up}{quote(address)}{asked}"

    def run(self, ref: str) -> str:
        return self.to(run_address(ref))

    def file(self, path: str) -> str:
        """A file of a run or beside it; `path` is below the store. An export has texts only."""
        return self.to(f"run/{path}" + (".txt" if self.static else ""))

    def cell(self, name: tuple[str, str, str]) -> str:
        return self.to(cell_address(name))

    def pair(self, left: str, right: str) -> str:
        if self.static:
            return self.to(pair_address(left, right))
        return self.to("pair.html", run=[left, right])
