"""`dstest monitor` on runs that were simulated here, and on what is no input of its."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked import Ended, dstests
from made_once import Once

from dstest.history.sums import sums_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

RUN = (
    *("run", "--lab", "sim", "--system", "toykv", "--workload", "register", "--seed", "3"),
    *("--time-limit", "8", "--concurrency", "6"),
)
SIZES = ("2", "3", "5")
KILLED = (
    *RUN,
    *("--time-limit", "17", "--nemesis", "kill", "--nodes", "3"),
    *("-o", "fault_s=3", "--store", "killed"),
)


def ended(folder: Path, *words: str) -> Ended:
    return dstests([words], cwd=folder)[words]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, once: Once) -> Path:
    mine = tmp_path_factory.mktemp("monitored") / "mine"
    return Path(shutil.copytree(once("monitored", make_runs), mine, symlinks=True))


def make_runs(folder: Path) -> None:
    """Of three sizes; as many clients for each node of larger ones; others that differ."""
    lines: list[tuple[str, ...]]
    lines = [(*RUN, "--nemesis", "none", "--nodes", size, "--store", f"s{size}") for size in SIZES]
    for size in SIZES[1:]:
        clients = str(3 * int(size))
        sized = ("--nemesis", "none", "--nodes", size, "--concurrency", clients)
        lines.append((*RUN, *sized, "--store", f"each{size}"))
    for what, words in OTHER.items():
        plain = ("--nemesis", "none", "--nodes", "5", "--store", f"other-{what}")
        lines.append((*RUN, *plain, *words))
    done = dstests([*lines, KILLED], cwd=folder)
    stores = [words[words.index("--store") + 1] for words in (*lines, KILLED)]
    assert all((folder / store / "latest").exists() for store in stores), done


def told(done: Ended) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["exit"] == done.returncode
    return found


def test_a_run(store: Path) -> None:
    found = told(ended(store, "monitor", "killed/latest", "--json"))
    assert found["exit"] == 0
    assert found["sampled"] is True
    assert found["alerts"] and found["unexpected"] == []
    assert {node["node"] for node in found["health"]["nodes"]} == {"n1", "n2", "n3"}
    assert found == told(ended(store, "monitor", "show", "killed/latest", "--json"))
    assert found == told(ended(store, "monitor", "--json", "killed/latest"))
    text = ended(store, "monitor", "killed/latest").stdout
    assert "warranted by f1" in text


def test_other_thresholds(store: Path) -> None:
    lax = ("errors_per_1000 = 1000", "timeouts = 1", "throughput_least = 0", "latency_times = 1e6")
    (store / "mine.toml").write_text("\n".join([*lax, "p95_ms = 1e6", "p99_ms = 1e6"]))
    found = told(ended(store, "monitor", "killed/latest", "--thresholds", "mine.toml", "--json"))
    assert found["alerts"] == []
    assert found["thresholds"]["timeouts"] == 1
    words = ("monitor", "killed/latest", "--thresholds", "mine.toml", "--json")
    found = told(ended(store, *words, "--set", "timeouts=0.5"))
    assert found["thresholds"]["timeouts"] == 0.5
    for text in (f"p99_ms = {'9' * 5000}", f"p99_ms = {'[' * 5000}", "part_s = 1e300"):
        (store / "huge.toml").write_text(text)
        done = ended(store, "monitor", "s3/latest", "--thresholds", "huge.toml")
        assert done.returncode == 2 and "Traceback" not in done.stderr
    assert ended(store, "monitor", "s3/latest", "--set", "check_every_s=1e300").returncode == 2
    (store / "bad.toml").write_text("queues = 0.5\n")
    done = ended(store, "monitor", "s3/latest", "--thresholds", "bad.toml")
    assert done.returncode == 2
    assert "queues" in done.stderr


def test_growth(store: Path) -> None:
    runs = [f"s{size}/latest" for size in SIZES]
    found = told(ended(store, "monitor", "scale", *runs, "--metric", "messages_sent/op", "--json"))
    assert found["sizes"] == [2, 3, 5]
    assert found["best"] in ("O(n)", "O(n log n)", "undecided")
    assert found["unfair"] == []
    wrong = ended(store, "monitor", "scale", *runs, "--metric", "net_sent/op", "--expect", "1")
    assert wrong.returncode == 1
    assert "another one was expected" in wrong.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("scale", "s3/latest", "s5/latest"), "2 sizes"),
        (("scale", "s2/latest", "s3/latest", "s5/latest", "--metric", "nothing"), "no nothing"),
        (("scale", "s2/latest", "s3/latest", "s5/latest", "--expect", "n7"), "class of growth"),
        (("nowhere",), "not a run directory"),
        (("scal", "s3/latest"), "did you mean scale"),
        (("--json", "scale", "s3/latest"), "options follow the command"),
        (("--jsn", "s3/latest"), "--jsn"),
    ],
)
def test_what_is_refused(store: Path, words: tuple[str, ...], said: str) -> None:
    done = ended(store, "monitor", *words)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("lost", ["n2", "n3", ""])
def test_a_node_that_was_not_sampled(store: Path, lost: str) -> None:
    """`lost` is the node, or nothing for the whole file; the run is over, and summed up so."""
    copy = store / f"lost{lost}"
    shutil.copytree(store / "s3" / "latest", copy)
    path = copy / "metrics" / "nodes.jsonl"
    kept = [row for row in path.read_bytes().splitlines(keepends=True) if lost.encode() not in row]
    path.write_bytes(b"".join(kept)) if kept else path.unlink()
    (copy / "sha256sums").write_text(sums_of(copy))
    found = told(ended(store, "monitor", copy.name, "--json"))
    assert found["exit"] == 1
    missed = [one["node"] for one in found["unexpected"] if one["rule"] == "samples_missing"]
    assert missed == ([lost] if lost else ["n1", "n2", "n3"])
    text = ended(store, "monitor", copy.name).stdout
    assert ("no sample of any node" in text) is (not lost)
    assert ended(store, "monitor", "s3/latest").returncode == 0


OTHER = {
    "options": ("-o", "bug=stale-follower-read"),
    "workload": ("--workload", "set"),
}
UNFAIR = {
    "options": ("s2", "s3", "other-options"),
    "workload": ("s2", "s3", "other-workload"),
    "nemesis": ("s2", "s5", "killed"),
    "concurrency": ("s2", "s3", "each5"),
}


@pytest.mark.parametrize("what", UNFAIR)
def test_growth_over_runs_that_differ_otherwise_is_not_fair(store: Path, what: str) -> None:
    """The load of an operation is not that of nodes alone where more than their number differs."""
    words = ("monitor", "scale", *(f"{name}/latest" for name in UNFAIR[what]))
    done = ended(store, *words, "--metric", "messages_sent/op")
    assert done.returncode == 3
    assert f"not fair: {what}: " in done.stdout
    found = told(ended(store, *words, "--metric", "messages_sent/op", "--expect", "n", "--json"))
    assert found["exit"] == 3
    assert any(line.startswith(f"{what}: ") for line in found["unfair"])


def test_as_many_clients_for_each_node_are_fair(store: Path) -> None:
    runs = ["s2/latest", "each3/latest", "each5/latest"]
    words = ("monitor", "scale", *runs, "--metric", "messages_sent/op", "--json")
    assert told(ended(store, *words))["unfair"] == []
    twice = told(ended(store, *words, runs[0]))
    assert twice["exit"] == 3
    assert "counted twice" in twice["unfair"][0]


def changed(store: Path, name: str, lost: Callable[[dict[str, Any]], bool], **said: Any) -> str:
    """A copy of s5 without some rows, with another run.json, sealed again."""
    copy = store / name
    shutil.copytree(store / "s5" / "latest", copy)
    path = copy / "metrics" / "nodes.jsonl"
    rows = [line for line in path.read_text().splitlines() if not lost(json.loads(line))]
    path.write_text("".join(f"{line}\n" for line in rows))
    meta = json.loads((copy / "run.json").read_text())
    meta["spec"] |= said.pop("spec", {})
    meta |= said
    kept = {key: value for key, value in meta.items() if value != "left out"}
    (copy / "run.json").write_text(json.dumps(kept))
    (copy / "sha256sums").write_text(sums_of(copy))
    return name


@pytest.mark.parametrize(
    ("name", "lost", "said"),
    [
        ("none", lambda row: row["node"] in ("n4", "n5"), "n4, n5 of {} have no samples of {}"),
        ("one", lambda row: row["node"] == "n4" and row["name"] == "net_sent", "n4 of {} has no"),
        ("few", lambda row: row["node"] == "n4" and row["time_ns"] > 1e9, "n4 of {} has no"),
    ],
)
def test_growth_over_nodes_that_were_not_sampled_is_not_fair(
    store: Path, name: str, lost: Callable[[dict[str, Any]], bool], said: str
) -> None:
    copy = changed(store, f"lack-{name}", lost)
    words = ("monitor", "scale", "s2/latest", "s3/latest", copy)
    done = ended(store, *words, "--metric", "net_sent/op")
    assert done.returncode == 3
    assert f"not fair: {said.format(copy, 'net_sent/op')}" in done.stdout
    assert ended(store, *words, "--metric", "throughput").returncode == 0


@pytest.mark.parametrize(
    ("name", "early"),
    [
        ("error", {"ended_by": "a node was lost"}),
        ("died", {"ended_by": "left out", "load_end_ns": "left out"}),
    ],
)
def test_growth_over_a_run_that_ended_early_is_not_fair(
    store: Path, name: str, early: dict[str, Any]
) -> None:
    copy = changed(store, f"early-{name}", lambda row: False, **early)
    words = ("monitor", "scale", "s2/latest", "s3/latest", copy)
    found = told(ended(store, *words, "--metric", "throughput", "--json"))
    assert found["exit"] == 3
    (said,) = found["unfair"]
    assert said.startswith(f"{copy} ended early: ") or f"/{copy} ended early: " in said


@pytest.mark.parametrize("value", ["yes", 1, None, [True]])
def test_a_record_that_says_otherwise_whether_it_was_sampled(store: Path, value: Any) -> None:
    copy = changed(
        store, f"asked-{json.dumps(value)[:4]}", lambda row: False, spec={"monitor": value}
    )
    done = ended(store, "monitor", copy)
    assert done.returncode == 3
    assert "the spec of run.json cannot be read" in done.stderr and "monitor" in done.stderr
    assert "Traceback" not in done.stderr and "a bug of dstest" not in done.stderr


def test_a_run_that_was_changed_is_not_believed(store: Path) -> None:
    shutil.copytree(store / "s2" / "latest", store / "edited")
    path = store / "edited" / "metrics" / "nodes.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"value":1.0', b'"value":0.0', 3))
    done = ended(store, "monitor", "edited")
    assert done.returncode == 3
    assert "metrics/nodes.jsonl" in done.stderr
