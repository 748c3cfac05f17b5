"""Histories of true systems in every notation: none is refused, none accused, none is a crash."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from made_jepsen import KINDS as JEPSENS
from made_jepsen import TOTAL
from places import OUTER, OWN, ROOTS
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import DstestError
from dstest.history.export import export_lines
from dstest.history.generator.histories import Spec, events, lines
from dstest.history.generator.true_histories import KINDS, history
from dstest.history.jsonl import write_history

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("judge_here")]

LEVELS = ("strict-serializable", "serializable", "snapshot-isolation", "read-committed")


def check(path: Path, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check", str(path), *options])
    if isinstance(done.exception, DstestError):
        return int(done.exception.exit_code), str(done.exception)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def files(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Objects of every checker in three notations, and transactions of several levels."""
    for kind, facts in KINDS.items():
        for seed in (1, 2, 3):
            made = history(kind, seed, 120)
            options = ["--checker", facts.checker, "--model", facts.model]
            path = folder / f"{kind}-{seed}.jsonl"
            write_history(path, made)
            yield path, options
            for fmt in ("edn", "json"):
                out = folder / f"{kind}-{seed}.{fmt}"
                text = "\n".join(export_lines(made, fmt, keyed=True)) + "\n"
                out.write_text(text, encoding="utf-8")
                yield out, options
    for workload in ("list-append", "rw-register"):
        for level in LEVELS:
            for seed in range(4):
                spec = Spec(workload=workload, txns=80, level=level, seed=seed)
                for fmt in ("jsonl", "edn"):
                    path = folder / f"{workload}-{level}-{seed}.{fmt}"
                    path.write_bytes(b"".join(lines(events(spec), spec, fmt)))
                    yield path, ["--model", level]
                packed = folder / f"{workload}-{level}-{seed}.edn.gz"
                packed.write_bytes(gzip.compress(path.read_bytes()))
                yield packed, ["--model", level]


@pytest.mark.parametrize("quarter", range(4))
@pytest.mark.sampled(1)
def test_three_hundred_true_histories(tmp_path: Path, quarter: int) -> None:
    codes: Counter[int] = Counter()
    wrong: list[str] = []
    for path, options in islice(files(tmp_path), quarter, None, 4):
        code, said = check(path, *options)
        codes[code] += 1
        if code in (1, 2, 4):
            wrong.append(f"{path.name}: {said[:300]}")
    assert wrong == []
    assert codes.total() >= 72
    assert codes[0] >= 0.95 * codes.total(), codes


def registers() -> list[Path]:
    folders = [root / f for root in ROOTS for f in ("knossos", "elle-cli/knossos")]
    return [p for f in folders for p in sorted((f / "cas-register" / "good").glob("*.*"))]


def test_registers_and_logs_keep_their_verdicts() -> None:
    for path in registers():
        code, said = check(path)
        assert code == 0, f"{path.name}: {said}"
    for root in ROOTS:
        facts = json.loads((root / "porcupine" / "verdicts.json").read_text())
        logs = [row for row in facts if str(row.get("file", "")).endswith(".log")][:40]
        assert len(logs) >= 20
        for row in logs:
            path = root / "porcupine" / row["file"]
            if path.exists() and path.stat().st_size:
                assert check(path)[0] == (0 if row["expected"] == "ok" else 1), path.name


OPTIONS = {
    "bank": ["-o", f"bank_total={TOTAL}"],
    "queue": ["--checker", "total-queue"],
    "set": ["--checker", "set"],
}


@pytest.mark.parametrize("notation", ["edn", "json"])
@pytest.mark.parametrize("kind", JEPSENS)
@pytest.mark.parametrize(("verdict", "code"), [("good", 0), ("bad", 1)])
def test_jepsens_notations(kind: str, notation: str, verdict: str, code: int) -> None:
    got, said = check(OWN / "jepsen" / verdict / f"{kind}.{notation}", *OPTIONS.get(kind, []))
    assert got == code, said


def test_a_bank_that_nobody_told_its_total_is_unknown() -> None:
    assert check(OWN / "jepsen" / "good" / "bank.edn")[0] == 3


@pytest.mark.parametrize("verdict", ["good", "bad"])
@pytest.mark.parametrize("model", ["cas-register", "fifo-queue", "fencing-lock", "counter"])
def test_our_own_notation(model: str, verdict: str) -> None:
    path = OWN / "ours" / model / verdict / "made-0.jsonl"
    code, said = check(path, "--checker", "linearizable", "--model", model)
    assert code == (verdict == "bad"), said


@pytest.mark.outer_corpora
@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("bank.edn", [], 3),
        ("bank.edn", ["-o", "bank_total=100"], 0),
        ("bank.json", ["-o", "bank_total=100"], 0),
        ("bank-neg.edn", ["--workload", "bank"], 3),
        ("set.edn", ["--checker", "set"], 0),
        ("counter.edn", ["--workload", "counter"], 3),
    ],
)
def test_jepsens_own_files(name: str, options: list[str], code: int) -> None:
    assert OUTER is not None
    got, said = check(OUTER / "elle-cli" / "jepsen" / name, *options)
    assert got == code, said
