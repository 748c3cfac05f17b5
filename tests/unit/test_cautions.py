"""What the documentation of a system warns of, beside a failure."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_report import report

from dstest.core import registry
from dstest.core.evidence import Rerun
from dstest.core.protocols import Caution
from dstest.core.run_words import allowed_values
from dstest.report.html import render_html
from dstest.report.model import RunReport, build_report
from dstest.report.settings import documented
from dstest.report.terminal import summary_text

SYSTEMS = registry.names("systems", ours=True)


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_they_name_are_options_with_such_values(name: str) -> None:
    system = registry.load("systems", name)
    for row in system.cautions:
        assert row.source and row.says and row.says[-1] != "."
        for option, values in [*row.when.items(), *row.unless.items()]:
            given = system.options[option]
            assert values, (name, option)
            for value in values:
                assert isinstance(value, given.type), (name, option, value)
                assert not given.choices or value in given.choices, allowed_values(given)


@pytest.mark.parametrize(
    ("options", "holds"),
    [({"a": 1, "b": 5}, True), ({"a": 3, "b": 5}, False), ({"a": 1, "b": 0}, False), ({}, False)],
)
def test_when_one_counts(options: dict[str, Any], holds: bool) -> None:
    row = Caution(says="x", source="y", when={"a": (1, 2)}, unless={"b": (0,)})
    assert row.holds(options) is holds


def of(system: str, given: list[str], **options: Any) -> RunReport:
    made = report(fail=True)
    defaults = {k: o.default for k, o in registry.load("systems", system).options.items()}
    spec = {**made.meta.spec, "system": system, "options": defaults | options}
    meta = msgspec.structs.replace(made.meta, spec=spec, options_given=given)
    return msgspec.structs.replace(made, meta=meta)


def test_defaults_that_decide_are_named() -> None:
    made = of("galera", ["isolation=repeatable-read"], isolation="repeatable-read")
    said = [one.says for one in documented(made)]
    assert said[0].startswith(
        "galera (isolation=repeatable-read, snapshot_isolation=false as it comes) documents that "
    )
    for text in (render_html(made), " ".join(summary_text(made).split())):
        assert all(sentence in text for sentence in said)
    safe = of("galera", ["sync_wait=7"], sync_wait=7)
    assert documented(safe) == []


def test_a_pass_does_not_say_it() -> None:
    made = of("memcached", [])
    passed = msgspec.structs.replace(made, verdict=report().verdict)
    assert documented(made) and "protocol.txt" in render_html(made)
    assert "protocol.txt" not in render_html(passed)


@pytest.mark.parametrize(
    ("runs", "shown", "said"),
    [
        (0, 0, "Nobody has run the same seed again"),
        (4, 0, "0 of 4 re-runs of the same seed showed it again"),
    ],
)
def test_what_is_known_of_its_seed(runs: int, shown: int, said: str) -> None:
    made = report(fail=True)
    again = Rerun(same_seed_runs=runs, reproduced=shown)
    evidence = msgspec.structs.replace(made.evidence, rerun=again)
    verdict = msgspec.structs.replace(made.verdict, evidence=evidence)
    built = build_report(verdict, made.records, made.history, made.meta)
    assert said in built.meaning
