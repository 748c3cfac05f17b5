"""`dstest serve` over a store of 5,000 runs: how long the first look takes, a start with what was
kept, a look when nothing has changed, and each page, first to last byte, over HTTP.

    .venv/bin/python tests/bench/bench_serve.py [RUNS]

The runs are five small ones, made without a lab, whose files are linked; seed, time and what was
summed up are each run's own. Pages are asked for one after the other, while the histories are read
in the background, as they are when somebody looks at a store for the first time.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

HERE: Final = Path(__file__).resolve().parent
RUNS: Final = 5_000
TIMES: Final = 40
DAY_S: Final = 86_400
SYSTEMS: Final = ("etcd", "postgresql", "toykv", "nats")
NEMESES: Final = ("partition", "kill", "pause", "partition,kill")


def _say(text: str) -> None:
    sys.stdout.write(f"  {text}\n")
    sys.stdout.flush()


def made_store(store: Path, count: int) -> list[str]:
    """`count` runs over five; the paths of some, below the store."""
    from failing_runs import crashed, failing, inconclusive, passing

    kinds: list[Callable[[Path], Any]] = [
        *(passing, failing, inconclusive, crashed),
        lambda path: failing(path, "list-append"),
    ]
    originals = [make(store.parent / f"original-{n}") for n, make in enumerate(kinds)]
    refs = []
    for number in range(count):
        original = originals[(number * 7 + number // 11) % len(originals)]
        system, nemesis = SYSTEMS[number % 4], NEMESES[number // 4 % 4]
        at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(1_760_000_000 + number * DAY_S // 20))
        ref = f"{system}-{nemesis.replace(',', '+')}/{at}-{number}"
        if number == 0:  # the one whose report is asked for: only of one that stands it is shown
            passing(store / ref)
        else:
            more = {"seed": number, "system": system, "nemesis": nemesis}
            copied(original.path, store / ref, started=at, **more)
        refs.append(ref)
    return refs


def copied(original: Path, path: Path, *, started: str, **spec: Any) -> None:
    """A run of its own of the same files, but for what run.json says of it."""
    import msgspec

    from dstest.history.sums import sums_of

    for at, _, names in os.walk(original):
        folder = path / Path(at).relative_to(original)
        folder.mkdir(parents=True)
        for name in names:
            if name not in ("run.json", "sha256sums"):
                os.link(Path(at, name), folder / name)
    facts = msgspec.json.decode((original / "run.json").read_bytes())
    facts |= {"started": started, "spec": {**facts["spec"], **spec}}
    (path / "run.json").write_bytes(msgspec.json.encode(facts))
    (path / "sha256sums").write_text(sums_of(path))


@contextlib.contextmanager
def served(store: Path, cache: Path) -> Iterator[tuple[str, int]]:
    """The address of a server, and its process."""
    argv = [sys.executable, "-m", "dstest", "serve", str(store), "--port", "0", "--json"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        try:
            import msgspec

            yield str(msgspec.json.decode(process.stdout.readline())["url"]), process.pid
        finally:
            process.terminate()


def asked(url: str) -> tuple[float, bytes]:
    """(seconds, what came)"""
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=120) as answer:
        body = answer.read()
    return time.perf_counter() - began, body


def cpu_s(pid: int) -> float:
    """What a process has used so far, without its children."""
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def pages(url: str, pid: int, refs: list[str]) -> None:
    refs = [quote(ref) for ref in refs]
    a, b = refs[10], refs[31]
    names = {
        "runs, the first page": "index.html",
        "runs, page 30": "index.html?page=30",
        "runs, words and filter": "index.html?words=violation+seed%3D1&system=etcd&verdict="
        "FAIL-nondeterministic",
        "runs, sorted by seed": "index.html?sort=seed&down=0",
        "violations": "triage.html",
        "trends": "trends.html",
        "running": "live.html",
        "a run": f"run/{refs[20]}/index.html",
        "a run, every file hashed": f"run/{refs[21]}/index.html?hash=all",
        "two runs": f"pair.html?run={a}&run={b}",
        "a report": f"run/{refs[0]}/report.html",
    }
    cell = asked(f"{url}trends.html")[1].decode().partition('href="trends/')[2].partition('"')[0]
    names["a cell"] = f"trends/{cell}"
    for name, address in names.items():
        size, before = len(asked(url + address)[1]), cpu_s(pid)
        found = sorted(asked(url + address)[0] for _ in range(TIMES))
        used_ms = (cpu_s(pid) - before) / TIMES * 1e3
        p50, p95 = statistics.median(found), found[int(TIMES * 0.95) - 1]
        _say(
            f"{name:26} p50 {p50 * 1e3:5.0f} ms  p95 {p95 * 1e3:5.0f} ms  "
            f"CPU {used_ms:5.1f} ms  {size:9,} bytes"
        )


def _until_read(url: str, count: int) -> float:
    """Seconds until the list has all runs."""
    began = time.perf_counter()
    wanted = f"of {count:,} runs".encode()
    while True:
        body = asked(url)[1]
        if b"not read yet" not in body and wanted in body:
            return time.perf_counter() - began
        time.sleep(2)


def _looks(store: Path, cache: Path) -> None:
    """A look when nothing has changed, by itself."""
    from dstest.store.index import Cache, Index

    index = Index(store, Cache(next(cache.rglob("*.sqlite"))))
    for what in ("a start with what was kept", "a look when nothing changed"):
        began, used = time.perf_counter(), time.process_time()
        index.refresh()
        took_s, used = time.perf_counter() - began, time.process_time() - used
        _say(f"{what:34} {took_s:.2f} s (CPU {used:.2f} s)")


def main(count: int = RUNS) -> None:
    sys.path[:0] = [str(HERE.parent / "unit")]
    with tempfile.TemporaryDirectory(prefix="dstest-bench-serve-") as folder:
        store, cache = Path(folder, "store"), Path(folder, "cache")
        refs = made_store(store, count)
        _say(f"{count:,} runs, load of this host {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
        with served(store, cache) as (url, pid):
            _say(f"{'first page after the start':34} {asked(url)[0]:.2f} s")
            took_s = _until_read(url, count)
            _say(f"{'all runs read, the first time':34} {took_s:.1f} s (CPU {cpu_s(pid):.1f} s)")
            pages(url, pid, refs)
        _looks(store, cache)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
