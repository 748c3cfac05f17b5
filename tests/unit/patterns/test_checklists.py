"""A box is ticked where somebody has looked, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from planted_runs import LOAD_S, Cluster, journal_files, op, ops_of, partition, planted

from dstest.debug.patterns.analysis import PATTERNS
from dstest.debug.patterns.checklists import LISTS, Box, _SignItem
from dstest.debug.patterns.diagnosis import diagnose

pytestmark = pytest.mark.slow

SIDES = "one side alone accepted writes"


def led(path: Path, *, split: bool = False) -> Path:
    """One leader that decides; `split`: a second one of its term."""
    cluster = Cluster()
    cluster.elect(0.5, 1, 1)
    cluster.steady(1.0, 40 if split else LOAD_S)
    if split:
        cluster.note(40, 3, "campaign", term=1, last=[1, 5])
        cluster.note(40.1, 3, "lead", term=1, votes=[2, 3])
    return planted(path, files=journal_files(cluster))


def boxes(path: Path) -> dict[str, Box]:
    return {box.text: box for one in diagnose(path).checklists.values() for box in one}


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("one leader a term, and one decision an index", "wrote of their protocol"),
        ("one vote a term", "wrote of their protocol"),
        ("decisions within 5 s", "wrote of their protocol"),
        ("once", "no checker has judged it"),
        ("replicas are complete", "wrote of their protocol"),
        ("data keep their own rules", "no checker has judged it"),
    ],
)
def test_what_nobody_looked_at_is_open(text: str, lacks: str, tmp_path: Path) -> None:
    box = boxes(planted(tmp_path / "run", system="shop"))[text]
    assert box.state == "open" and lacks in box.why, box


def test_what_the_decisive_sign_looked_at_is_ticked_and_says_so(tmp_path: Path) -> None:
    found = boxes(led(tmp_path / "run"))
    one = found["one leader a term, and one decision an index"]
    assert one.state == "ok" and one.why.startswith("by two-leaders, conflicting-commits; not look")
    assert found["no spike of latency"].why.startswith("by p95; not looked for: sampled")


def test_decisive_signs_are_signs_of_their_pattern() -> None:
    signs = {pattern.id: {sign.id for sign in pattern.signs} for pattern in PATTERNS}
    asked = [one for every in LISTS.values() for one in every if isinstance(one, _SignItem)]
    assert len(asked) > 20
    for one in asked:
        assert signs[one.pattern].issuperset(one.decisive), one
        assert one.decisive or one.sign or len(signs[one.pattern]) == 1, one


def cut_off(path: Path, node: str, landed: str = "yes") -> Box:
    """Writes are acknowledged by one node while n1 is cut off, by all others before and after."""

    def change(number: int, second: float) -> dict[str, Any] | None:
        return {"node_seen": node} if 19 < second < 50 else {}

    record = partition(20, 49, landed=landed)
    return boxes(planted(path, ops_of(change), records=[record]))[SIDES]


def test_one_side_alone(tmp_path: Path) -> None:
    assert boxes(planted(tmp_path / "none"))[SIDES].state == "open"
    assert cut_off(tmp_path / "no", "n1", "no").state == "open"
    assert cut_off(tmp_path / "most", "n2").state == "ok"
    seen = cut_off(tmp_path / "alone", "n1")
    assert seen.state == "seen" and "n1 acknowledged" in seen.why
    proven = boxes(led(tmp_path / "split", split=True))[SIDES]
    assert proven.state == "seen" and "term 1" in proven.why


def test_a_queue_whose_losses_nobody_can_find_is_open(tmp_path: Path) -> None:
    ops = [op(n, n / 10, op_type="enqueue", key="q", input=n) for n in range(20)]
    assert boxes(planted(tmp_path / "run", ops))["what is sent arrives"].state == "open"
