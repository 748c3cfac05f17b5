"""The lab that podman makes: settings of a host, stores, whose processes are whose."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from clusters.labs import hostcheck, podman_host, podman_machines
from clusters.labs.podman import LAB
from clusters.labs.podman_host import Settings
from dstest.core.errors import LabError
from dstest.core.node import Inspects, Restarts

HERE = Settings(runtime="/usr/sbin/runc", ulimits=("nofile=20000:20000",), fuse=True)


@pytest.fixture(autouse=True)
def own_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path / "dstest"))
    return tmp_path / "dstest"


def test_it_is_a_lab_that_restarts_nodes() -> None:
    assert isinstance(LAB, Inspects)
    assert isinstance(LAB, Restarts)


def test_a_store_is_whole_and_ours(tmp_path: Path) -> None:
    store, images = tmp_path / "lab", tmp_path / "images"
    podman_host.write(store, HERE, images)
    conf = tomllib.loads((store / "containers.conf").read_text())
    assert conf["engine"]["lock_type"] == "file"
    assert conf["engine"]["tmp_dir"].startswith(str(store))
    assert conf["engine"]["runtimes"]["dstest"] == [str(store / "runtime")]
    assert conf["containers"]["default_ulimits"] == ["nofile=20000:20000"]
    storage = tomllib.loads((store / "storage.conf").read_text())["storage"]
    assert storage["graphroot"].startswith(str(store))
    assert storage["runroot"].startswith(str(store))
    assert storage["options"]["additionalimagestores"] == [str(images / "storage")]
    subprocess.run(["sh", "-n", str(store / "runtime")], check=True)


def test_who_may_raise_limits_leaves_them_to_podman(tmp_path: Path) -> None:
    podman_host.write(tmp_path, Settings(runtime="/usr/bin/crun", ulimits=(), fuse=False))
    conf = tomllib.loads((tmp_path / "containers.conf").read_text())
    assert "default_ulimits" not in conf["containers"]


def test_settings_of_the_user_lead_nowhere(tmp_path: Path) -> None:
    words = podman_host.environment(tmp_path)
    assert words[:3] == ["env", "-u", "CONTAINER_HOST"]
    assert f"CONTAINERS_CONF={tmp_path}/containers.conf" in words


def test_crun_is_for_hosts_with_version_2_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(podman_host, "CGROUP", tmp_path)
    assert podman_host._runtimes() == ("runc",)
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    assert podman_host._runtimes()[0] == "crun"


def test_never_privileged_and_no_device_that_cannot_be_opened() -> None:
    words = podman_machines.options(HERE)
    assert "--device=/dev/fuse" in words
    assert not any("privileged" in word for word in words)
    assert not any("fuse" in word for word in podman_machines.options(
        Settings(runtime="runc", ulimits=(), fuse=False)
    ))  # fmt: skip


def test_what_runs_from_a_store_is_found_by_its_environment(tmp_path: Path) -> None:
    store = tmp_path / "labs" / "one" / "podman"
    words = [*podman_host.environment(store), sys.executable, "-c", "input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
        try:
            while child.pid not in podman_host.helpers(store):
                assert child.poll() is None
            assert podman_host.helpers(tmp_path)[child.pid] == store
            assert child.pid not in podman_host.helpers(tmp_path / "labs" / "two")
            assert child.pid not in podman_host.helpers(tmp_path / "labs" / "on")
        finally:
            child.kill()


def test_this_process_is_no_node(tmp_path: Path) -> None:
    import os

    assert not podman_host.is_first_of(os.getpid(), tmp_path)
    assert podman_host.firsts(tmp_path) == {}


def test_a_host_without_podman_says_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusters.labs.host.missing_tools", lambda of: ["podman"])
    with pytest.raises(LabError, match="lacks podman") as told:
        hostcheck.trial()
    assert "apt-get install" in str(told.value.remedy)
    assert "podman" in LAB.missing()


def test_containers_of_other_labs_are_none_of_ours(
    own_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labs = own_dir / "labs"
    uppers = {7: labs / "one/podman/storage/x/diff", 8: labs / "two/nodes/dst-n1/upper"}
    monkeypatch.setattr(podman_host, "firsts", lambda _: uppers)
    assert podman_machines.monitors() == {7: ("one", "of process 7")}
    assert podman_machines.monitors("two") == {}
    assert LAB.list() == ["one"]


def test_without_a_store_there_is_no_image() -> None:
    assert not podman_host.exists("localhost/dstest-node:x")
    assert podman_host.remove_unused(set()) == []
    assert podman_host.remove_temporaries() == []
