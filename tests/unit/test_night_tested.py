"""What the page of a night and `nightly status` say was tested; and what is not tried again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from made_nights import FAILS, PASSES, item_of, night_in, night_with
from touched_runs import dstest

from dstest.campaign.nightly.outcome import TryResult
from dstest.campaign.nightly.page import coverage_line, facts_of, headline
from dstest.campaign.nightly.state import Item, Night
from dstest.core.errors import Exit

SIMULATED = msgspec.structs.replace(
    PASSES, version="1.0", lab="sim", nodes=5, transport="in-process", load_s=20.0,
    operations=3791, model="linearizable", tier="smoke",
)  # fmt: skip
ON_NODES = msgspec.structs.replace(
    SIMULATED, lab="lxc", transport="network", version="2.0", tier="hardening", planned=3, landed=2
)


def _item(name: str, control: str, judged: TryResult | None, seed: int = 1, **more: str) -> Item:
    item = item_of(name, control, [judged], seed)
    item.tries[0].result = "" if judged is None else "cells/x"
    item.argv = ["run", "-o", "shape=leader"]
    return msgspec.structs.replace(item, **more)


def _facts(night: Night) -> dict[str, str]:
    return dict(facts_of(night))


def test_a_row_says_what_its_run_has_tested() -> None:
    assert coverage_line(_item("a", "", SIMULATED), SIMULATED) == (
        "etcd 1.0: set under kill (model linearizable, shape=leader), 5 nodes of lab sim, all in "
        "one process; 20 s of load, 3,791 operations judged, 1 of 1 fault landed; smoke"
    )
    assert "one process" not in coverage_line(_item("a", "", ON_NODES), ON_NODES)
    assert coverage_line(_item("a", "", PASSES), PASSES) == (
        "etcd: set under kill (shape=leader); 1 of 1 fault landed"
    ), "as far as an older version has written it down"


def test_a_night_that_was_simulated_says_so() -> None:
    night = night_with(1, [_item("a", "", SIMULATED), _item("bug", "red", FAILS)], 0)
    facts = _facts(night)
    assert facts["Under test"] == (
        "etcd 1.0 on lab sim. Each run was a simulation, all in one process, "
        "which is smoke at most."
    )
    assert facts["How much"] == (
        "1 seed of each of 1 cell, tier smoke, 3,791 operations judged, 1 of 1 fault landed."
    )
    assert "passed (1 of 1, smoke)" in headline(night)[1]
    night.items.append(_item("b", "", ON_NODES, 2))
    facts = _facts(night)
    assert facts["Under test"].startswith("etcd 1.0, etcd 2.0 on lab lxc, sim. 1 of 2 runs was")
    assert "tier smoke to hardening, 7,582 operations judged, 3 of 4 faults" in facts["How much"]
    assert "passed (2 of 2, smoke)" in headline(night)[1], "the least of them"
    night.items[0].tries[0].judged = night.items[2].tries[0].judged
    assert "simulation" not in _facts(night)["Under test"]


def test_what_was_not_tested_is_said() -> None:
    items = [
        _item("a", "", ON_NODES, workload="set", nemesis="kill"),
        _item("b", "", ON_NODES, workload="register", nemesis="pause"),
        _item("c", "", None, workload="set", nemesis="pause"),
    ]
    said = _facts(night_with(1, items))["Not tested"]
    assert "no verdict in c" in said
    assert "1 of 4 combinations of its systems, workloads and nemeses (etcd register kill)" in said


def test_a_night_that_went_on_says_so_and_what_died_with_it() -> None:
    night = night_with(1, [_item("a", "", ON_NODES)])
    assert not {"Went on", "Died"} & _facts(night).keys()
    night.gone_on, night.items[0].died = ["20260101T010000Z"], 1
    assert _facts(night)["Went on"] == (
        "It was stopped or killed, and went on 1 time: 20260101T010000Z."
    )
    assert _facts(night)["Died"] == "1 run died with it, of a, and began again."


def test_a_night_that_nobody_works_on_says_how_it_goes_on(tmp_path: Path) -> None:
    item = _item("a", "", ON_NODES)
    item.running = item.tries.pop()
    directory = night_in(tmp_path, 1, [item])
    night = directory.read()
    night.ended, night.exit, night.pid, night.pid_start_time = "", None, 1, 1
    directory.save(night)
    code, said = dstest("nightly", "status", directory.path)
    assert code == Exit.PASS
    assert f"its process is gone: `dstest nightly resume {directory.path}` goes on" in said
    assert "cut off" in said and "running:" not in said


@pytest.mark.parametrize(
    ("control", "judged", "same"),
    [
        ("", msgspec.structs.replace(FAILS, transport="in-process"), True),
        ("red", SIMULATED, True),
        ("", msgspec.structs.replace(FAILS, transport="network"), False),
        ("", FAILS, False),
        ("", msgspec.structs.replace(SIMULATED, exit=3), False),
        ("", msgspec.structs.replace(SIMULATED, holds=False, exit=3), False),
        ("", None, False),
    ],
)
def test_a_simulation_with_a_verdict_comes_out_the_same(
    control: str, judged: TryResult | None, same: bool
) -> None:
    assert _item("a", control, judged).repeats is same
