"""`dstest debug` on runs that were simulated here, on one that was changed, and on what is none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from forked import Ended, dstests
from made_once import Once
from planted_runs import planted

from dstest.debug.monitor.settings import Settings as MonitorSettings
from dstest.debug.patterns.model import Settings, thresholds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

RUN = (
    *("run", "--lab", "sim", "--system", "toykv", "--workload", "register", "--nemesis"),
    *("partition", "--seed", "3", "--time-limit", "25", "-o", "bug=stale-follower-read"),
)
DEBUG = ("debug", "store/latest")
JSON = (*DEBUG, "--json", "--write")
DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "explain.md"


def ended(folder: Path, words: Sequence[str]) -> Ended:
    return dstests([words], cwd=folder)[tuple(words)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, once: Once) -> Path:
    def make(folder: Path) -> None:
        assert ended(folder, RUN).returncode == 1

    mine = tmp_path_factory.mktemp("debug") / "mine"
    return Path(shutil.copytree(once("debugged", make), mine, symlinks=True))


def test_it_says_what_was_seen_what_it_may_be_and_what_to_do(place: Path) -> None:
    done = ended(place, (*DEBUG, "--all"))
    assert done.returncode == 1, done.stderr
    heads = ("Observe", "Hypothesise", "Test", "Verify", "Checklists", "Measure next")
    lines = done.stdout.splitlines()
    assert [line for line in lines if line in heads] == list(heads)
    assert "1. Stale read (#5, critical" in done.stdout
    assert "dstest replay store/latest --times 3" in done.stdout
    assert "--nemesis none" in done.stdout
    assert all(f"\nn{number}: " in done.stdout for number in range(1, 6))
    boxes = [line for line in lines if line.startswith("   [")]
    assert len(boxes) == 33 and {line[3:6] for line in boxes} == {"[x]", "[!]", "[ ]"}


def test_it_is_short_unless_all_is_asked_for(place: Path) -> None:
    """What is read in a minute, of which the last line is that of all of it."""
    done, all_ = ended(place, DEBUG), ended(place, (*DEBUG, "--all"))
    assert done.returncode == all_.returncode == 1
    lines = done.stdout.splitlines()
    assert len(lines) <= 55 < len(all_.stdout.splitlines())
    assert lines[-1] == all_.stdout.splitlines()[-1]
    assert lines[-2] == "all of it: dstest debug store/latest --all"
    ranked = [line for line in lines if line[:2] in ("1.", "2.", "3.", "4.")]
    assert ranked[0].startswith("1. Stale read (#5, critical")
    assert len(ranked) <= 3
    assert 1 <= sum(line.startswith("     ") for line in lines) <= 2 * len(ranked)
    heads = ["Observe", "Hypothesise", "Test", "Checklists", "Measure next"]
    assert [line for line in lines if line in heads] == heads
    assert "dstest replay store/latest --times 3" in done.stdout
    boxes = [line for line in lines if line.startswith("   [")]
    assert boxes and {line[3:6] for line in boxes} == {"[!]"}


def test_json_and_files_have_all_of_it(place: Path) -> None:
    done = ended(place, JSON)
    told = json.loads(done.stdout)
    assert done.returncode == told["exit"] == 1
    run = (place / "store" / "latest").resolve()
    assert json.loads((run.with_name(run.name + ".debug") / "debug.json").read_bytes()) == told
    page = (run.with_name(run.name + ".debug") / "debug.md").read_text()
    assert page.startswith("# store/latest\n") and "## Hypothesise" in page
    first = told["hypotheses"][0]
    assert first["number"] == 5 and first["alarm"] and first["tests"] and first["verifications"]
    rows = [row for one in first["detections"] for row in one["rows"]]
    history = (run / "history.jsonl").read_text().splitlines()
    for row in rows:
        name, _, number = row["place"].partition(":")
        assert (
            name == "history.jsonl" and json.loads(history[int(number) - 1])["op_id"] in row["ops"]
        )
    assert [one["number"] for one in told["patterns"]] == list(range(1, 28))
    for one in told["patterns"]:
        assert one["state"] != "not looked for" or one["missing"], one
    assert told["thresholds"] == thresholds()
    # The run is as it was summed up
    assert ended(place, DEBUG).returncode == 1


def test_what_is_none_or_was_changed_is_refused(place: Path, tmp_path: Path) -> None:
    assert ended(place, ("debug", "nowhere")).returncode == 2
    done = ended(place, (*DEBUG, "--set", "recovery=3"))
    assert done.returncode == 2 and "recovery_s" in done.stderr
    assert ended(place, (*DEBUG, "--set", "recovery_s=soon")).returncode == 2
    sealed = planted(tmp_path / "empty", [])
    done = ended(tmp_path, ("debug", "empty"))
    assert done.returncode == 3, done.stdout
    log = next((place / "store" / "latest" / "nodes").glob("*/*.log"), None)
    target = log or place / "store" / "latest" / "simulation.log"
    before = target.read_bytes()
    target.write_bytes(before + b"0 n1: something else\n")
    try:
        assert ended(place, DEBUG).returncode == 3
    finally:
        target.write_bytes(before)
    assert sealed.is_dir()


def test_thresholds_change_what_is_found(tmp_path: Path) -> None:
    planted(tmp_path / "run")
    words = ("debug", "run", "--json", "--set", "decision_s=2.5", "--set", "terms_most=7")
    told = json.loads(ended(tmp_path, words).stdout)["thresholds"]
    assert told["decision_s"] == 2.5 and told["terms_most"] == 7
    (tmp_path / "mine.toml").write_text("decision_s = 3\nstuck_s = 4\n")
    both = (*words, "--thresholds", "mine.toml")
    told = json.loads(ended(tmp_path, both).stdout)["thresholds"]
    assert (told["decision_s"], told["stuck_s"], told["terms_most"]) == (2.5, 4, 7)


@pytest.mark.parametrize(
    ("command", "plain"),
    [("debug", thresholds()), ("monitor", msgspec.structs.asdict(MonitorSettings()))],
    ids=["debug", "monitor"],
)
def test_the_page_has_the_defaults(command: str, plain: dict[str, float]) -> None:
    part = DOCS.read_text().partition(f"## Thresholds of `dstest {command}`\n")[2]
    told: dict[str, float] = {}
    for line in part.partition("\n## ")[0].splitlines():
        if line.startswith("| `"):
            names, values = line.split("|")[1:3]
            told |= {
                name.strip(" `"): float(value)
                for name, value in zip(names.split(","), values.split(","), strict=True)
            }
    assert told == plain


def test_there_are_no_other_thresholds() -> None:
    assert set(thresholds()) == set(Settings.__struct_fields__)
