"""The logs of a run, with what the run knows besides: its nodes, faults, clocks and operations."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core import registry
from dstest.core.errors import ConfigError, EvidenceError
from dstest.core.evidence import LandingRecord
from dstest.core.op import Op
from dstest.core.protocols import EffectLog, LogReader, LogRecord, System
from dstest.core.run_record import RunMeta
from dstest.debug.logs.analysis import Extra
from dstest.debug.logs.formats import plain_record
from dstest.debug.logs.lines import Source, about, each_line, node_sources
from dstest.debug.logs.scene import Clocks, Line, Scene, clocks_of_run, windows_of_run
from dstest.history.jsonl import each_op, read_header
from dstest.history.layout import EVENTS, RunDir, read_records

_EVENT: Final = re.compile(r" *(?P<at>\d+) (?P<what>.*)")
_SAID: Final = re.compile(r"(?P<node>\S+): (?P<text>.*)")
_MESSAGE: Final = re.compile(r"(?P<from>\S+) -> (?P<to>\S+) \d+ (?P<data>b['\"].*)")


class RunLogs(NamedTuple):
    """What a look at the logs of a run needs. `system` is its name, `reader` how its logs are
    read, None where it does not say. `unread` are files that are no logs, and why."""

    sources: list[Source]
    scene: Scene
    clocks: Clocks
    reader: LogReader | None
    extra: Extra
    system: str
    records: list[LandingRecord]
    unread: Sequence[str] = ()


def records_of(path: Path) -> list[LandingRecord]:
    """The faults of a run directory. Raises EvidenceError where they cannot be read."""
    file = path / "faults.jsonl"
    try:
        return read_records(path)
    except (OSError, msgspec.DecodeError) as error:
        raise EvidenceError(
            f"{file} cannot be read: {error}", remedy="seal the run again with `dstest recover RUN`"
        ) from None


def run_logs(path: Path, ops: Sequence[Op] | None = None) -> RunLogs:
    """Of a sealed run directory, whose operations are `ops`, in their order, where somebody has
    read them. Raises ConfigError where it is none, EvidenceError and HistoryError where it is
    damaged."""
    run = RunDir.open(path)
    meta = run.read_meta()
    if meta is None or not run.history.is_file():
        raise ConfigError(
            f"{path} was not sealed", remedy="seal and judge it with `dstest recover RUN`"
        )
    header = read_header(run.history)
    system = header.system or str(meta.spec.get("system", ""))
    theirs: System = registry.known("systems", system)
    records = records_of(run.path)
    last_ns = max((op.last_ns for op in ops or each_op(run.history)), default=0)
    windows = windows_of_run(records, meta, last_ns)
    addresses = {one.address: one.node for one in meta.endpoints or ()}
    declared = list(meta.members or meta.nodes)
    scene = Scene(
        declared,
        windows,
        addresses,
        named=True,
        harmless=theirs.logs.harmless,
        served=theirs.conflict_errors | theirs.malformed_errors,
    )
    effects, beside = theirs.journals.effects, sorted(theirs.journals.names)
    folder = run.nodes
    sources = node_sources(folder, run.path, beside) if folder.is_dir() else []
    simulated = (run.path / EVENTS).is_file()
    clocks = clocks_of_run(meta)
    if simulated:
        clocks = Clocks(clocks.origin_ns, {}, exact=True)
    return RunLogs(
        sources=sources,
        scene=scene,
        clocks=clocks,
        reader=theirs.logs.reader,
        extra=Extra(
            _beside(run, scene, effects),
            _lines(run, meta, scene, theirs),
            enumerate(ops or each_op(run.history), 2),
        ),
        system=system,
        records=records,
    )


def _beside(run: RunDir, scene: Scene, effects: EffectLog | None) -> list[str]:
    """Files of which `_lines` has lines."""
    found = [EVENTS] if (run.path / EVENTS).is_file() else []
    if effects is not None:
        paths = [run.nodes / node / effects.file for node in scene.declared]
        found += [path.relative_to(run.path).as_posix() for path in paths if path.is_file()]
    return found


def _lines(run: RunDir, meta: RunMeta, scene: Scene, theirs: System) -> Iterator[Line]:
    if (run.path / EVENTS).is_file():
        yield from lines_of_simulation(
            run.path / EVENTS, meta.origin_ns or 0, scene, theirs.logs.reader
        )
    if (effects := theirs.journals.effects) is not None:
        for node in scene.declared:
            path = run.nodes / node / effects.file
            if path.is_file():
                shown = path.relative_to(run.path).as_posix()
                yield from effect_lines(Source(node, path, shown), effects)
    yield from _replicas(meta)


def _replicas(meta: RunMeta) -> Iterator[Line]:
    """What each member's state was when nobody wrote any more; one that did not answer is left
    out. The index is the same for all: the last."""
    for node, state in (meta.replicas or {}).items():
        if state is not None:
            told = LogRecord(message=f"state at the end: {state}", applied=-1, state=state)
            yield Line(node, "run.json:replicas", None, 0, told)


def effect_lines(source: Source, effects: EffectLog) -> Iterator[Line]:
    """The hash of all that a member has applied, after each entry. One that begins in the middle,
    or leaves something out, tells of no state."""
    digest, last = hashlib.sha256(), effects.first - 1
    for number, text in each_line(source):
        try:
            record = msgspec.json.decode(text)
            index, effect = effects.effect_of(record)
        except (msgspec.DecodeError, ValueError, KeyError, TypeError):
            continue
        if index == effects.first and last >= effects.first:
            digest, last = hashlib.sha256(), effects.first - 1  # made anew from its disk
        if index != last + 1:
            continue
        last = index
        digest.update(msgspec.json.encode(_content(record if effect is None else effect)))
        state = digest.hexdigest()[:16]
        told = LogRecord(message=text, applied=index, state=state)
        yield Line(source.node, f"{source.shown}:{number}", None, 0, told)


def _content(effect: Any) -> Any:
    """What has to be alike on every member: not whether it was read from disk."""
    plain = msgspec.to_builtins(effect)
    return {k: plain[k] for k in sorted(plain) if k != "replayed"}


def lines_of_simulation(
    path: Path, origin_ns: int, scene: Scene, reader: LogReader | None
) -> Iterator[Line]:
    """What servers said in a simulation, and the messages between them that arrived: of each the
    first bytes, and of many events the last."""
    known = set(scene.declared)
    for number, text in each_line(Source("", path, path.name)):
        event = _EVENT.fullmatch(text)
        if event is None:
            continue
        found = _record(event["what"], known, reader)
        if found is not None:
            node, record = found
            time_ns = int(event["at"]) - origin_ns
            topics = about(record, scene.harmless)
            yield Line(node, f"{path.name}:{number}", time_ns, 0, record, topics)


def _record(what: str, known: set[str], reader: LogReader | None) -> tuple[str, LogRecord] | None:
    message = _MESSAGE.fullmatch(what)
    if message is not None:
        return _message(message, known, reader)
    said = _SAID.fullmatch(what)
    if said is None or said["node"] not in known:
        return None
    told = reader.record_of(said["text"]) if reader is not None else None
    return said["node"], told or plain_record(said["text"])[0]


def _message(
    message: Mapping[str, str] | re.Match[str], known: set[str], reader: LogReader | None
) -> tuple[str, LogRecord] | None:
    """Of a message the system's reader alone can say what it is."""
    if reader is None or message["from"] not in known or message["to"] not in known:
        return None
    data = _text_of(message["data"])
    told = None if data is None else reader.record_of(data)
    if told is None:
        return None
    return message["from"], msgspec.structs.replace(told, peer=told.peer or message["to"])


def _text_of(literal: str) -> str | None:
    """What a literal of bytes holds, without blanks around it; None where it is none."""
    plain = literal[2:-1].removesuffix("\\n")
    if len(literal) > 2 and literal[-1] == literal[1] not in plain and "\\" not in plain:
        return plain.strip() if plain.isascii() else None
    try:
        data: bytes = ast.literal_eval(literal)
    except (ValueError, SyntaxError, MemoryError):
        return None
    return data.decode("utf-8", "replace").strip()
