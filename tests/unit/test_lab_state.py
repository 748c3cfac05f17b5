"""Lab ids, addresses, locks, image hashes and sources: what needs no container."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clusters.labs import bridged, container, host, image, network, state
from clusters.labs.lxc import LAB
from clusters.labs.state import LabState, Owner
from dstest.core.errors import ConfigError, LabError


@pytest.fixture(autouse=True)
def own_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path / "dstest"))
    return tmp_path / "dstest"


def a_lab(lab_id: str = "demo", **changed: Any) -> LabState:
    lab = LabState(
        lab_id=lab_id,
        tag=state.tag_of(lab_id),
        octet=7,
        nodes=5,
        packages=[],
        image="/nowhere",
        persistent=False,
        owners=[],
        complete=True,
    )
    return msgspec.structs.replace(lab, **changed)


@pytest.mark.parametrize("lab_id", ["", "-x", "A", "a/b", "..", "a b", "x" * 33, "a\n"])
def test_bad_lab_ids_are_refused(lab_id: str) -> None:
    with pytest.raises(ConfigError, match="lab id"):
        state.check_lab_id(lab_id)


def test_link_names_fit_into_fifteen_characters() -> None:
    tag = state.tag_of("demo")
    assert len(f"{tag}n99") <= 15
    assert network.OUR_LINK.fullmatch(tag)
    assert network.OUR_LINK.fullmatch(f"{tag}n99")
    assert not network.OUR_LINK.fullmatch("dstat0")


def test_addresses_of_a_lab() -> None:
    lab = a_lab(octet=200)
    assert (lab.subnet, lab.subnet6) == ("10.77.200.0/24", "fd77:c8::/64")
    assert (lab.address(3), lab.address6(10)) == ("10.77.200.3", "fd77:c8::a")
    assert (lab.control, lab.control6) == ("10.77.200.254", "fd77:c8::fe")


def test_state_survives_and_garbage_counts_as_none(own_dir: Path) -> None:
    state.save(a_lab())
    assert state.load("demo") == a_lab()
    assert state.lab_ids() == ["demo"]
    (own_dir / "labs/demo/lab.json").write_text("{")
    assert state.load("demo") is None


def test_an_owner_is_a_process_and_not_only_its_pid() -> None:
    me = state.me()
    assert me.alive
    assert not Owner(me.pid, me.start + 1).alive


@pytest.mark.parametrize(
    ("changed", "running", "dead"),
    [
        ({}, True, True),
        ({"owners": [state.me()]}, True, False),
        ({"owners": [state.me()]}, False, False),
        ({"persistent": True}, True, False),
        ({"persistent": True}, False, True),
        ({"persistent": True, "complete": False}, True, True),
        ({"owners": [Owner(os.getpid(), 1)]}, True, True),
    ],
)
def test_which_labs_are_dead(
    changed: dict[str, Any], running: bool, dead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.save(a_lab(**changed))
    found = {1: ("demo", "c")} if running else {}
    monkeypatch.setattr("clusters.labs.container.monitors", lambda _=None: found)
    assert bridged._dead("demo", container) is dead


def test_a_lock_excludes_and_leaves_no_file(own_dir: Path) -> None:
    inside: list[int] = []

    def work(number: int) -> None:
        with state.lock("x"):
            inside.append(number)
            assert inside == [number]
            inside.remove(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list((own_dir / "locks").iterdir()) == []


def test_a_lock_that_stays_taken_is_an_error() -> None:
    code = (
        "import time; from clusters.labs import state\n"
        "with state.lock('x'): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(LabError, match="held by another"), state.lock("x", timeout_s=0.2):
            pass
        holder.kill()
        holder.wait(60)
        with state.lock("x", timeout_s=5):
            pass


def routes(monkeypatch: pytest.MonkeyPatch, *taken: str) -> None:
    rows = [{"dst": destination} for destination in taken]
    monkeypatch.setattr(
        network, "_routes", lambda f, _: [r for r in rows if (":" in r["dst"]) == (f == "-6")]
    )


def test_a_subnet_follows_from_the_id_and_steps_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    routes(monkeypatch, "default", "192.0.2.0/24")
    first = network.choose_octet("demo")
    assert first == network.choose_octet("demo")
    routes(monkeypatch, f"10.77.{first}.128/25")
    second = network.choose_octet("demo")
    routes(monkeypatch, f"10.77.{first}.0/24", f"fd77:{second:x}::/64")
    third = network.choose_octet("demo")
    state.save(a_lab("other", octet=third))
    assert len({first, second, third, network.choose_octet("demo")}) == 4
    routes(monkeypatch, "10.0.0.0/8")
    with pytest.raises(LabError, match="no free subnet"):
        network.choose_octet("demo")


def test_the_image_hash_depends_on_what_goes_in_and_not_on_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = image.image_hash(["a", "b"], "bookworm")
    assert one == image.image_hash(["b", "a", "python3"], "bookworm")
    assert one != image.image_hash(["a"], "bookworm")
    assert one != image.image_hash(["a", "b"], "trixie")
    monkeypatch.setattr(image, "SETUP", image.SETUP + "\n")
    assert one != image.image_hash(["a", "b"], "bookworm")


def test_sources_are_those_of_this_host_and_debian_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "host_release", lambda: "bookworm")
    monkeypatch.setattr(
        image,
        "_index_targets",
        lambda: [
            "http://mirror/debian/ bookworm Debian main",
            "http://mirror/debian/ bookworm Debian contrib",
            "http://mirror/security/ bookworm-security Debian main",
            "http://mirror/debian/ trixie Debian main",
            "http://vendor/ bookworm Vendor main",
            "http://odd/ stable",
        ],
    )
    assert image.apt_sources() == (
        "bookworm",
        [
            "deb http://mirror/debian/ bookworm contrib main",
            "deb http://mirror/security/ bookworm-security main",
        ],
    )


def test_a_host_without_debian_sources_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "_index_targets", list)
    monkeypatch.setattr(host, "run", lambda *_, **__: None)
    with pytest.raises(LabError, match="no Debian archive"):
        image.apt_sources()


def fake_builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    tool = tmp_path / "bin" / "mmdebstrap"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(image, "apt_sources", lambda: ("bookworm", ["deb http://m/ bookworm main"]))
    monkeypatch.setattr(image, "_apt_options", list)


def test_a_failed_build_says_why_and_leaves_nothing(
    tmp_path: Path, own_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_builder(tmp_path, monkeypatch, "echo E: Unable to locate package etcd >&2; exit 25")
    with pytest.raises(LabError, match=r"status 25(.|\n)*Unable to locate package") as caught:
        image.ensure(["etcd"], lambda _: None)
    assert caught.value.remedy is not None
    assert list((own_dir / "images").iterdir()) == []


def test_an_image_is_built_once(
    tmp_path: Path, own_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = tmp_path / "count"
    script = f'echo x >> {count}; for a; do case "$a" in */rootfs) mkdir "$a";; esac; done'
    fake_builder(tmp_path, monkeypatch, script)
    said: list[str] = []
    paths = {image.ensure(["etcd"], said.append) for _ in range(3)}
    assert len(paths) == 1
    assert (paths.pop() / "rootfs").is_dir()
    assert count.read_text() == "x\n"
    assert len(said) == 2
    assert [p.name for p in (own_dir / "images").iterdir()] == [image.image_path(["etcd"]).name]


def test_images_go_on_request_and_only_without_a_lab(
    own_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("used", "unused"):
        (own_dir / "images" / name).mkdir(parents=True)
        (own_dir / "images" / name / "image.json").write_text("{}")
    monkeypatch.setattr(network, "remove_orphans", lambda _: [])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    used = str(own_dir / "images" / "used")
    state.save(a_lab(image=used, owners=[state.me()]))
    assert LAB.gc() == []
    assert LAB.gc(images=True) == [f"directory {own_dir / 'images' / 'unused'}"]
    assert Path(used).exists()


def test_what_a_killed_builder_left_is_removed(own_dir: Path) -> None:
    dead = own_dir / "images" / ".abc.4194304"
    alive = own_dir / "images" / f".abc.{os.getpid()}"
    for path in (dead, alive):
        path.mkdir(parents=True)
    assert image.remove_temporaries() == [str(dead)]
    assert alive.exists()


def test_what_a_child_of_a_killed_builder_still_writes_stays(
    own_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = own_dir / "images" / ".abc.4194304"
    dead.mkdir(parents=True)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    assert image.remove_temporaries() == []
    assert dead.exists()


@pytest.mark.parametrize("package", ["Etcd", "etcd;reboot", "--mode=x", ""])
def test_only_package_names_reach_the_builder(package: str) -> None:
    with pytest.raises(ConfigError, match="package name"):
        image.ensure([package], lambda _: None)


def test_up_says_what_a_host_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="100 nodes"):
        LAB.up("demo", 100, packages=[])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(host, "missing_tools", lambda of: ["mmdebstrap", "lxc-start"])
    with pytest.raises(LabError, match="lacks mmdebstrap, lxc-start") as caught:
        LAB.up("demo", 1, packages=[])
    assert caught.value.remedy == "apt-get install -y --no-install-recommends lxc mmdebstrap"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match="needs root"):
        LAB.up("demo", 1, packages=[])
    assert "root" in LAB.missing()


def test_a_program_that_hangs_or_fails_is_an_error() -> None:
    with pytest.raises(LabError, match="did not end within"):
        host.run(["sleep", "5"], timeout_s=0.1)
    with pytest.raises(LabError, match="status 3: why"):
        host.run(["sh", "-c", "echo why >&2; exit 3"])
    with pytest.raises(LabError, match="not installed") as caught:
        host.run(["no-such-program"])
    assert "no-such-program" in str(caught.value.remedy)


@pytest.mark.parametrize("name", ["a b", "a'b", 'a"b', "a,b", "a:b", "a\\b", "a\nb"])
def test_a_directory_that_mount_tables_write_otherwise_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs from it would not be found there."""
    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path / name))
    with pytest.raises(ConfigError, match="labs cannot be kept in"):
        state.root_dir()


