"""`dstest check` of files of Plume, AWDIT, DBCop and Cobra: found out by looking, or named."""

from __future__ import annotations

import gzip
import json
import random
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import session_files as made
import typer.main
from session_files import History
from typer.testing import CliRunner

from checkers.txn.sessions.formats import READERS
from dstest.cli.app import app
from dstest.core.errors import DstestError
from dstest.core.formats import AUTO, FORMATS, OPERATIONS, SESSIONS

pytestmark = pytest.mark.slow

GOOD: History = [
    [([("w", 1, 5)], True), ([("r", 2, 6)], True)],
    [([("r", 1, 5), ("w", 2, 6)], True)],
]
STALE: History = [
    [([("w", 1, 5)], True), ([("w", 1, 6)], True)],
    [([("r", 1, 6)], True), ([("r", 1, 5)], True)],
]


def check(path: Path, *asked: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check", str(path), *asked])
    if isinstance(done.exception, DstestError):
        return int(done.exception.exit_code), f"{done.exception}\n{done.exception.remedy}"
    return done.exit_code, done.output


def files(folder: Path, history: History) -> dict[str, Path]:
    """A history in every notation, by name; the first word is the format."""
    folder.mkdir(exist_ok=True)
    texts: dict[str, Any] = {
        "plume": made.plume(history),
        "awdit": made.awdit(history),
        "dbcop old json": made.old_json(history),
        "dbcop new json": made.new_json(history),
        "dbcop compact json": made.new_json(history, True),
        "dbcop text": made.marks(history),
        "dbcop bincode": made.bincode(history),
    }
    found = {name: folder / f"{name}.txt" for name in texts}
    for name, text in texts.items():
        found[name].write_bytes(text if isinstance(text, bytes) else text.encode())
    packed = folder / "packed.gz"
    packed.write_bytes(gzip.compress(found["plume"].read_bytes()))
    inside = folder / "dbcop"
    inside.mkdir()
    (inside / "history.bincode").write_bytes(texts["dbcop bincode"])
    logs = made.put_logs(folder / "logs", made.cobra(history))
    stamped = made.put_logs(folder / "stamped", made.cobra(history, True))
    return {
        **found,
        "plume packed": packed,
        "dbcop directory": inside,
        "cobra": logs,
        "cobra with times": stamped,
    }


@pytest.mark.parametrize(("history", "code"), [(GOOD, 0), (STALE, 1)])
def test_every_format_is_found_out_and_judged(tmp_path: Path, history: History, code: int) -> None:
    for name, path in files(tmp_path / "h", history).items():
        fmt = name.split(" ")[0]
        for asked in ([], ["--format", fmt], ["--workload", "rw-register"]):
            got, said = check(path, *asked)
            assert got == code, (name, asked, said)
            assert "under strong-session-serializable" in said
            assert ("every key starts as 0" in said) is (fmt in ("plume", "dbcop")), name
        got, said = check(path, "--json")
        assert json.loads(said)["stats"]["format"] == fmt


def test_real_time_is_not_in_them(tmp_path: Path) -> None:
    for name, path in files(tmp_path / "h", GOOD).items():
        got, said = check(path, "--model", "strict-serializable")
        assert (got, "asks for real time" in said) == (3, True), name
    for name, path in files(tmp_path / "bad", STALE).items():
        assert check(path, "--model", "strict-serializable")[0] == 1, name
    got, said = check(tmp_path / "h" / "plume.txt", "-o", "linearizable-keys=yes")
    assert (got, "no times" in said) == (2, True)


def test_a_violation_is_told_without_made_up_positions(tmp_path: Path) -> None:
    for name, path in files(tmp_path / "h", STALE).items():
        out = tmp_path / f"report {name}"
        got, said = check(path, "--report", str(out))
        assert got == 1 and "_event" not in said and "_ns" not in said, said
        assert "..." not in said, said
        assert list(out.glob("cycle-*.svg")), name
        rows = json.loads((out / "result.json").read_bytes())["anomalies"].values()
        assert {row["invoke_event"] for group in rows for a in group for row in a["witness"]} == {
            None
        }


def test_the_initial_state_may_be_told(tmp_path: Path) -> None:
    text = tmp_path / "h"
    text.write_text("r 1 7\nw 1 8\n---\nr 1 8\n===\nr 1 7\n")
    assert check(text)[0] == 1
    got, said = check(text, "--initial", "7")
    assert got == 0 and "every key starts as 7, as --initial says" in said
    assert check(text, "--initial", '{"1": 7}')[0] == 0
    got, said = check(text, "--initial", '{"2": 7}')
    assert (got, "does not occur" in said) == (2, True)
    got, said = check(text, "--initial", "8")
    assert (got, "starts with it" in said) == (2, True)
    for written in ("w 1 5\n---\nr 1 5\n", "w 1 5\n===\nw 2 5\n===\nr 1 5\n", "r 1 5\nw 1 5\n"):
        text.write_text(written)
        assert check(text)[0] != 2
        for start in ("5", '{"1": 5}'):
            got, said = check(text, "--initial", start)
            assert (got, "writes 5 to key 1, which starts with it" in said) == (2, True), said
    logs = made.put_logs(tmp_path / "logs", made.cobra(GOOD))
    got, said = check(logs, "--initial", "0")
    assert (got, "numbers of writes" in said) == (2, True)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--workload", "bank"], "cannot judge it"),
        (["--checker", "linearizable"], "cannot judge it"),
        (["--workload", "list-append"], "cannot judge it"),
        (["--independent"], "leave it out"),
        (["-o", "total=3"], "total"),
        (["--model", "fifo-queue"], "fifo-queue"),
        (["--initial", "{"], "JSON"),
        (["--initial", "[1]"], "no scalar"),
    ],
)
def test_what_they_do_not_hold_is_refused(tmp_path: Path, asked: list[str], said: str) -> None:
    path = tmp_path / "h.txt"
    path.write_text(made.plume(GOOD))
    got, text = check(path, *asked)
    assert (got, said in text) == (2, True), text


