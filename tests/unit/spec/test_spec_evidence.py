"""What is not there was not held to anything: runs with a part of their files, or with changed
ones, are not accepted."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from clusters.systems.toykv.agents.main import lines_into
from dstest.cli.app import app
from dstest.core.errors import EvidenceError, Exit, HistoryError
from dstest.history.layout import EVENTS
from dstest.history.sums import sums_of
from dstest.spec.merge import merge

pytestmark = pytest.mark.slow

FILE = "protocol.jsonl"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a server that was killed."""
    store = tmp_path_factory.mktemp("runs")
    words = ["run", "--lab", "sim", "--system", "toykv", "--workload", "register", "--nodes", "3"]
    words += ["--nemesis", "kill", "--seed", "1", "--time-limit", "20", "--rate", "20"]
    CliRunner().invoke(app, [*words, "--store", str(store)])
    (run,) = store.glob("toykv-register-kill/*")
    return run


@pytest.fixture
def run(sealed: Path, tmp_path: Path) -> Path:
    shutil.copytree(sealed, tmp_path / "run")
    return tmp_path / "run"


def held(path: Path, *words: str, spec: str = "raft") -> Result:
    return CliRunner().invoke(app, ["spec", "conform", spec, str(path), *words])


def journal(run: Path, node: str = "n3") -> Path:
    return run / "nodes" / node / FILE


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def keep(path: Path, count: int) -> None:
    path.write_bytes(b"".join(lines_of(path)[:count]))


def gone(run: Path) -> None:
    shutil.rmtree(run / "nodes" / "n3")


def garbled(run: Path) -> None:
    rows = lines_of(journal(run))
    journal(run).write_bytes(b"".join([*rows[:50], b"#" + rows[50], *rows[51:]]))


def inserted(run: Path) -> None:
    rows = lines_of(journal(run))
    journal(run).write_bytes(b"".join([*rows[:50], b"###\n", *rows[50:]]))


def in_mid_line(run: Path) -> None:
    text = b"".join(lines_of(journal(run))[:60])
    journal(run).write_bytes(text[:-9])


def short(run: Path) -> None:
    for node in ("n1", "n2"):
        keep(journal(run, node), 20)


def hole(run: Path) -> None:
    rows = lines_of(journal(run))
    journal(run).write_bytes(b"".join([*rows[:50], *rows[51:]]))


def last_line(run: Path) -> None:
    keep(journal(run), -1)


def empty(run: Path) -> None:
    journal(run).write_bytes(b"")


def test_a_whole_run_is_accepted(run: Path) -> None:
    done = held(run)
    assert done.exit_code == Exit.PASS and done.stdout.startswith("accept: ")
    assert held(run, spec="register").exit_code == Exit.PASS


CHANGES = (gone, garbled, inserted, in_mid_line, short, hole, last_line, empty)


@pytest.mark.parametrize("change", CHANGES)
def test_a_sealed_run_is_as_it_was_summed_up(run: Path, change: Callable[[Path], None]) -> None:
    change(run)
    error = held(run).exception
    assert isinstance(error, EvidenceError) and FILE in str(error)


@pytest.mark.parametrize("name", ["sha256sums", "run.json"])
def test_what_says_so_is_there(run: Path, name: str) -> None:
    (run / name).unlink()
    assert isinstance(held(run).exception, EvidenceError)


def test_what_is_not_read_may_have_changed(run: Path) -> None:
    (run / "report.html").write_text("mine")
    (run / "notes.txt").write_text("mine")
    assert held(run).exit_code == Exit.PASS


def test_a_history_is_as_it_was_summed_up(run: Path) -> None:
    keep(run / "history.jsonl", 300)
    assert isinstance(held(run, spec="register").exception, EvidenceError)


SAID = (
    (gone, "n3 of run.json has no line in a protocol.jsonl"),
    (empty, "n3 of run.json has no line in a protocol.jsonl"),
    (garbled, "n3, line 51: cannot be read, and there is more behind it"),
    (inserted, "n3, line 51: cannot be read, and there is more behind it"),
    (hole, "n3, line 51: 52 follows 50: lines are missing"),
    (in_mid_line, "of n3, which is in no file"),
    (short, "which is in no file"),
)