def test_an_id_of_adopted_machines_is_no_other_labs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from clusters.labs.lxc import LAB

    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path))
    (tmp_path / "adopted" / "one").mkdir(parents=True)
    with pytest.raises(ConfigError, match="machines of yours"):
        LAB.up("one", 1, packages=())


@pytest.mark.parametrize(
    "text",
    [
        b"\xff",
        b"{}",
        msgspec.json.encode(a_lab("other")),
        msgspec.json.encode(a_lab(tag="")),
        msgspec.json.encode(a_lab(tag=state.tag_of("other"))),
    ],
)
def test_what_is_not_the_record_of_the_lab_says_nothing_of_it(text: bytes, own_dir: Path) -> None:
    """By a tag links are found and removed: those of another lab, or of all."""
    path = state.lab_dir("demo") / "lab.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    assert state.load("demo") is None
    assert state.lab_ids() == ["demo"]
    path.unlink()
    path.mkdir()
    assert state.load("demo") is None


@pytest.mark.parametrize("name", ["labs", "adopted", ""])
def test_a_file_in_the_place_of_a_directory_is_named(name: str, own_dir: Path) -> None:
    path = own_dir / name if name else own_dir
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    asked = state.adopted_ids if name == "adopted" else state.lab_ids
    with pytest.raises(LabError, match="is no directory"):
        asked()