def test_a_value_that_two_transactions_write_is_decided(tmp_path: Path) -> None:
    path = tmp_path / "h"
    path.write_text("w(1,5,0,7)\nw(1,5,1,9)\nr(1,5,2,8)\n")
    assert check(path)[0] == 0
    # whichever 8 read from wrote to key 2, too
    path.write_text("w(1,5,0,7)\nw(2,6,0,7)\nw(1,5,1,9)\nw(2,7,1,9)\nr(1,5,2,8)\nr(2,0,2,8)\n")
    got, said = check(path)
    assert (got, "which T7, T9 wrote" in said) == (1, True), said


@pytest.mark.parametrize("fmt", SESSIONS)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, fmt: str) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_text('{"process": 0, "type": "invoke", "f": "read"}\n')
    nothing = tmp_path / "nothing"
    nothing.write_text("")
    for path in (foreign, nothing, tmp_path / "absent"):
        got, said = check(path, "--format", fmt)
        assert got == 2 and said.split("\n")[1], said
    for name, path in files(tmp_path / "h", GOOD).items():
        if name.split(" ")[0] != fmt:
            assert check(path, "--format", fmt)[0] == 2, name


@pytest.mark.parametrize("fmt", SESSIONS)
@pytest.mark.sampled(1)
def test_bytes_by_chance_are_refused(tmp_path: Path, fmt: str) -> None:
    dice = random.Random(fmt)
    words = [b"r(1,2,3,4)\n", b"w 1 2\n", b"---\n", b"=\n", b"[x:=1]\n", b'{"data": [', b"[[",
             b"]", b"S", bytes(8), b"W", b"C", b'"events": ', b"\xff" * 8, b"\n", b"-", b"\x1f\x8b",
             b"//", struct.pack("<Q", 2**63), struct.pack("<5Q", *range(5))]  # fmt: skip
    path = tmp_path / "h"
    for round_ in range(150):
        if round_ % 2:
            raw = dice.randbytes(dice.randint(0, 300))
        else:
            raw = b"".join(dice.choices(words, k=dice.randint(1, 12)))
        path.write_bytes(raw)
        got, said = check(path, "--format", fmt)
        assert got in (0, 1, 2, 3), (raw, said)
        assert got != 2 or said.split("\n")[1], said


def test_a_memory_budget_holds(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(b"w(1,2,3,4)\n" * 8_000_000))
    large = tmp_path / "large.txt"
    large.write_bytes(b"".join(b"w %d %d\n---\n" % (i % 50, i) for i in range(1_000_000)))
    deep = tmp_path / "deep.json"
    deep.write_bytes(b"[" * 5_000_000)
    for path, fmt, code in ((bomb, "plume", 3), (large, "awdit", 3), (deep, "dbcop", 2)):
        done = subprocess.run(
            [sys.executable, "-c", PEAK, str(path), "--format", fmt, "--budget-mb", "60"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert int(done.stderr.split()[-1]) < 60 + 90, done.stderr
        assert code == 2 or "budget" in done.stdout, done.stdout


PEAK = """
import sys
from dstest.cli.entry import main
sys.argv[1:1] = ["check"]
try:
    main()
finally:
    told = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print(int(told["VmHWM"].split()[0]) >> 10, file=sys.stderr)
"""


def test_there_is_one_list_of_formats(tmp_path: Path) -> None:
    """The page, the help, the remedies and the readers have the same."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "formats.md").read_text()
    rows = re.findall(r"^\| (`[^|]*) \| ([^|]*) \| ([^|]*) \|$", page.split("\n## ")[0], re.M)
    told = [(name, by, what) for names, by, what in rows for name in re.findall(r"\w+", names)]
    assert told[1:] == [(name, of.written_by, of.objects) for name, of in FORMATS.items()]
    assert set(SESSIONS) == set(READERS)
    assert (*OPERATIONS, *SESSIONS) == tuple(FORMATS)
    path = tmp_path / "h"
    for content in (b"x", b"\0\1", b"", "\u00ff".encode("latin-1")):
        path.write_bytes(content)
        got, said = check(path)
        assert got == 2
        assert "|".join([AUTO, *FORMATS]) in said, said
    got, said = check(path, "--format", "xml")
    assert (got, ", ".join([AUTO, *FORMATS]) in said) == (2, True)
    for fmt in OPERATIONS:
        assert "no format" not in check(path, "--format", fmt)[1]
    command = typer.main.get_command(app).commands["check"]  # type: ignore[attr-defined]
    shown = next(p.help for p in command.params if p.name == "format_")
    assert shown == f"{', '.join([AUTO, *FORMATS])}."


def test_binary_files_that_nobody_knows_name_the_formats_they_may_be_in(tmp_path: Path) -> None:
    path = tmp_path / "h"
    path.write_bytes(bytes(100))
    got, said = check(path)
    assert (got, "--format dbcop or --format cobra" in said) == (2, True), said
    path.write_bytes(made.cobra([[*GOOD[0][:1], ([("r", 1, 5)], True)]])["T0.log"])
    assert check(path)[0] == 0
