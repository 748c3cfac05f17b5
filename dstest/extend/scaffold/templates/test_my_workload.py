"""`my-workload`: its operations are as declared, repeat, and can be judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dstest.core import registry
from dstest.core.check import Budget, CheckResult
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.core.protocols import OpDraft
from dstest.core.registry import offered

WORKLOAD: Any = offered(Path(__file__).with_name("my_workload.py"))["workloads"]
OPTIONS = {key: option.default for key, option in WORKLOAD.options.items()}


def drafts(seed: int, worker: int, count: int = 500) -> list[OpDraft]:
    generator = WORKLOAD.generator(seed, worker, 10, OPTIONS)
    return [generator.next() for _ in range(count)]


def judged(drafts: list[OpDraft], *, lost: int | None = None) -> CheckResult:
    """The checker's answer for a store that does one operation after the other.

    The write with the index `lost` is acknowledged and forgotten.
    """
    store: dict[Any, Any] = {}
    ops = []
    for index, draft in enumerate(drafts):
        if draft.op_type == "write" and index != lost:
            store[draft.key] = draft.input
        ops.append(
            Op(
                op_id=index,
                process_id=0,
                invoke_ts=index * 10,
                complete_ts=index * 10 + 5,
                op_type=draft.op_type,
                key=draft.key,
                input=draft.input,
                output=store.get(draft.key) if draft.op_type == "read" else None,
            )
        )
    checker = registry.load("checkers", WORKLOAD.checkers[0])
    history = History(header=Header(model=WORKLOAD.model), ops=ops)
    result: CheckResult = checker.check(history, WORKLOAD.model, Budget())
    return result


def test_it_does_what_it_declares() -> None:
    assert {draft.op_type for draft in drafts(1, 0)} == WORKLOAD.op_types
    assert set(WORKLOAD.minimum) <= WORKLOAD.op_types


def test_the_same_seed_gives_the_same_operations() -> None:
    assert drafts(1, 0) == drafts(1, 0)
    assert drafts(1, 0) != drafts(2, 0)
    assert drafts(1, 0) != drafts(1, 1)


def test_workers_share_no_key() -> None:
    assert not {draft.key for draft in drafts(1, 0)} & {draft.key for draft in drafts(1, 1)}


def test_a_good_store_is_valid_and_a_lost_write_is_not() -> None:
    done = drafts(1, 0)
    assert judged(done).valid is True
    assert judged(done, lost=_read_next(done)).valid is False


def _read_next(done: list[OpDraft]) -> int:
    """A write whose key is read before it is written again."""
    for index, draft in enumerate(done):
        later = next((d for d in done[index + 1 :] if d.key == draft.key), None)
        if draft.op_type == "write" and later is not None and later.op_type == "read":
            return index
    pytest.fail("nothing that was written is ever read")
