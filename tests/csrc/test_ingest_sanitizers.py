"""The reader under AddressSanitizer and UndefinedBehaviorSanitizer: cut, mutated, starved."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest
from sanitized_build import HERE, ROUNDS, SanitizedBuild

from dstest.history.generator.histories import Spec, events, lines

pytestmark = pytest.mark.slow

CORPUS = sorted(str(p) for n in ("jsonl", "edn", "json") for p in (HERE / "corpus" / n).iterdir())
SOURCES = "common/core_*.c ingest/*.c"

ODD = b"""; comment
{:type :invoke, :f :txn, :process 0, :value [[:append "k\\u00e9" 1] [:r :kw nil]], :index 0}
#jepsen.history.Op{:index 1 :type :ok :process 0 :f :txn, :value ((:append "k\\u00e9" 1) [:r :kw
 [1 2.5 "x" true -7 12345678901234567890N]]) #_ (a b #{c}) :error #foo/bar {:a [1 2]}}
{:type :info, :process :nemesis, :f :start, :value {:n1 "down" \\a 1/2}}
{:value [[:w 9999999 1.5M]], :type :fail, :process 1}
"""


@pytest.mark.parametrize(("seed", "defines"), [(1, ()), (2, ("-DWORTH_A_THREAD=1",))])
def test_malformed_histories_under_sanitizers(
    build: SanitizedBuild, tmp_path: Path, seed: int, defines: tuple[str, ...]
) -> None:
    spec = Spec(txns=12, concurrency=3, fail_share=0.2, info_share=0.2)
    ours = b"".join(lines(events(spec), spec, "jsonl"))
    edn = b"".join(lines(events(spec), spec, "edn"))
    json_ = b'[{"type":"ok","process":0,"f":"txn","value":[["r","x",[1,2]],["append","y",3]]}]\n'
    files = []
    # the driver reads file number i, counted from 3, as notation i % 3 when it cuts it
    for name, content in [("a", ours), ("b", edn), ("c", json_), ("d", ours), ("e", ODD)]:
        path = tmp_path / name
        path.write_bytes(content)
        files.append(str(path))
    driver = build.program(
        tmp_path,
        ["fuzz_ingest.c", "target_ingest.c"],
        SOURCES,
        ("-DING_SMALL=64", *defines),
    )
    rounds = str(800 * ROUNDS)
    ran = subprocess.run(
        [driver, str(seed), rounds, *files], capture_output=True, text=True, timeout=110
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == f"5 files, {rounds} rounds\n"
    ran = subprocess.run([driver, "1", "0", *CORPUS], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == f"{len(CORPUS)} files, 0 rounds\n"


def operations(dice: random.Random) -> bytes:
    """A history of operations, with mutations in one of two."""
    text = b'{"schema":"dstest.history/1"}\n'
    for i in range(dice.randint(0, 6)):
        unknown = dice.random() < 0.2
        record = {
            "op_id": i, "process_id": dice.choice([i, f"p{i}"]), "invoke_ts": 3 * i,
            "complete_ts": None if unknown else 3 * i + dice.randint(0, 5),
            "op_type": dice.choice(["read", "write"]), "key": dice.choice(["x", 1, None]),
            "input": dice.choice([None, 1, 2.5, "a", [1, "b"], {"a": 1}]),
            "output": None if unknown else dice.choice([None, True, -7, [1]]), "error": None,
            "timeout_marker": unknown, "node_seen": "n1", "fault_epoch": None,
        }  # fmt: skip
        text += json.dumps(record, separators=(",", ":")).encode() + b"\n"
    for _ in range(dice.choice([0, 0, 1, 3])):
        at = dice.randrange(len(text))
        text = (
            text[:at] + dice.choice([b"", b"\n", b"{", b'"', b"9" * 30, b"\xff"]) + text[at + 1 :]
        )
    return text


@pytest.mark.parametrize("defines", [(), ("-DOPS_WORTH_A_THREAD=1",)])
def test_operations_under_sanitizers(
    build: SanitizedBuild, tmp_path: Path, defines: tuple[str, ...]
) -> None:
    dice = random.Random(9)
    (tmp_path / "in").mkdir()
    for i in range(1000 * ROUNDS):
        (tmp_path / "in" / f"{i}").write_bytes(operations(dice))
    files = sorted(str(path) for path in (tmp_path / "in").iterdir())
    files += sorted(str(p) for p in (HERE / "corpus" / "ops").iterdir())
    sources = f"{SOURCES} ops/*.c"
    harness = ["replay.c", "target_ops.c"]
    driver = build.program(tmp_path, harness, sources, ("-DING_SMALL=64", *defines))
    ran = subprocess.run([driver, *files], capture_output=True, text=True, timeout=110)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == f"{len(files)} files\n"
