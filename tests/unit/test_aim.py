"""`aim`, alone on this host: what it counts at points of a program, does there, and leaves."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dstest.core.errors import ConfigError
from nemeses.tools import agent_points, aim
from nemeses.tools.compiled import FLAGS, FOLDER

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

PROGRAM = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
_Atomic long calls[64], wrong, refused;
/* Begins with what no prologue does, so that it has to be stepped over. */
__attribute__((noinline, naked)) long odd(long a) { __asm__("imul $3, %rdi, %rax\n ret"); }
__attribute__((noinline)) long inner(long a) { __asm__ volatile(""); return a + 1; }
__attribute__((noinline)) long outer(long a)
{
    long b = inner(a);
    __asm__ volatile("");
    return b * 2;
}
__attribute__((noinline)) long rare(long a) { return inner(a) * 7; }
static int file;
static void *work(void *arg)
{
    long me = (long)arg;
    for (;;) {
        if (odd(me) != 3 * me || outer(me) != 2 * (me + 1)) wrong++;
        inner(me);
        calls[me]++;
        if (me == 1 && fdatasync(file) != 0 && errno == ENOSPC) refused++;
        usleep(500);
    }
}
__attribute__((noinline)) void seldom(void) { __asm__ volatile(""); }
int main(int argc, char **argv)
{
    if (argc > 2) return (int)rare(argc);
    file = open(argv[1], O_CREAT | O_RDWR, 0600);
    for (long i = 0; i < 8; i++) { pthread_t t; pthread_create(&t, NULL, work, (void *)i); }
    for (int n = 0;; n++) {
        long all = 0;
        for (int i = 0; i < 64; i++) all += calls[i];
        pid_t child = fork();
        if (child == 0) _exit(outer(20) == 42 ? 0 : 7);
        int status;
        waitpid(child, &status, 0);
        if (status != 0) wrong++;
        seldom();
        printf("%ld %ld %ld\n", all, (long)wrong, (long)refused);
        fflush(stdout);
        usleep(50000);
    }
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `aim`, under sanitizers, and the program, with a load address of its own."""
    folder = tmp_path_factory.mktemp("aim")
    sources = [str(FOLDER / name) for name in aim.SOURCES]
    flags = [flag for flag in FLAGS if flag not in ("-static", "-s")]
    flags += ["-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    subprocess.run(["cc", *flags, "-o", str(folder / "aim"), *sources], check=True)
    (folder / "program.c").write_text(PROGRAM)
    words = ["-O1", "-fno-omit-frame-pointer", "-pie", "-fPIE", "-pthread"]
    made = ["-o", str(folder / "program"), str(folder / "program.c")]
    subprocess.run(["cc", *words, *made], check=True)
    return folder


class Target:
    """The program while it runs; it prints its rounds, what went wrong and what was refused."""

    def __init__(self, built: Path, folder: Path) -> None:
        self.built, self.folder = built, folder
        self.tracers: list[subprocess.Popen[bytes]] = []
        self.out = folder / "out"
        words = [str(built / "program"), str(folder / "a.wal")]
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(words, stdout=out, start_new_session=True)
        wait(lambda: self.rounds > 0)

    @property
    def rows(self) -> list[list[int]]:
        lines = self.out.read_text().splitlines()[:-1]
        return [[int(word) for word in line.split()] for line in lines]

    @property
    def rounds(self) -> int:
        return self.rows[-1][0] if self.rows else 0

    def fresh(self) -> int:
        """Rounds, by a line that is written from now on."""
        lines = len(self.rows)
        wait(lambda: len(self.rows) > lines + 1)
        return self.rounds

    def step(self, kind: str, *names: str) -> str:
        found = agent_points.find(str(self.built / "program"), list(names))["found"]
        return f"step {kind} {' '.join(at for names in found.values() for at in names.values())}"

    def goes_on(self) -> bool:
        """Does it run, with no error, and nobody of us in it?"""
        before = self.rounds
        wait(lambda: self.rounds > before + 100)
        step = self.step("function", "odd", "inner", "outer", "seldom")
        rows = [int(at, 16) for at in step.split()[2:]]
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        assert "TracerPid:\t0" in status
        assert agent_points.touched(self.process.pid, rows) == []
        return self.rows[-1][1] == 0


@pytest.fixture
def target(built: Path, tmp_path: Path) -> Iterator[Target]:
    found = Target(built, tmp_path)
    yield found
    for tracer in found.tracers:
        tracer.terminate()  # it puts the code back before it ends
        tracer.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(found.process.pid, signal.SIGKILL)  # what it has forked, too
    found.process.wait()


def wait(until: Callable[[], Any], limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not until():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


class Aim:
    """The tracer of one spec."""

    def __init__(self, target: Target, *lines: str) -> None:
        self.folder = target.folder / "run"
        self.folder.mkdir(exist_ok=True)
        pid = target.process.pid
        spec = [f"process {pid} {agent_points.bias_of(pid):x}", *lines, ""]
        (self.folder / "spec").write_text("\n".join(spec))
        words = [str(target.built / "aim"), str(self.folder)]
        self.process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        target.tracers.append(self.process)
        wait(lambda: self.status.armed_ns or self.process.poll() is not None)

    @property
    def status(self) -> aim.AimStatus:
        path = self.folder / "status"
        return aim.parse_status(path.read_text() if path.exists() else "")

    def renewed(self) -> aim.AimStatus:
        """A status that is written from now on."""
        path = self.folder / "status"
        was_ns = path.stat().st_mtime_ns
        wait(lambda: path.stat().st_mtime_ns > was_ns)
        return self.status

    def ends(self) -> aim.AimStatus:
        self.process.terminate()
        assert self.process.wait(10) == 0
        return self.status


def test_each_call_is_counted_and_nothing_breaks(target: Target) -> None:
    """Threads, forks, prologues that are emulated and one that is stepped over."""
    one = Aim(target, target.step("function", "odd", "outer"), "then count", "times 0")
    before = target.fresh()
    wait(lambda: target.rounds > before + 1500)
    rounds = target.rounds - before
    status = one.ends()
    assert status.hits > 2 * rounds and status.stepped > 1000 and status.emulated > 1000
    assert sum(status.points.values()) == status.hits
    assert status.processes > 2 and not status.lost and status.detached
    assert target.goes_on()


def test_a_return_is_of_the_function_that_was_entered(target: Target) -> None:
    one = Aim(target, target.step("return", "inner"), "then count", "times 0")
    before = target.fresh()
    wait(lambda: target.rounds > before + 500)
    rounds = target.rounds - before
    status = one.ends()
    assert status.hits > 2 * rounds
    assert agent_points.named(str(target.built / "program"), [int(status.address, 16)])[0] in (
        "outer",
        "work",
    )
    assert target.goes_on()


@pytest.mark.parametrize("kind", ["function", "return"])
def test_a_chain_is_inside_its_first_step(kind: str, target: Target) -> None:
    """`inner` is called inside `outer`, and beside it just as often: only the first counts."""
    steps = (target.step("function", "outer"), target.step(kind, "inner"))
    one = Aim(target, *steps, "hit 50", "then count", "times 1")
    rounds, hits = target.rounds, one.renewed().hits
    wait(lambda: target.rounds > rounds + 400 and one.status.fired)
    hits = one.renewed().hits - hits  # all of them in these rounds, however late anybody reads
    assert 0 < hits < target.fresh() - rounds + 16
    status = one.ends()
    assert status.fired == 1
    names = agent_points.named(str(target.built / "program"), [int(at, 16) for at in status.frames])
    at = names.index("outer")
    assert names[:at] == (["inner"] if kind == "function" else [])
    assert target.goes_on()


def test_killed_at_the_point(target: Target) -> None:
    one = Aim(target, target.step("function", "outer"), "hit 10", "then kill")
    assert target.process.wait(10) == -signal.SIGKILL
    wait(lambda: one.process.poll() is not None)
    assert (one.status.fired, one.status.hits) == (1, 10) and one.status.killed >= 1
    assert one.status.root == target.process.pid


def test_paused_at_the_point(target: Target) -> None:
    one = Aim(target, target.step("function", "odd"), "hit 5", "then pause")
    wait(lambda: one.process.poll() is not None)
    assert one.process.returncode == 0 and one.status.paused >= 1
    tasks = Path(f"/proc/{target.process.pid}/task")
    states = [(path / "stat").read_text().rpartition(")")[2].split()[0] for path in tasks.iterdir()]
    assert {*states} == {"T"}
    os.killpg(target.process.pid, signal.SIGCONT)
    assert target.goes_on()


def test_one_thread_is_delayed_and_the_others_run(target: Target) -> None:
    one = Aim(target, target.step("function", "odd"), "hit 1", "then delay 8000000", "times 1")
    wait(lambda: one.status.fired)
    before = target.rounds
    wait(lambda: agent_points.asleep(0.4, [str(target.process.pid)]))
    wait(lambda: target.rounds > before, 5)
    assert one.ends().delayed == 1
    assert target.goes_on()


def test_a_call_is_refused(target: Target) -> None:
    number, fd, path = aim.CALLS["fdatasync"]
    step = f"step syscall {number} {fd} {path} *.wal"
    one = Aim(target, step, "hit 3", "then errno 28", "times 2")
    wait(lambda: target.rows[-1][2] == 2)
    status = one.ends()
    assert (status.fired, status.refused) == (2, 2) and status.file.endswith("/a.wal")
    assert target.goes_on() and target.rows[-1][2] == 2


def test_each_system_call_is_counted_by_its_name(target: Target) -> None:
    one = Aim(target, "step syscall -1 -1 -1 -", "then count", "times 0")
    wait(lambda: one.status.calls.get("fdatasync", 0) > 50)
    status = one.ends()
    assert status.calls["write"] > 0 and "fsync" not in status.calls
    assert status.stops > 50 and status.stop_ns_max > 0
    assert target.goes_on()


def _child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


def _is_over(pid: int) -> bool:
    path = Path(f"/proc/{pid}/stat")
    return not path.exists() or path.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("who", ["tracer", "watcher"])
def test_whoever_is_killed_the_code_is_as_it_was(who: str, target: Target) -> None:
    """Points that are met 20 times a second: whoever meets one before it is gone ends by it."""
    one = Aim(target, target.step("function", "seldom"), "then count", "times 0")
    wait(lambda: one.status.hits)
    tracer = _child_of(one.process.pid)
    os.kill(tracer if who == "tracer" else one.process.pid, signal.SIGKILL)
    one.process.wait(10)
    wait(lambda: _is_over(tracer))
    assert target.goes_on()


def test_what_both_have_left_is_put_back(target: Target, built: Path) -> None:
    """Nobody comes there meanwhile: whoever did would end by it."""
    one = Aim(target, target.step("function", "rare"), "then count", "times 0")
    tracer = _child_of(one.process.pid)
    os.kill(one.process.pid, signal.SIGSTOP)
    for pid in (tracer, one.process.pid):
        os.kill(pid, signal.SIGKILL)
    one.process.wait(10)
    point = int(target.step("function", "rare").split()[2], 16)
    assert agent_points.touched(target.process.pid, [point]) == [f"{point:x}"]
    words = [str(built / "aim"), "--restore", str(one.folder)]
    assert subprocess.run(words, check=False).returncode == 0
    assert agent_points.touched(target.process.pid, [point]) == []
    assert target.goes_on()


def test_one_that_is_traced_already_is_not(target: Target) -> None:
    first = Aim(target, target.step("function", "odd"), "then count", "times 0")
    second = Target.__new__(Target)
    second.__dict__ = {**target.__dict__, "folder": target.folder / "second"}
    second.folder.mkdir()
    other = Aim(second, target.step("function", "outer"), "then kill")
    assert other.process.wait(10) == 2 and not other.status.armed_ns
    assert first.ends().hits > 0 and target.goes_on()


@pytest.mark.parametrize(
    ("text", "steps", "hit"),
    [
        ("mvcc.(*store).compact", [("function", "mvcc.(*store).compact", "")], 1),
        ("function:a > return:b", [("function", "a", ""), ("return", "b", "")], 1),
        ("syscall:fdatasync:*.wal:3", [("syscall", "fdatasync", "*.wal")], 3),
        ("any:mvcc.*", [("any", "mvcc.*", "")], 1),
        ("a > syscall:fsync", [("function", "a", ""), ("syscall", "fsync", "")], 1),
    ],
)
def test_what_at_says(text: str, steps: list[tuple[str, str, str]], hit: int) -> None:
    found, times = aim.parse(text)
    assert [(s.kind, s.name, s.glob) for s in found] == steps and times == hit


@pytest.mark.parametrize(
    "text",
    [
        "",
        "any:a > function:b",
        "function:b > any:a",
        "any:",
        "syscall:nonesuch",
        "function:",
        "a b",
        "syscall:fsync:*:x",
        " > ".join("a" * 9),
    ],
)
def test_what_at_may_not_say(text: str) -> None:
    with pytest.raises(ConfigError):
        aim.parse(text)


def test_functions_of_a_program(built: Path) -> None:
    program = str(built / "program")
    found = agent_points.find(program, ["outer", "out*", "nonesuch.Inner"])
    assert not found["go"] and list(found["found"]["outer"]) == ["outer"]
    assert "outer" in found["found"]["out*"] and found["like"] == {"nonesuch.Inner": ["inner"]}
    assert next(iter(agent_points.near(program, "outer", 3))) == "outer"
    assert set(agent_points.near(program, "outer", 3)) == {"outer", "odd"}
    assert agent_points.near(program, "nonesuch", 3) == {}
    fitting = agent_points.find(program, ["*nner"])["found"]["*nner"]
    assert set(agent_points.near(program, "*nner", len(fitting))) == set(fitting)
    words = [sys.executable, agent_points.__file__, "list", program, "*nner", "5"]
    assert json.loads(subprocess.check_output(words))["names"] == ["inner"]


def test_what_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("#!/bin/sh\n" * 20)
    with pytest.raises(ValueError, match="no program"):
        agent_points.find(str(tmp_path / "text"), ["a"])
