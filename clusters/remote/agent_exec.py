"""Runs on a node: programs with a deadline, detached daemons, and what /proc says of a process.

Standard library only; Python 3.9 or newer.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import IO, Any

WORDS_MAX = 120

OUTPUT_BYTES_MAX = 4 << 20
"""Of each stream; more is read and dropped, and the answer says so."""

DRAIN_S = 0.2
"""A program has ended but something it started holds its output open: no longer than this."""

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}


class Refused(Exception):
    """A request that is not carried out, with the reason."""


class TimedOut(Exception):
    """A program was killed, with all of its process group, at its deadline."""


def short(argv: list[str]) -> str:
    """A command as messages and logs tell it."""
    text = " ".join(" ".join(argv).split())
    return text if len(text) <= WORDS_MAX else f"{text[:WORDS_MAX]}..."


def write_atomic(path: Path, text: str) -> None:
    """Write by renaming. Raises FileNotFoundError where the directory is gone."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


class Running:
    """Process groups of programs under way, so that they end with the agent."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._lock = threading.Lock()

    def add(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)

    def discard(self, group: int) -> None:
        with self._lock:
            self._groups.discard(group)

    def kill(self) -> None:
        """Kill all of them."""
        with self._lock:
            for group in self._groups:
                _kill_group(group)


class _Output:
    """What one stream said, up to a bound."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self.dropped = 0

    def add(self, data: bytes) -> None:
        room = OUTPUT_BYTES_MAX - self.size
        kept = data[:room]
        self.parts.append(kept)
        self.size += len(kept)
        self.dropped += len(data) - len(kept)

    def text(self) -> str:
        return b"".join(self.parts).decode("utf-8", "replace")


def run_program(
    argv: list[str],
    *,
    timeout_s: float,
    stdin: bytes = b"",
    env: dict[str, str] | None = None,
    running: Running | None = None,
) -> dict[str, Any]:
    """Run `argv` to its end. Raises TimedOut; a program that does not exist has status 127.

    Returns `{"status", "stdout", "stderr", "duration_ns", "dropped"}`; a status below zero is the
    signal that ended it.
    """
    started_ns = time.monotonic_ns()
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**ENVIRONMENT, **(env or {})},
            cwd="/",
        )
    except OSError as error:
        status = 127 if isinstance(error, FileNotFoundError) else 126
        text = f"{argv[0]}: {error.strerror}"
        return {"status": status, "stdout": "", "stderr": text, "duration_ns": 0, "dropped": 0}
    if running is not None:
        running.add(process.pid)
    try:
        outputs = _communicate(process, stdin, started_ns + int(timeout_s * 1e9))
        if outputs is None:
            raise TimedOut(f"`{short(argv)}` did not end within {timeout_s:g} s and was killed")
    finally:
        if process.poll() is None:
            _kill_group(process.pid)
            process.wait()
        if running is not None:
            running.discard(process.pid)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
    out, err = outputs
    return {
        "status": process.returncode,
        "stdout": out.text(),
        "stderr": err.text(),
        "duration_ns": time.monotonic_ns() - started_ns,
        "dropped": out.dropped + err.dropped,
    }


def _communicate(
    process: subprocess.Popen[bytes], stdin: bytes, deadline_ns: int
) -> tuple[_Output, _Output] | None:
    """Feed and read until the program ends; None at the deadline."""
    out, err = _Output(), _Output()
    exited = os.pidfd_open(process.pid)
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(exited, selectors.EVENT_READ)
            open_streams = 0
            for stream, sink in ((process.stdout, out), (process.stderr, err)):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ, sink)
                    open_streams += 1
            feed = memoryview(stdin)
            if process.stdin is not None:
                os.set_blocking(process.stdin.fileno(), False)
                selector.register(process.stdin, selectors.EVENT_WRITE)
            ended = False
            while open_streams or not ended:
                left_s = (deadline_ns - time.monotonic_ns()) / 1e9
                ready = selector.select(max(0.0, left_s))
                if not ready:
                    return (out, err) if ended else None
                for key, _ in ready:
                    if key.fileobj is exited:
                        selector.unregister(exited)
                        ended = True
                        deadline_ns = time.monotonic_ns() + int(DRAIN_S * 1e9)
                    elif key.fileobj is process.stdin:
                        feed = _feed(selector, process.stdin, feed)
                    elif data := os.read(key.fd, 65536):
                        key.data.add(data)
                    else:
                        selector.unregister(key.fileobj)
                        open_streams -= 1
        finally:
            os.close(exited)
    process.wait()
    return out, err


def _feed(selector: selectors.BaseSelector, stream: IO[bytes], data: memoryview) -> memoryview:
    try:
        data = data[os.write(stream.fileno(), data[:65536]) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:
        data = data[:0]
    if not data:
        selector.unregister(stream)
        with contextlib.suppress(OSError):
            stream.close()
    return data


def _kill_group(group: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)


def spawn(
    argv: list[str],
    *,
    log: str = "/dev/null",
    pidfile: str | None = None,
    cwd: str = "/",
    env: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Start a daemon in a session of its own; it outlives the agent. Output goes to `log`.

    Returns `{"pid", "start_time"}`. Raises OSError where it cannot be started.
    """
    os.makedirs(os.path.dirname(log), exist_ok=True)
    with open(log, "ab", buffering=0) as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=cwd,
            env={**ENVIRONMENT, **(env or {})},
        )
    facts = process_info(process.pid)
    if pidfile is not None:
        os.makedirs(os.path.dirname(pidfile), exist_ok=True)
        temporary = f"{pidfile}.{process.pid}"
        with open(temporary, "w", encoding="ascii") as handle:
            handle.write(f"{process.pid}\n")
        os.replace(temporary, pidfile)
    # As long as we live we are its parent: without this its end would leave a zombie.
    threading.Thread(target=process.wait, daemon=True).start()
    return {"pid": process.pid, "start_time": facts["start_time"]}


def process_info(pid: int) -> dict[str, Any]:
    """Facts about a process; `alive` is false for none and for a zombie. Times in clock ticks.

    `start_time` counts from boot and tells a process from a later one with the same pid.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            text = handle.read().decode("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return {"alive": False, "state": None, "start_time": None}
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return {
        "alive": fields[0] not in "ZX",
        "state": fields[0],
        "comm": head.partition("(")[2],
        "ppid": int(fields[1]),
        "utime": int(fields[11]),
        "stime": int(fields[12]),
        "start_time": int(fields[19]),
        "rss_bytes": int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
    }


def send_signal(pid: int, start_time: int, signum: int) -> dict[str, Any]:
    """Signal a process. Raises Refused where it is gone or another one has its pid now."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        raise Refused(f"process {pid} is gone") from None
    try:
        info = process_info(pid)
        if info["start_time"] != start_time:
            raise Refused(f"process {pid} is another one: it started at {info['start_time']}")
        signal.pidfd_send_signal(descriptor, signum)
    except ProcessLookupError:
        raise Refused(f"process {pid} is gone") from None
    finally:
        os.close(descriptor)
    return {"sent": True}
