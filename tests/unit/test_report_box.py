"""What stands in the box of the verdict: how the run was set, and what went wrong besides."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_meta import meta
from made_moments import fault, op, views
from made_report import SPEC, report

from dstest.core.op import Op
from dstest.report.html import besides, render_html
from dstest.report.model import RunReport
from dstest.report.service import stretches
from dstest.report.settings import settings
from dstest.report.terminal import summary_text


def ran(given: list[str] | None, model: str, **spec: Any) -> RunReport:
    made = report(fail=True)
    header = msgspec.structs.replace(made.history.header, model=model)
    history = msgspec.structs.replace(made.history, header=header)
    changed = meta(spec=SPEC | spec, options_given=given)
    return msgspec.structs.replace(made, meta=changed, history=history)


def test_what_was_given_comes_by_whose_it_is_and_as_given() -> None:
    made = ran(
        ["shape=leader", "key_count=4", "writes=read-then-write", "isolation=read-committed"],
        "snapshot-isolation",
        system="postgresql", workload="list-append",
        options={"isolation": "read-committed", "writes": "read-then-write"},
    )  # fmt: skip
    said = settings(made)
    assert said.startswith(
        "Ran with writes=read-then-write, isolation=read-committed, key_count=4, shape=leader; "
        "held to snapshot-isolation."
    )
    box = render_html(made).partition('id="verdict"')[2].partition("</section>")[0]
    assert "Ran with writes=read-then-write, isolation=read-committed" in box
    assert "held to snapshot-isolation." in " ".join(summary_text(made).split())


def test_no_weaker_model_is_told_of_other_options_or_of_what_was_asked() -> None:
    of = {"system": "postgresql", "workload": "list-append"}
    serial = ran([], "serializable", options={"isolation": "serializable"}, **of)
    assert settings(serial) == (
        "Ran with the system's settings as they come; held to serializable."
    )
    asked = ran([], "read-committed", options={"isolation": "read-committed"}, **of)
    assert "documents" not in settings(asked)


def test_only_what_is_not_the_systems() -> None:
    made = ran(["shape=leader", "fault_s=30"], "linearizable", workload="set")
    assert settings(made) == (
        "Ran with the system's settings as they come, and shape=leader, fault_s=30; "
        "held to linearizable."
    )


def test_a_system_that_is_not_there_and_a_history_without_a_run() -> None:
    gone = ran(["b=1", "a=2"], "register", system="of-ones-own")
    assert settings(gone).startswith("Ran with the system's settings as they come, and b=1, a=2;")
    assert "not written down as given" in settings(ran(None, "register"))
    imported = msgspec.structs.replace(gone, meta=meta(spec={}))
    assert settings(imported) == ""


def audited(**rows: str) -> RunReport:
    made = report(fail=True)
    audit = [
        msgspec.structs.replace(row, status="short", evidence=rows[row.id])
        if row.id in rows
        else row
        for row in made.audit
    ]
    return msgspec.structs.replace(made, audit=audit)


CRASH = (
    "1 alarms in the logs that no fault explains, first n1: F> transaction rolled back during "
    "snapshot recovery; 1 ends of processes that no fault explains: n1: process 211 ended"
)


def test_a_crash_that_no_fault_explains_is_told_and_linked() -> None:
    made = audited(RF7=CRASH)
    (row,) = besides(made, [])
    assert row.said == f"{CRASH}."
    page = render_html(made)
    box = page.partition('id="verdict"')[2].partition("</section>")[0]
    assert "Besides:" in box
    assert '<a href="#audit-RF7"' in box
    assert '<tr id="audit-RF7">' in page
    assert besides(audited(RF7="the log of n1 is missing"), []) == []
    assert "Besides:" not in render_html(report(fail=True))


@pytest.mark.parametrize(
    ("healthy", "said"),
    [
        ({"n1": True, "n2": False, "n4": False}, "n2, n4 did not serve after the settle phase."),
        ({"n1": False, "n2": False}, "No node served after the settle phase."),
        ({"n1": False}, "n1 did not serve after the settle phase."),
        ({"n1": True}, ""),
        (None, ""),
    ],
)
def test_nodes_that_do_not_serve_in_the_end(healthy: dict[str, bool] | None, said: str) -> None:
    made = audited(RF8="not serving after the settle phase: n2; n4")
    made = msgspec.structs.replace(made, meta=meta(healthy=healthy))
    assert [(row.said, row.anchor) for row in besides(made, [])] == (
        [(said, "audit-RF8")] if said else []
    )


def served(*at_s: float) -> list[Op]:
    return [op(n, second) for n, second in enumerate(at_s)]


def test_the_longest_silence_of_all_while_no_fault_stood() -> None:
    busy = [n / 10 for n in range(100)]
    tried = [op(900 + n, 10 + n, complete_ts=None, timeout_marker=True) for n in range(25)]
    made = msgspec.structs.replace(report(fail=True), faults=views([fault("f1", 9.5, 20)]))
    ops = sorted([*served(*busy, 35.0, 35.1), *tried], key=lambda o: o.invoke_ts)
    outages = stretches(ops, made.windows)
    (row,) = besides(made, outages)
    assert (
        row.said == "No operation succeeded from 20.0 s to 35.0 s (15.0 s), while no fault stood."
    )
    whole = next(n for n, o in enumerate(outages, 1) if o.what.startswith("No operation"))
    assert row.anchor == f"outage-{whole}"
    longer = msgspec.structs.replace(made, faults=views([fault("f1", 9.5, 31)]))
    assert besides(longer, stretches(ops, longer.windows)) == []
    never = msgspec.structs.replace(made, faults=views([fault("f1", 9.5, None)]))
    assert besides(never, stretches(ops, never.windows)) == []
    history = msgspec.structs.replace(made.history, ops=ops)
    page = render_html(msgspec.structs.replace(made, history=history))
    assert f'<a href="#{row.anchor}"' in page
    assert f'<li id="{row.anchor}">' in page
