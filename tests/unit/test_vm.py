"""Virtual machines as a lab: archives for their boot, modules, processes, accelerators, memory."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from clusters.labs import host, state, vm, vm_boot, vm_machines
from clusters.labs.state import LabState
from clusters.labs.vm import LAB
from dstest.core import registry
from dstest.core.errors import LabError
from dstest.runner.requirements import check_lab


@pytest.fixture(autouse=True)
def own_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path / "dstest"))
    return tmp_path / "dstest"


def a_lab(**changed: Any) -> LabState:
    lab = LabState(
        lab_id="v-unit",
        kind="vm",
        tag=state.tag_of("v-unit"),
        octet=7,
        nodes=2,
        packages=[],
        image="/nowhere",
        persistent=False,
        owners=[],
        complete=True,
    )
    return msgspec.structs.replace(lab, **changed)


def test_an_archive_has_what_was_put_into_it() -> None:
    made = vm_boot.archive({"a/b": (stat.S_IFREG | 0o600, b"text"), "c": (vm_boot.DIRECTORY, b"")})
    assert made.startswith(b"070701")
    assert len(made) % 4 == 0
    assert [made.index(name) for name in (b"a\0", b"a/b\0", b"c\0", b"TRAILER!!!\0")] == sorted(
        made.index(name) for name in (b"a\0", b"a/b\0", b"c\0", b"TRAILER!!!\0")
    )
    assert b"text" in made


def test_a_node_archive_keeps_modes(tmp_path: Path) -> None:
    files = tmp_path / "files"
    (files / "etc").mkdir(parents=True)
    (files / "etc/key").write_text("secret")
    (files / "etc/key").chmod(0o600)
    entries = dict(vm_boot.files_below(files, "node/files"))
    assert stat.S_IMODE(entries["node/files/etc/key"][0]) == 0o600
    assert stat.S_ISDIR(entries["node/files/etc"][0])
    made = vm_boot.node_archive(files, "10.77.7.1", "fd77:7::1")
    assert b"address=10.77.7.1\naddress6=fd77:7::1\n" in made


def kernel(rootfs: Path, *, built_in: str = "kernel/fs/ext4/ext4.ko\n") -> None:
    folder = rootfs / "lib/modules/6.1"
    folder.mkdir(parents=True)
    (folder / "modules.builtin").write_text(built_in)
    (folder / "modules.dep").write_text(
        "k/virtio.ko:\nk/virtio_ring.ko: k/virtio.ko\n"
        "k/virtio_pci.ko: k/virtio_ring.ko k/virtio.ko\n"
        "k/virtio_blk.ko: k/virtio_ring.ko k/virtio.ko\n"
        "k/failover.ko:\nk/virtio_net.ko: k/failover.ko k/virtio_ring.ko k/virtio.ko\n"
    )
    (folder / "k").mkdir()
    for name in ("virtio", "virtio_ring", "virtio_pci", "virtio_blk", "failover", "virtio_net"):
        (folder / f"k/{name}.ko").write_text(name)
    (rootfs / "bin").mkdir()
    (rootfs / "bin/busybox").write_text("busybox")


def test_each_module_comes_after_those_that_it_needs(tmp_path: Path) -> None:
    kernel(tmp_path)
    names = [path.stem for path in vm_boot._modules(tmp_path / "lib/modules/6.1")]
    for module, needs in {"virtio_pci": "virtio_ring", "virtio_ring": "virtio"}.items():
        assert names.index(needs) < names.index(module)
    assert names.index("failover") < names.index("virtio_net")
    assert len(names) == len({*names}) == 6
    assert b"virtio_net.ko\n" in vm_boot.initrd(tmp_path, "6.1")


def test_a_kernel_without_a_driver_is_refused(tmp_path: Path) -> None:
    kernel(tmp_path, built_in="")
    with pytest.raises(LabError, match="has no ext4"):
        vm_boot.initrd(tmp_path, "6.1")


def test_an_image_has_one_kernel(tmp_path: Path) -> None:
    (tmp_path / "boot").mkdir()
    with pytest.raises(LabError, match="has 0 kernels"):
        vm_boot.kernel_of(tmp_path)
    (tmp_path / "boot/vmlinuz-6.1").touch()
    assert vm_boot.kernel_of(tmp_path)[0] == "6.1"


def pretend(name: str, *words: str) -> subprocess.Popen[bytes]:
    """A process with this command line, which sleeps."""
    argv = [name, "-c", "import time; time.sleep(60)", *words]
    return subprocess.Popen(argv, executable=sys.executable)


def test_machines_are_found_by_their_command_line_and_killed(own_dir: Path) -> None:
    lab = a_lab()
    ours = str(vm_machines.folder_of(lab, "n2") / vm_machines.PID_FILE)
    other = str(own_dir.parent / "elsewhere/labs/v-unit/nodes/x/qemu.pid")
    running = [
        pretend(vm_machines.QEMU, "-pidfile", ours),
        pretend(vm_machines.QEMU, "-pidfile", other),
        pretend("python3", "-pidfile", ours),
    ]
    try:
        while vm_machines.monitors() == {}:
            time.sleep(0.01)
        assert vm_machines.monitors() == {running[0].pid: ("v-unit", lab.container("n2"))}
        assert vm_machines.monitors("v-other") == {}
        assert vm_machines.states(lab) == {"n1": False, "n2": True}
        life = vm_machines.boots(lab)["n2"]
        assert life == f"{running[0].pid}@{host.proc_start(running[0].pid)}"
        vm_machines.cut(lab, ["n1"])
        assert vm_machines.states(lab)["n2"]
        assert vm_machines.stop("v-unit") == [f"machine {lab.container('n2')}"]
        assert [one.poll() for one in running[1:]] == [None, None]
    finally:
        for one in running:
            one.kill()
            one.wait()


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "image"
    (folder / "vm").mkdir(parents=True)
    (folder / "vm/release").write_text("6.1-cloud\n")
    monkeypatch.setattr(vm_machines, "_version", lambda: "qemu 7")
    return folder


def test_kvm_is_used_where_a_guest_ran_and_only_tried_once(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kvm").touch()
    monkeypatch.setattr(vm_machines, "KVM", tmp_path / "kvm")
    asked = []

    def run(argv: list[str], **_: Any) -> Any:
        asked.append(argv)
        return SimpleNamespace(stdout=f"{vm_boot.RUNS}\n", stderr="", returncode=0)

    monkeypatch.setattr(host, "run", run)
    assert vm_machines.accelerator(image).accelerator == "kvm"
    assert vm_machines.accelerator(image).accelerator == "kvm"
    assert len(asked) == 1
    assert asked[0][0] == "timeout"
    (image / "vm/release").write_text("6.2-cloud\n")
    vm_machines.accelerator(image)
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("done", "why"),
    [
        (SimpleNamespace(stdout="", stderr="", returncode=124), "said nothing within 15 s"),
        (SimpleNamespace(stdout="", stderr="no MSR", returncode=-6), "KVM runs no guest: no MSR"),
    ],
)
def test_a_device_that_runs_no_guest_is_not_used(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: Any, why: str
) -> None:
    (tmp_path / "kvm").touch()
    monkeypatch.setattr(vm_machines, "KVM", tmp_path / "kvm")
    monkeypatch.setattr(host, "run", lambda *_, **__: done)
    trial = vm_machines.accelerator(image)
    assert trial.accelerator == "tcg"
    assert why in trial.why


def test_no_device_is_no_kvm(image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vm_machines, "KVM", tmp_path / "none")
    assert vm_machines.accelerator(image).accelerator == "tcg"


def test_memory_and_disk_are_looked_at_first(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"9999 virtual machines take .* GB of memory"):
        vm._check_memory(9999)
    with pytest.raises(LabError, match=r"machines take 1000000\.0 GB of disk"):
        vm_boot.room(tmp_path / "not/yet", 10**15, "machines take")


def test_what_it_says_of_its_nodes(own_dir: Path) -> None:
    lab = a_lab()
    state.save(lab)
    info = LAB.info(lab, 2)
    assert info.made is not None
    assert {node.slowness for node in info.nodes} == {vm.SLOWNESS["tcg"]}
    trial = vm_machines.Trial(
        accelerator="kvm", why="it ran", host_kernel="h", qemu="q", guest_kernel="6.1"
    )
    vm_machines.write_trial(lab, trial)
    facts = LAB.info(lab, 2).facts
    assert (facts["accelerator"], facts["guest_kernel"]) == ("kvm", "6.1")


def test_its_nodes_may_be_restarted_and_have_clocks() -> None:
    for nemesis in ("restart", "clock-step", "clock-steer"):
        check_lab(registry.load("labs", "vm"), registry.load("nemeses", nemesis))


def test_a_missing_program_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "missing_tools", lambda of: ["qemu-img", vm_machines.QEMU])
    lacks = LAB.missing()
    assert str(lacks["qemu-img"]).endswith("qemu-utils")
    assert str(lacks[vm_machines.QEMU]).endswith("qemu-system-x86")
    assert ("root" in lacks) == (os.geteuid() != 0)


def test_names_of_any_length_in_bytes_are_read_back(tmp_path: Path) -> None:
    """By sizes in the headers, as a kernel does; by cpio as well, where it is there."""
    files = {"x" * n + "ä": (stat.S_IFREG | 0o644, b"text" * n) for n in range(1, 9)}
    data, at, found = vm_boot.archive(files), 0, {}
    while True:
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        name_end = at + 110 + fields[11]
        name = data[at + 110 : name_end - 1].decode()
        begin = name_end + -name_end % 4
        if name == "TRAILER!!!":
            break
        found[name] = data[begin : begin + fields[6]]
        at = begin + fields[6] + -fields[6] % 4
    assert found == {name: text for name, (_, text) in files.items()}
    if shutil.which("cpio"):
        subprocess.run(["cpio", "-i", "--quiet"], input=data, cwd=tmp_path, check=True)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == found
