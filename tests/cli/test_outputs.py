"""Where answers go: readers that have gone, full disks, closed descriptors, files that exist."""

from __future__ import annotations

import gzip
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from forked import dstest as run

from dstest.history.generator.histories import Spec, events, lines

pytestmark = pytest.mark.slow


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return written(tmp_path / "good.jsonl", Spec(txns=50))


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return written(tmp_path / "bad.jsonl", Spec(txns=50, inject={"G1a": 1}))


def written(path: Path, spec: Spec) -> Path:
    path.write_bytes(b"".join(lines(events(spec), spec, "jsonl")))
    return path


def broken() -> int:
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["--help"], 0),
        (["run", "--help"], 0),
        (["--version"], 0),
        (["models"], 0),
        (["models", "--json"], 0),
        (["nemeses"], 0),
        (["nemeses", "--json"], 0),
        (["list"], 0),
        (["generate", "--txns", "2000"], 0),
        (["run", "--nodes", "x"], 2),
        (["run", "--no-such-flag"], 2),
        (["check", "no-such-file"], 2),
    ],
    ids=str,
)
def test_nobody_reads(command: list[str], code: int, tmp_path: Path) -> None:
    """Neither standard output nor standard error has a reader: the exit code is what it was."""
    pipe = broken()
    assert run(*command, stdout=pipe, stderr=pipe, cwd=tmp_path).returncode == code
    os.close(pipe)


def test_nobody_reads_verdicts(good: Path, bad: Path) -> None:
    pipe = broken()
    codes = [
        run("check", str(path), *flags, stdout=pipe, stderr=pipe).returncode
        for path in (good, bad)
        for flags in ([], ["--json"])
    ]
    os.close(pipe)
    assert codes == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "command",
    [["check"], ["check", "--json"], ["export"], ["models"], ["--help"], ["list"], ["generate"]],
    ids=str,
)
def test_a_full_disk_is_told_with_a_remedy(command: list[str], bad: Path, tmp_path: Path) -> None:
    given = [str(bad)] if command[0] in ("check", "export") else []
    with open("/dev/full", "wb") as full:
        done = run(*command, *given, stdout=full, cwd=tmp_path)
    assert done.returncode == 4
    assert "cannot write to standard output: No space left on device" in done.stderr
    assert "remedy:" in done.stderr
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr


def test_a_full_standard_error_harms_nothing(bad: Path) -> None:
    with open("/dev/full", "wb") as full:
        assert run("check", str(bad), stdout=subprocess.PIPE, stderr=full).returncode == 1
        assert run("check", "nothing", stdout=subprocess.PIPE, stderr=full).returncode == 2


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors(closed: str, bad: Path, tmp_path: Path) -> None:
    python, out = sys.executable, tmp_path / "out.edn"
    for command, code in ((f"check {bad}", 1), (f"export {bad} -o {out}", 0), ("--help", 0)):
        line = f"{python} -m dstest {command} {closed}"
        done = subprocess.run(["sh", "-c", line], check=False, timeout=60, capture_output=True)
        assert done.returncode == code, done.stderr
    assert out.read_bytes().startswith(b"{")


PROGRESS = """
import os, sys
from dstest.cli.output import steady
steady()
from dstest.runner.screen import Progress
ui = Progress()
for n in range(3000):
    ui.say(f"line {n}")
    print("out", n)
os.write(3, b"went on")
"""


def test_a_run_goes_on_when_nobody_looks(tmp_path: Path) -> None:
    kept = os.open(tmp_path / "kept", os.O_CREAT | os.O_WRONLY)
    pipe = broken()
    line = f'exec {sys.executable} -c "$0" 3>&{kept}'
    done = subprocess.run(
        ["bash", "-c", line, PROGRESS],
        stdout=pipe, stderr=pipe, check=False, timeout=60, pass_fds=(kept,),
    )  # fmt: skip
    os.close(pipe)
    os.close(kept)
    assert done.returncode == 0
    assert (tmp_path / "kept").read_text() == "went on"


def test_a_refused_export_leaves_the_file(tmp_path: Path) -> None:
    made = tmp_path / "h.jsonl"
    written(made, Spec(workload="register", txns=60))
    out = tmp_path / "out.edn"
    out.write_text("kept\n")
    refused = run("export", "--no-keyed", "-o", str(out), str(made))
    assert refused.returncode == 2, refused.stderr
    assert out.read_text() == "kept\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["h.jsonl", "out.edn"]


def test_a_written_file_is_whole(good: Path, tmp_path: Path) -> None:
    out, link = tmp_path / "out.edn", tmp_path / "link.edn"
    out.write_text("old\n")
    out.chmod(0o640)
    link.symlink_to(out)
    assert run("export", "-o", str(link), str(good)).returncode == 0
    assert link.is_symlink()
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    assert out.read_bytes().count(b"\n") > 50
    assert not list(tmp_path.glob(".*"))


def test_a_device_is_written_as_it_is(good: Path) -> None:
    done = run("export", "-o", "/dev/stdout", str(good), stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert done.stdout.count("\n") > 50
    full = run("export", "-o", "/dev/full", str(good))
    assert full.returncode == 4
    assert "No space left" in full.stderr
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.parametrize(
    ("command", "flag"),
    [(["generate", "-o"], "-o"), (["models", "--svg"], "--svg"), (["check", "--report"], "report")],
    ids=["generate", "models", "check"],
)
def test_a_place_that_cannot_be(command: list[str], flag: str, bad: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    given = [str(bad)] if command[0] == "check" else []
    done = run(*command, str(tmp_path / "file" / "x"), *given, stdout=subprocess.DEVNULL)
    assert done.returncode == 2
    assert f"choose another {flag}" in done.stderr or "--report" in done.stderr


def test_a_name_that_says_gzip_gets_it(tmp_path: Path) -> None:
    plain, *packed = (tmp_path / name for name in ("h.jsonl", "one.jsonl.gz", "two.jsonl.gz"))
    for path in (plain, *packed):
        done = run("generate", "--txns", "200", "--seed", "3", "-o", str(path))
        assert done.returncode == 0, done.stderr
    assert gzip.decompress(packed[0].read_bytes()) == plain.read_bytes()
    assert packed[0].read_bytes() == packed[1].read_bytes()
    assert run("check", str(packed[0]), stdout=subprocess.PIPE).returncode == 0
