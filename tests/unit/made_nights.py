"""Nights as they lie in a store, made without a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dstest.campaign.nightly.cells import Expectation
from dstest.campaign.nightly.outcome import TryResult
from dstest.campaign.nightly.state import Item, Night, NightDir, Try
from dstest.campaign.nightly.verdict import settle
from dstest.core.verdict import State

__all__ = ["FAILS", "PASSES", "STRANGE", "item_of", "night_in", "night_with"]

FAILS = TryResult(state=State.FAIL_REPRODUCIBLE, exit=1, anomalies=["lost"], found_s=6.0)
STRANGE = TryResult(state=State.FAIL_REPRODUCIBLE, exit=1, anomalies=["torn"], found_s=6.0)
PASSES = TryResult(state=State.PASS_SMOKE, exit=0, planned=1, landed=1)


def item_of(
    name: str,
    control: str,
    tries: Sequence[TryResult | None],
    seed: int = 1,
    why: str = "new",
    skipped: str = "",
) -> Item:
    """A cell whose tries came to this; None left no run."""
    red = control == "red"
    expected = Expectation(control=control, anomalies=("lost",) if red else (), by_fault=False)  # type: ignore[arg-type]
    item = Item(
        id=f"{name}.{seed}", cell=name, key=name, system="etcd", version="", workload="set",
        nemesis="kill", argv=["run"], files=[], expected=expected, limit_s=1, seed=seed, why=why,
        skipped=skipped,
    )  # fmt: skip
    for number, judged in enumerate(tries, 1):
        one = Try(number=number, started="20260101T000000Z")
        settle(item, one, judged, "dstest: no image")
        item.tries.append(one)
    return item


def night_with(number: int, items: list[Item], exit_: int = 3) -> Night:
    return Night(
        name="n", number=number, config_sha256="", at="local", workers=1, budget_s=60, reruns=1,
        passes=3, dstest="0", started="20260101T000000Z", ended="x", items=items, exit=exit_,
    )  # fmt: skip


def night_in(store: Path, number: int, items: list[Item]) -> NightDir:
    return NightDir.create(store, night_with(number, items), b"")
