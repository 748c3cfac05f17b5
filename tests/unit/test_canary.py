"""Mutants on histories small enough to see by eye."""

from __future__ import annotations

from typing import Any

import pytest
from canary_tried import KINDS, REGISTERS, canary

from dstest.core.check import CheckResult
from dstest.core.history import Header, History
from dstest.core.op import Op


def register(*steps: str, gap: int = 10) -> History:
    """`w1` writes 1, `w1?` with unknown outcome, `w1!` fails, `r1` reads 1, `r-` reads nothing.

    Steps run one after the other, each on its own process.
    """
    ops = []
    for i, step in enumerate(steps):
        kind, mark = step[0], step[-1]
        number = step[1:].rstrip("?!")
        value = None if number == "-" else int(number)
        unknown = mark == "?"
        ops.append(
            Op(
                op_id=i,
                process_id=i,
                invoke_ts=i * gap,
                complete_ts=None if unknown else i * gap + 5,
                op_type="read" if kind == "r" else "write",
                key="k",
                input=value if kind == "w" else None,
                output=value if kind == "r" else None,
                error="refused" if mark == "!" else None,
                timeout_marker=unknown,
            )
        )
    return History(header=Header(), ops=ops)


def says(valid: Any) -> Any:
    return lambda history: CheckResult(checker="stub", valid=valid)


def kinds(history: History) -> set[str]:
    return {mutant.kind for mutant in REGISTERS.make(history, 7)}


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (register("w1", "r1", "w2", "r2"), set(KINDS)),
        (register("w1", "r1"), {"phantom-value", "lost-write"}),
        (register("r-"), {"phantom-value"}),
        (register("w1", "w2", "r2"), {"phantom-value", "lost-write", "stale-read"}),
        (register("w1?", "r1"), {"phantom-value"}),
        (register("w1", "w1", "r1"), {"phantom-value"}),
        (register("w1", "w1?", "w2", "r2"), {"phantom-value", "lost-write"}),
        (register("r-", "w1", "r1"), {"phantom-value", "lost-write", "swapped-reads"}),
        (register("w1", "w2"), set()),
        (register(), set()),
    ],
)
def test_a_kind_is_made_only_where_it_is_a_violation(history: History, expected: set[str]) -> None:
    assert kinds(history) == expected


def test_overlapping_operations_make_no_stale_read() -> None:
    assert kinds(register("w1", "w2", "r2", gap=2)) <= {"phantom-value"}


def test_a_definite_failure_is_no_writer() -> None:
    assert "stale-read" in kinds(register("w1", "w1!", "w2", "r2"))


@pytest.mark.parametrize(("valid", "killed"), [(False, 4), (True, 0), ("unknown", 0)])
def test_only_a_rejection_counts(valid: Any, killed: int) -> None:
    found = canary(register("w1", "r1", "w2", "r2"), says(valid), seed=1)
    assert found[:2] == (killed, 4)
    assert {row["kind"] for row in found[2]} == set(KINDS)
    assert all(row["valid"] is valid or row["valid"] == valid for row in found[2])


def test_nothing_to_mutate_is_zero_of_zero() -> None:
    assert canary(register("w1"), says(False), seed=1) == (0, 0, [])


def test_the_same_seed_makes_the_same_mutants() -> None:
    history = register("w1", "r1", "w2", "r2", "w3", "r3")
    first = [(m.kind, m.description) for m in REGISTERS.make(history, 3)]
    assert first == [(m.kind, m.description) for m in REGISTERS.make(history, 3)]


def test_the_original_is_left_alone() -> None:
    history = register("w1", "r1", "w2", "r2")
    before = list(history.ops)
    canary(history, says(False), seed=1)
    assert history.ops == before