@pytest.mark.parametrize(("change", "said"), SAID)
def test_what_is_missing_is_told(run: Path, change: Callable[[Path], None], said: str) -> None:
    """Where the sums do not tell, what is left does."""
    (run / "sha256sums").unlink()
    (run / "status").write_text("running")
    change(run)
    done = held(run, "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["verdict"]) == (Exit.NOT_PROVEN, "inconclusive")
    assert any(said in one for one in found["weak"]), found["weak"]
    assert said in held(run).output


Kept = dict[str, dict[str, int]]


def all_of_them(kept: Kept) -> None:
    pass


def one_was_longer(kept: Kept) -> None:
    kept["n3/protocol.jsonl"]["bytes"] += 1


def one_was_longer_than_what_is_there(kept: Kept) -> None:
    for number in kept["n3/protocol.jsonl"]:
        kept["n3/protocol.jsonl"][number] += 1


def one_is_not_named(kept: Kept) -> None:
    del kept["n3/protocol.jsonl"]


RECORDED = (
    (all_of_them, ""),
    (one_was_longer, "bytes were not kept, behind the first"),
    (one_was_longer_than_what_is_there, "bytes of its protocol.jsonl are there, run.json says"),
    (one_is_not_named, "bytes of its protocol.jsonl are there, run.json says nothing"),
)


@pytest.mark.parametrize(("change", "said"), RECORDED)
def test_what_was_not_kept_was_not_held_to_anything(
    run: Path, change: Callable[[Kept], None], said: str
) -> None:
    """As of nodes, whose logs are fetched: the journals as they are here agree with one another,
    and of none of them a line is missing in between."""
    (run / EVENTS).unlink()
    sizes = {
        f"{path.parent.name}/{FILE}": path.stat().st_size for path in run.glob(f"nodes/*/{FILE}")
    }
    kept = {name: {"bytes": size, "kept": size, "hole_at": size} for name, size in sizes.items()}
    change(kept)
    meta = json.loads((run / "run.json").read_bytes())
    (run / "run.json").write_text(json.dumps({**meta, "logs": {"files": kept, "lost": {}}}))
    (run / "sha256sums").write_text(sums_of(run))
    done = held(run)
    assert done.exit_code == (Exit.NOT_PROVEN if said else Exit.PASS), done.output
    assert said in done.output


def test_a_run_of_nodes_says_what_was_kept(run: Path) -> None:
    (run / EVENTS).unlink()
    (run / "sha256sums").write_text(sums_of(run))
    done = held(run)
    assert done.exit_code == Exit.NOT_PROVEN
    assert "no run.json says how much was kept of each protocol.jsonl" in done.output


def test_a_run_that_goes_on_is_not_accepted(run: Path) -> None:
    (run / "sha256sums").unlink()
    (run / "status").write_text("running")
    done = held(run)
    assert done.exit_code == Exit.NOT_PROVEN and "the run is not over" in done.output


def row(seq: int, run: int | None = None, **saw: list[int]) -> bytes:
    begins = {} if run is None else {"run": run, "server": 7}
    return json.dumps({"seq": seq, "kind": "a", **begins, "saw": saw}).encode() + b"\n"


def test_the_torn_last_line_of_a_start_is_no_loss() -> None:
    torn = b'{"seq": 3, "ki'
    for text in (torn, torn + b"\n" + row(1, run=2)):
        assert merge({"n1": row(1, run=1) + row(2) + text}).lost == []
    heard = merge({"n1": row(1, run=1) + row(2) + torn, "n2": row(1, run=1, n1=[1, 3])})
    assert (heard.lost, heard.left_out) == ([], {"n2": 1})
    more = merge({"n1": row(1, run=1) + row(2) + torn, "n2": row(1, run=1, n1=[1, 4])})
    assert more.lost == ["n2, line 1: comes from line 4 of run 1 of n1, which is in no file"]
    assert merge({"n1": row(1, run=1) + torn + b"\n"}).lost == [
        "n1, line 2: cannot be read, and is not cut off"
    ]
    assert merge({"n1": row(1, run=1) + torn + b"\n" + torn}).lost == [
        "n1: the last 2 lines cannot be read"
    ]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_a_log_that_is_no_file(run: Path, make: Callable[[Path], None]) -> None:
    (run / "sha256sums").unlink()
    (run / "status").write_text("running")
    journal(run).unlink()
    make(journal(run))
    error = held(run).exception
    assert isinstance(error, HistoryError) and "no regular file" in str(error)


def test_a_line_that_is_nested_deeply(tmp_path: Path) -> None:
    deep = b'{"seq": 2, "kind": "a", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    said = merge({"n1": row(1, run=1) + deep + row(3)})
    assert said.damaged == {"n1": 1} and said.lost
    path = tmp_path / "log.jsonl"
    path.write_bytes(deep + b'{"kind": "a"}\n')
    error = CliRunner().invoke(app, ["spec", "conform", "--log", "lock", str(path)]).exception
    assert isinstance(error, HistoryError) and "line 1" in str(error)


def test_a_line_is_written_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes some of it, and then the rest; or the server was killed within one."""
    path = tmp_path / FILE
    path.write_text('{"torn')
    write = os.write
    add = lines_into(str(path))
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:3]))
    add("first")
    add("second")
    assert path.read_text() == '{"torn\nfirst\nsecond\n'
