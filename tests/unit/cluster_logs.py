"""Logs as clusters of etcd, Kafka, PostgreSQL, Patroni and services write them, made of the scripts
in `tests/fixtures/clusters`: a line each, `seconds | nodes | level | source | message | fields`.
`20..50/3` is every three seconds from 20 to 50. What was planted stands at the top, with words of
which the hypothesis that names it has one."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

SCRIPTS: Final = Path(__file__).resolve().parents[1] / "fixtures" / "clusters"
BEGIN: Final = datetime.datetime(2024, 3, 5, 10, 15, 30, tzinfo=datetime.UTC)


class Told(NamedTuple):
    """A line of a script. `at` is when it is written, by the clock of its node."""

    at: datetime.datetime
    node: str
    level: str
    source: str
    message: str
    fields: dict[str, str]

    def stamp(self, form: str, comma: str = ".") -> str:
        """With milliseconds."""
        return f"{self.at.strftime(form)}{comma}{self.at.microsecond // 1000:03}"


class Case(NamedTuple):
    """`named` are words of which the name of a hypothesis has one; none where all is well."""

    id: str
    system: str
    planted: str
    named: tuple[str, ...]
    lines: list[Told]


def cases(prefix: str = "") -> list[Case]:
    """Those whose id begins so."""
    return [_case(path) for path in sorted(SCRIPTS.glob(f"{prefix}*.txt"))]


def _case(path: Path) -> Case:
    head: dict[str, str] = {}
    lines: list[Told] = []
    for text in path.read_text().splitlines():
        name, colon, rest = text.partition(": ")
        if colon and name in ("system", "planted", "named"):
            head[name] = rest
        else:
            lines += _told(text)
    lines.sort(key=lambda one: one.at)
    named = tuple(head["named"].split(", ")) if "named" in head else ()
    return Case(path.stem, head["system"], head["planted"], named, lines)


def _told(text: str) -> Iterator[Told]:
    when, nodes, level, source, message, *more = text.split(" | ")
    fields = dict(one.split("=", 1) for one in more[0].split("; ")) if more else {}
    for seconds in _times(when):
        for node in nodes.split(","):
            at = BEGIN + datetime.timedelta(seconds=seconds)
            yield Told(at, node, level, source, message, fields)


def _times(when: str) -> Iterator[float]:
    first, dots, rest = when.partition("..")
    at = float(first)
    yield at
    if dots:
        last, _, step = rest.partition("/")
        while (at := at + float(step)) <= float(last):
            yield at


def _zap(one: Told) -> str:
    head = {"level": one.level, "ts": one.stamp("%Y-%m-%dT%H:%M:%S") + "Z"}
    head |= {"caller": one.source, "msg": one.message}
    return json.dumps({**head, **one.fields}, separators=(",", ":"))


def _log4j(one: Told) -> str:
    return f"[{one.stamp('%Y-%m-%d %H:%M:%S', ',')}] {one.level} {one.message} ({one.source})"


def _postgres(one: Told) -> str:
    stamp = one.stamp("%Y-%m-%d %H:%M:%S")
    return f"{stamp} UTC [{one.source}] {one.level}:  {one.message}"


def _python(one: Told) -> str:
    return f"{one.stamp('%Y-%m-%d %H:%M:%S', ',')} {one.level}: {one.message}"


def _services(one: Told) -> str:
    if one.source != "orders":
        stamp = one.at.strftime("%b %e %H:%M:%S")
        return f"{stamp} {one.node} {one.source}[412]: {one.message}"
    words, _, rest = one.message.partition("=")
    head, _, name = words.rpartition(" ")
    message, fields = (head, f" {name}={rest}") if rest else (one.message, "")
    stamp = one.stamp("%Y-%m-%dT%H:%M:%S")
    return f'time={stamp}Z level={one.level} msg="{message}"{fields}'


FORMS: Final[dict[str, Callable[[Told], str]]] = {
    "etcd": _zap,
    "kafka": _log4j,
    "postgres": _postgres,
    "patroni": _python,
    "services": _services,
}


def write(case: Case, folder: Path) -> Path:
    """A file a node, `n1.log`; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for node in sorted({one.node for one in case.lines}):
        rows = [FORMS[case.system](one) for one in case.lines if one.node == node]
        (folder / f"{node}.log").write_text("\n".join(rows) + "\n")
    return folder
