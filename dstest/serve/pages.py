"""The pages, from what is known of the store, and their addresses. Plain functions from data to
text; nothing here reads a file but the page of one run. Addresses are the same over HTTP and as
files, and all links are relative, so that what is exported can lie anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from dstest.core.rates import Rate
from dstest.report.html import environment as report_environment
from dstest.report.numbers import number
from dstest.store.inventory import stamp_of
from dstest.store.query import SIGNS, sign_of, words_of
from dstest.store.rows import RunRow

PAGES: Final = (
    ("index.html", "Runs"),
    ("triage.html", "Violations"),
    ("trends.html", "Trends"),
    ("live.html", "Running"),
    ("groups.html", "Sessions, plans, nights"),
)
"""Of the navigation."""

_STAMP: Final = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z")

POLICY: Final = (
    "default-src 'none'; style-src '{style}'; script-src '{script}'; connect-src 'self'; "
    "img-src data:; frame-src 'self'; base-uri 'none'; form-action 'self'"
)
"""Of our own pages: what runs and what it looks like is in them, and known by its digest."""

REPORT_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts"
)
"""Of a report.html, which lay in a run: it can ask for nothing, is of no origin, and is framed by
the page of its run alone."""

TEXT_POLICY: Final = "default-src 'none'; sandbox"
"""Of any other file of a run."""


def run_folder(ref: str) -> str:
    """Where the pages and files of a run are."""
    return f"run/{ref}"


def run_address(ref: str) -> str:
    return f"{run_folder(ref)}/index.html"


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]


def cell_address(name: tuple[str, ...]) -> str:
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

    def cell(self, name: tuple[str, ...]) -> str:
        return self.to(cell_address(name))

    def pair(self, left: str, right: str) -> str:
        if self.static:
            return self.to(pair_address(left, right))
        return self.to("pair.html", run=[left, right])


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class Pages:
    """Made once; `render(template, site, ...)` gives a page."""

    def __init__(self, store: Path) -> None:
        self.store = store

    @cached_property
    def _environment(self) -> Any:
        from jinja2 import ChoiceLoader, PackageLoader

        made = report_environment()
        made.loader = ChoiceLoader([PackageLoader("dstest.serve"), made.loader])
        made.filters |= {
            "stamp": stamp, "value": value, "share_of": share_of, "bytes": size, "figure": figure,
            "when": when, "quoted": shlex.quote, "without": without,
        }  # fmt: skip
        made.globals |= {"signs": SIGNS, "sign_of": sign_of, "pages": PAGES, "words_of": words_of}
        return made

    @cached_property
    def style(self) -> str:
        return _own(
            "static/serve.css", "dstest.serve", _own("templates/style.css", "dstest.report")
        )

    @cached_property
    def script(self) -> str:
        return _own("static/serve.js", "dstest.serve")

    @cached_property
    def policy(self) -> str:
        return POLICY.format(style=_digest(self.style), script=_digest(self.script))

    def render(self, template: str, site: Site, **parts: Any) -> str:
        from markupsafe import Markup

        text: str = self._environment.get_template(template).render(
            site=site,
            store=str(self.store),
            policy=Markup(self.policy),
            style=Markup(self.style),
            script=Markup(self.script),
            **parts,
        )
        return text


def _own(name: str, package: str, before: str = "") -> str:
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    return f"{before}{text}".strip()


def stamp(text: str) -> str:
    """`20261121T215100Z` for people; what is no stamp as it is."""
    match = _STAMP.fullmatch(text)
    return "{}-{}-{} {}:{}:{}".format(*match.groups()) if match else text or "-"


def when(time_ns: int) -> str:
    """A wall clock, for people."""
    return stamp(stamp_of(time_ns))


def without(headline: str, system: str) -> str:
    """A headline beside whose system it stands: what that did."""
    did = headline.removeprefix(f"{system.strip()} ")
    return did if did == headline else did[:1].upper() + did[1:]


def value(given: Any) -> str:
    """A row of a run in words."""
    if isinstance(given, Mapping):
        return ", ".join(f"{key} {inner}" for key, inner in given.items()) or "-"
    if isinstance(given, list | tuple):
        return ", ".join(map(str, given)) or "-"
    if given is None or given == "":
        return "-"
    return number(given) if isinstance(given, bool) else str(given)


def figure(given: float | None) -> str:
    """A measured number: four digits, and what stands for a latency without an answer."""
    if given is None:
        return "-"
    if math.isinf(given):
        return "no answer"
    return f"{given:,.0f}" if abs(given) >= 1000 else f"{given:,.4g}"


def share_of(rate: Rate) -> str:
    """`3 of 12 (9% to 53%)`."""
    if not rate.total:
        return "0 of 0"
    return f"{rate.hits:,} of {rate.total:,} ({rate.low:.0%} to {rate.high:.0%})"


def size(count: int) -> str:
    """Bytes for people, in powers of ten."""
    for unit, scale in (("B", 1.0), ("kB", 1e3), ("MB", 1e6)):
        if count / scale < 999.5:
            return f"{count / scale:,.0f} {unit}" if unit == "B" else f"{count / scale:,.1f} {unit}"
    return f"{count / 1e9:,.2f} GB"


def neighbours(rows: Sequence[RunRow], row: RunRow) -> tuple[RunRow | None, RunRow | None]:
    """The run of the same test before and after this one. `rows` are the newest first, and may be
    of other tests as well."""
    same = [one for one in rows if one.test.id and one.test.id == row.test.id]
    at = next((k for k, one in enumerate(same) if one.ref == row.ref), None)
    if at is None:
        return None, None
    return (
        same[at + 1] if at + 1 < len(same) else None,
        same[at - 1] if at else None,
    )
