"""The first look at a failure: all anomalies over the run, why, and what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_moments import fault, op, stamped, views
from made_report import S, report

from dstest.core import registry
from dstest.core.check import OVER_TIME, Budget, Sightings
from dstest.core.evidence import Symptom
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.report.charts import axis_of
from dstest.report.html import render_html
from dstest.report.model import RunReport
from dstest.report.moments import headline, kinds, moments
from dstest.report.places import aged_ns
from dstest.report.settings import documented, ways_out
from dstest.report.strip import strip_svg

FAULTS = [fault("f1", 10, 15), fault("f2", 30, 35)]


def stale(count: int) -> list[Op]:
    """Of each key two writes a second apart, and a read of the first a second after that."""
    made = []
    for n in range(count):
        key = {"key": f"0-{n}"}
        made += [
            op(3 * n, n, "write", input=1, process_id=1, **key),
            op(3 * n + 1, n + 0.2, "write", input=2, process_id=1, **key),
            op(3 * n + 2, n + 0.7, "read", output=1, process_id=2, node_seen="n4", **key),
        ]
    return stamped(sorted(made, key=lambda one: one.invoke_ts), FAULTS)


def failed(
    ops: list[Op], *, system: str = "etcd", given: dict[str, Any] | None = None
) -> RunReport:
    header = Header(model="register", system=system, workload="register")
    history = History(header=header, ops=ops)
    checker = registry.load("checkers", "linearizable")
    result = checker.check(history, "register", Budget())
    made = report(fail=True)
    defaults = {k: o.default for k, o in registry.load("systems", system).options.items()}
    spec = {**made.meta.spec, "system": system, "options": defaults | (given or {})}
    pairs = [f"{name}={value}" for name, value in (given or {}).items()]
    meta = msgspec.structs.replace(made.meta, spec=spec, options_given=pairs)
    return msgspec.structs.replace(
        made,
        results={"linearizable": result},
        history=history,
        faults=views(FAULTS),
        meta=meta,
    )


def test_times_are_counted_in_equal_parts() -> None:
    assert Sightings.parts_of([5]) == [1]
    assert Sightings.parts_of([0, 0, 1, 3]) == [2, 1, 0, 1]
    many = Sightings.parts_of(range(0, 10**9, 1_000_000))
    assert len(many) == OVER_TIME and set(many) == {1000 // OVER_TIME}


def test_every_anomaly_is_on_the_strip() -> None:
    """Also those of which no witness is kept."""
    made = failed(stale(40))
    (kind,) = kinds(made, moments(made, []))
    assert kind.count == 40 and kind.shown is not None
    assert len(made.results["linearizable"].anomalies["nonlinearizable"]) < 40
    svg = strip_svg(axis_of(made), made.history.ops, {kind.drawn: kind.shown})
    assert sum(int(n) for n in re.findall(r"<title>(\d+) at", svg)) == 40
    assert "40 &#215;" in svg and ">stale read<" in svg and svg.count('class="band"') == 2
    assert svg in render_html(made)


def test_older_files_have_no_strip() -> None:
    made = failed(stale(3))
    (kind,) = kinds(made, moments(made, []))
    assert kind.shown is not None
    old = msgspec.structs.replace(kind.shown, over_time=msgspec.UNSET)
    assert strip_svg(axis_of(made), made.history.ops, {kind.drawn: old}) == ""


def test_how_old_what_was_read_is() -> None:
    ops = stale(1)
    read = ops[-1]
    assert aged_ns(read, ops) == S * 7 // 10 - (S * 2 // 10 + S // 100)
    assert aged_ns(msgspec.structs.replace(read, output=2), ops) is None
    swap = op(9, 0.5, "cas", input=[2, 1], output=True, key="0-0")
    assert aged_ns(read, [*ops, swap]) is None, "a swap may have written it again"
    lost = [msgspec.structs.replace(ops[0], complete_ts=None, timeout_marker=True), *ops[1:]]
    assert aged_ns(read, lost) is None, "it may have taken effect late"
    made = failed(ops)
    assert (
        "it had been overwritten 0.5 s before it was asked" in headline(made, moments(made, []))[1]
    )


def excused(made: RunReport, *models: str) -> RunReport:
    """As it is where the judge found that these are what is promised instead."""
    symptom = Symptom(checker="linearizable", claims=["safety"], documented=list(models))
    evidence = msgspec.structs.replace(made.evidence, symptom=symptom)
    return msgspec.structs.replace(made, evidence=evidence)


def test_a_documented_relaxation_leads() -> None:
    made = excused(failed(stale(3), given={"reads": "serializable"}), "sequential")
    said, _ = headline(made, moments(made, []))
    assert said.endswith("; with reads=serializable it promises sequential only.")
    first = documented(made)[0]
    assert first.model == "sequential" and first.ways == [{"reads": "linearizable"}]
    (step,) = ways_out(made)
    assert "-o reads=linearizable" in step.command and "--seed 42" in step.command
    page = render_html(made)
    why = re.sub(r"<[^>]+>", "", page[page.index("<dt>Why</dt>") :])
    assert why.index("promises sequential") < why.index("What to do") < why.index(step.command)
    # What no weaker model may explain is not excused by one.
    for plain in (failed(stale(3)), failed(stale(3), given={"reads": "serializable"})):
        assert ways_out(plain) == [] and "promises" not in headline(plain, moments(plain, []))[0]


def test_what_a_checker_can_judge_is_offered() -> None:
    given = {"isolation": "repeatable-read"}
    made = excused(failed(stale(3), system="postgresql", given=given), "snapshot-isolation")
    ran = msgspec.structs.replace(made.evidence.checker, ran=["list-append"])
    evidence = msgspec.structs.replace(made.evidence, checker=ran)
    commands = [step.command for step in ways_out(msgspec.structs.replace(made, evidence=evidence))]
    assert any("--model snapshot-isolation" in words for words in commands)
    assert any("-o isolation=serializable" in words for words in commands)


@pytest.mark.parametrize("name", registry.names("systems", ours=True))
def test_what_they_name_instead_ends_it(name: str) -> None:
    """Every setting that is warned of can be left, but for those that nothing changes."""
    system = registry.load("systems", name)
    defaults = {key: option.default for key, option in system.options.items()}
    for row in system.cautions:
        options = defaults | {key: values[0] for key, values in row.when.items()}
        assert not row.when or not row.holds(options | dict(row.instead)) or not row.holds(defaults)
        for key, value in row.instead.items():
            assert isinstance(value, system.options[key].type)
            assert not row.when or not row.holds(options | {key: value})


def test_a_power_cut_is_no_matter_without_one() -> None:
    made = failed(stale(3), system="nats")
    assert documented(made) == []
    spec = {**made.meta.spec, "nemesis": "partition,power"}
    cut = msgspec.structs.replace(made, meta=msgspec.structs.replace(made.meta, spec=spec))
    assert [one.says for one in documented(cut) if "power cut" in one.says]


def test_a_pass_has_no_strip(tmp_path: Path) -> None:
    page = render_html(report())
    assert (
        'class="chart wide strip"' not in page and "<dt>" not in page.partition("operations-h")[0]
    )
