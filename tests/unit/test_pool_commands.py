"""What a worker does with a command: first what its lab begins from, then its run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from made_meta import PLANNED

from dstest.campaign.nightly.cells import cells_of, read_config
from dstest.campaign.steps.commands import differences
from dstest.campaign.workers.commands import (
    IMAGE_S,
    LOG,
    STORE,
    image_words,
    run_command,
    why_no_run,
)
from dstest.campaign.workers.task import TaskResult
from dstest.core.builds import builds_of
from dstest.core.run_record import RunMeta

pytestmark = pytest.mark.slow

SHORT = ["--seed", "3", "--time-limit", "40", "--nodes", "5", "--rate", "40"]


class _Place:
    """Keeps what it is asked to run; the image cannot be made where `image_code` is not 0."""

    def __init__(self, folder: Path, image_code: int) -> None:
        self.folder, self.lab_id, self.image_code = folder, "w1", image_code
        self.asked: list[tuple[list[str], float]] = []
        self.texts: dict[str, str] = {}

    def command(self, argv: Sequence[str], log: Path, *, limit_s: float) -> int:
        self.asked.append((list(argv), limit_s))
        for word in argv:
            if word.endswith(".deb"):
                self.texts[argv[0]] = Path(word).read_text()
        log.write_text(f"ran {argv[0]}\n")
        return self.image_code if argv[0] == "lab" else 1


@pytest.mark.parametrize("image_code", [0, 4])
def test_an_image_is_made_in_a_time_of_its_own(tmp_path: Path, image_code: int) -> None:
    place = _Place(tmp_path, image_code)
    image = ["lab", "image", "--system-version", "/elsewhere/etcd.deb"]
    argv = ["run", "--system-version", "/elsewhere/etcd.deb"]
    code, took_s = run_command(place, image, argv, {"/elsewhere/etcd.deb": b"a build"}, 300.0)
    made, *ran = place.asked
    assert made[0][:2] == ["lab", "image"] and made[1] == IMAGE_S
    assert place.texts["lab"] == "a build"
    if image_code:
        assert (code, took_s, ran) == (image_code, 0.0, [])
        assert (tmp_path / LOG).read_text() == "ran lab\n"
        return
    assert code == 1
    [(words, limit_s)] = ran
    assert limit_s == 300.0 and words[words.index("--store") + 1] == str(tmp_path / STORE)
    assert place.texts["run"] == "a build"
    assert (tmp_path / LOG).read_text() == "ran run\n"


def test_the_image_of_a_cell_is_that_of_its_lab_system_and_version(tmp_path: Path) -> None:
    (tmp_path / "etcd.deb").write_bytes(b"!<arch>\ndebian-binary")
    path = tmp_path / "nightly.toml"
    path.write_text(
        'name = "n"\n[[cells]]\ncontrol = "red"\nanomalies = ["lost"]\n'
        'system = "etcd"\nversion = "etcd.deb"\n'
        'workload = "set"\nnemesis = "kill"\nlab = "podman"\n'
    )
    [cell] = cells_of(read_config(path), tmp_path)
    version = str(tmp_path / "etcd.deb")
    words = ("lab", "image", "--lab", "podman", "--system", "etcd", "--system-version", version)
    assert cell.image == words
    assert version in cell.argv


def test_the_words_of_an_image() -> None:
    assert image_words(None, "etcd", [], []) == ["lab", "image", "--system", "etcd"]
    assert image_words("lxc", "/own.py", ["/a.deb", "/b.deb"], ["/own.py"]) == [
        *("lab", "image", "--lab", "lxc", "--system", "/own.py"),
        *("--system-version", "/a.deb", "--system-version", "/b.deb", "--plugin", "/own.py"),
    ]


def test_why_there_is_no_run_is_what_went_wrong_around_it_first(tmp_path: Path) -> None:
    (tmp_path / LOG).write_text("$ dstest run\ndstest: no nodes\n")
    done = TaskResult(id="r1", value=(4, 0.1), folder=tmp_path)
    assert why_no_run(done) == "dstest: no nodes"
    unpacked = TaskResult(id="r1", error="OSError: the disk is full", folder=tmp_path)
    assert why_no_run(unpacked) == "OSError: the disk is full"
    assert why_no_run(TaskResult(id="r1", error="3 workers were lost with it")).startswith(
        "3 workers"
    )
    assert why_no_run(TaskResult(id="r1")) == "it left nothing"


def test_only_whole_words_and_parts_of_lists_are_put_elsewhere(tmp_path: Path) -> None:
    place = _Place(tmp_path, 0)
    argv = ["run", "/a/b.py", "--nemesis", "kill,/a/b.py,/a/b.py2", "-o", "x=/a/b.py"]
    run_command(place, [], argv, {"/a/b.py": b"mine"}, 1.0)
    [(words, _)] = place.asked
    copy = words[1]
    assert copy != "/a/b.py" and copy.endswith("/b.py")
    assert words[2:6] == ["--nemesis", f"kill,{copy},/a/b.py2", "-o", "x=/a/b.py"]


def _made_with(build: Path) -> RunMeta:
    spec = {"builds": list(builds_of([str(build)])), "concurrency": 5, "rate": 10.0}
    return RunMeta.of(PLANNED | {"spec": spec})


def test_a_build_that_a_worker_has_laid_elsewhere_is_the_same_one(tmp_path: Path) -> None:
    for name, version in (("here", b"1"), ("there", b"1"), ("other", b"2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "etcd.deb").write_bytes(b"!<arch>\ndebian-binary" + version)
    command = ["run", "--system-version", str(tmp_path / "here" / "etcd.deb")]
    assert "system-version" not in differences(_made_with(tmp_path / "there" / "etcd.deb"), command)
    assert "system-version" in differences(_made_with(tmp_path / "other" / "etcd.deb"), command)


@pytest.mark.parametrize("kind", [[], ["--lab", "podman"]])
def test_a_run_on_nodes_is_told_the_lab_of_its_worker(tmp_path: Path, kind: list[str]) -> None:
    place = _Place(tmp_path, 0)
    run_command(place, [], ["run", *kind, "--system", "toykv"], {}, 1.0)
    [(words, _)] = place.asked
    assert words[words.index("--lab-id") + 1] == "w1" and words[-1] == "--json"


@pytest.mark.parametrize("kind", [["--lab", "sim"], ["--lab=sim"]])
def test_a_run_whose_nodes_are_simulated_is_told_no_lab(tmp_path: Path, kind: list[str]) -> None:
    place = _Place(tmp_path, 0)
    run_command(place, [], ["run", *kind, "--system", "toykv"], {}, 1.0)
    [(words, _)] = place.asked
    assert "--lab-id" not in words and words[-1] == "--json"


def test_a_cell_in_a_simulation_comes_to_a_verdict(tmp_path: Path) -> None:
    """The command of a night's cell, with its image, as a worker executes it."""
    path = tmp_path / "nightly.toml"
    path.write_text(
        'name = "n"\n[[cells]]\ncontrol = "red"\nanomalies = ["nonlinearizable"]\n'
        'system = "toykv"\nworkload = "register"\nnemesis = "partition"\nlab = "sim"\n'
        'options = { bug = "stale-follower-read" }\n'
    )
    [cell] = cells_of(read_config(path), tmp_path)
    code, _ = run_command(_Real(tmp_path), cell.image, [*cell.argv, *SHORT], {}, 120.0)
    assert code == 1, (tmp_path / LOG).read_text()
    [status] = (tmp_path / STORE).glob("*/*/status")
    assert status.read_text().startswith("verdict: ")


class _Real:
    """Executes what it is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lab_id = folder, "w1"

    def command(self, argv: Sequence[str], log: Path, *, limit_s: float) -> int:
        with log.open("w") as out:
            return subprocess.run(
                [sys.executable, "-m", "dstest", *argv],
                stdout=out, stderr=out, timeout=limit_s, check=False,
            ).returncode  # fmt: skip
