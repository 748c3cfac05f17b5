"""Generated histories: what a level promises holds, what is injected is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.txn.api import check
from checkers.txn.ingest import load
from dstest.core.errors import ConfigError
from dstest.history.generator.histories import (
    GADGETS,
    LEVELS,
    NEED_WFR,
    Spec,
    events,
    lines,
    parse_injections,
)

pytestmark = pytest.mark.slow

TRANSACTIONAL = ("list-append", "rw-register")


def text_of(spec: Spec, fmt: str = "jsonl") -> bytes:
    return b"".join(lines(events(spec), spec, fmt))


@pytest.mark.parametrize("workload", TRANSACTIONAL)
@pytest.mark.parametrize("level", LEVELS)
def test_a_clean_history_is_valid_at_its_level(workload: str, level: str) -> None:
    for seed in range(15):
        spec = Spec(workload=workload, level=level, txns=200, concurrency=1 + seed, seed=seed)
        result = check(load(text_of(spec)), workload, [level])
        assert result.valid is True, (seed, result.anomaly_types)


@pytest.mark.parametrize(
    ("level", "model"),
    [
        ("serializable", "strict-serializable"),
        ("snapshot-isolation", "serializable"),
        ("read-committed", "snapshot-isolation"),
    ],
)
def test_a_weaker_level_is_not_a_stronger_one(level: str, model: str) -> None:
    spec = Spec(level=level, txns=3000, concurrency=20)
    assert check(load(text_of(spec)), "list-append", [model]).valid is False


@pytest.mark.parametrize(
    ("workload", "name"), [(w, name) for w in TRANSACTIONAL for name in GADGETS[w]]
)
def test_what_is_injected_is_found(workload: str, name: str) -> None:
    model = "strong-session-serializable" if name.endswith("-process") else "strict-serializable"
    opts = {"wfr-keys?": True} if workload == "rw-register" and name in NEED_WFR else {}
    for seed in range(3):
        spec = Spec(workload=workload, txns=400, inject={name: 1}, seed=seed)
        result = check(load(text_of(spec, "edn")), workload, [model], opts)
        assert name in result.anomaly_types


def test_a_seed_is_a_history() -> None:
    spec = Spec(txns=300, seed=4, inject={"G1c": 2})
    assert text_of(spec) == text_of(spec)
    assert text_of(spec) != text_of(Spec(txns=300, seed=5, inject={"G1c": 2}))


def test_every_transaction_ends_and_counts_fit() -> None:
    spec = Spec(txns=500, fail_share=0.2, info_share=0.2, inject={"G1a": 3})
    columns = load(text_of(spec))
    assert columns.txns == 500 + 3 * 2
    assert 0 < (columns.outcome == 1).sum() < 200
    assert 0 < (columns.outcome == 2).sum() < 200


def test_names_that_nobody_knows_are_refused() -> None:
    for spec in (
        Spec(workload="bank"),
        Spec(level="eventual"),
        Spec(inject={"G9": 1}),
        Spec(workload="rw-register", inject={"dirty-update": 1}),
    ):
        with pytest.raises(ConfigError):
            list(events(spec))
    with pytest.raises(ConfigError):
        parse_injections(["G1c:x"])
    assert parse_injections(["G1c:2,G0", "G0:3"]) == {"G1c": 2, "G0": 4}


def test_the_command_writes_a_file(tmp_path: Path) -> None:
    from dstest.cli.simulate import generate

    path = tmp_path / "history.jsonl"
    generate(
        workload="list-append", txns=50, concurrency=3, level="serializable", inject=["G1c:2"],
        seed=1, fail_share=0.0, info_share=0.0, format_="jsonl", output=path,
    )  # fmt: skip
    assert load(path).txns == 54


def test_a_register_history_is_linearizable_unless_asked(tmp_path: Path) -> None:
    from checkers.linearizable import CHECKER
    from dstest.core.check import Budget
    from dstest.history.importers import load_history

    for inject, valid in (({}, True), ({"nonlinearizable": 1}, False)):
        spec = Spec(workload="register", txns=300, concurrency=5, inject=inject)
        path = tmp_path / "history.jsonl"
        path.write_bytes(text_of(spec))
        assert CHECKER.check(load_history(path), "register", Budget()).valid is valid
