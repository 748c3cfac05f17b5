"""The `rootless` lab: LXC containers for an ordinary user, in namespaces of the command's own.

    dstest run --lab rootless --workload register --nemesis partition

Nodes live as long as the command that runs within; sshd is their only service. What needs root of
the host itself is refused by the nemeses that need it: groups of memory and of the freezer, FUSE.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Mapping, Sequence
from typing import ClassVar

from clusters.labs import container, host, identity, image, leftovers, seclusion, state
from clusters.labs.bridged import Progress
from clusters.labs.lxc import LxcBased
from clusters.labs.state import LabState
from dstest.core.errors import ConfigError, LabError
from dstest.core.node import LabInfo

IMAGE_S = 1800.0
MAKE = "import json, sys; from clusters.labs import image; image.ensure(json.loads(sys.argv[1]), "
MAKE += "lambda text: print(text, file=sys.stderr))"

CONFIG = """\
lxc.include = /usr/share/lxc/config/common.conf
lxc.include = /usr/share/lxc/config/userns.conf
lxc.uts.name = {name}
lxc.rootfs.path = dir:{folder}/rootfs
lxc.apparmor.profile = unconfined
lxc.mount.auto = proc:mixed sys:mixed
lxc.mount.entry = tmpfs run tmpfs rw,nosuid,nodev,mode=755 0 0
lxc.init.cmd = /usr/local/sbin/dstest-init
lxc.signal.halt = SIGKILL
"""

INIT = """\
#!/bin/sh
# Process 1 of a node without systemd: it collects what others leave behind.
mkdir -p /run/sshd
/usr/sbin/sshd -D -e 2>/dev/null &
wait
"""


class RootlessLab(LxcBased):
    """Implements `dstest.core.node.Lab`, `Inspects`, `Restarts` and `Secluded`."""

    name = "rootless"
    doc = "LXC containers without root, in namespaces that last as long as the command"
    tools: ClassVar[Mapping[str, str]] = {**host.TOOLS, **seclusion.TOOLS}

    def inside(self) -> bool:
        """See `Secluded.inside`."""
        return seclusion.inside()

    def within(self, lab_id: str, packages: Sequence[str] | None, argv: Sequence[str]) -> int:
        """See `Secluded.within`."""
        state.check_lab_id(lab_id)
        if lacks := self.missing():
            raise LabError(
                f"this host cannot run a {self.name} lab; it lacks {', '.join(lacks)}",
                remedy="; ".join(dict.fromkeys(lacks.values())),
            )
        if packages is not None:
            self._have_image(packages)
        return seclusion.run_inside(lab_id, argv)

    def prepare(self, packages: Sequence[str], *, progress: Progress | None = None) -> None:
        """See `Prepares.prepare`. Its steps are told on standard error."""
        self._have_image(packages)

    def _have_image(self, packages: Sequence[str]) -> None:
        """Made with this host's network, which is not there within."""
        if (image.image_path(packages) / "image.json").exists():
            return
        import json

        words = [sys.executable, "-c", MAKE, json.dumps(list(packages))]
        if seclusion.as_mapped_root(words, timeout_s=IMAGE_S) != 0:
            raise LabError("the node image cannot be made", remedy="the lines above say why")

    def up(
        self,
        lab_id: str,
        nodes: int,
        *,
        packages: Sequence[str],
        progress: Progress | None = None,
        persistent: bool = False,
    ) -> LabInfo:
        """See `Lab.up`. ConfigError for a lab that is to outlive the command."""
        if persistent or not self.inside():
            raise ConfigError(
                f"nodes of a {self.name} lab live as long as the command that uses them",
                remedy=f"dstest run --lab {self.name}",
            )
        return super().up(lab_id, nodes, packages=packages, progress=progress)

    def start(self, lab: LabState, say: Progress) -> None:
        identity.write_keys(lab)
        identity.write_hook(lab)
        identity.write_files(lab)
        for name in lab.names:
            init = identity.own_files(lab, name) / "usr/local/sbin/dstest-init"
            init.parent.mkdir(parents=True)
            init.write_text(INIT)
            init.chmod(0o755)
        container.prepare(lab, CONFIG)
        for name in lab.names:
            _mount_root(lab, name)
        container.start(lab)
        identity.wait_ssh(lab)

    def down(self, lab_id: str) -> list[str]:
        """See `Lab.down`."""
        if self.inside():
            return super().down(lab_id)
        if (held := seclusion.held_by(lab_id)) is not None:
            raise LabError(
                f"lab {lab_id} lives in process {held.pid or 'that is just starting'}",
                remedy=f"kill {held.pid or 'it'}",
            )
        if not state.lab_dir(lab_id).exists():
            return []
        words = ("lab", "down", "--lab", self.name, "--lab-id", lab_id)
        if seclusion.run_inside(f"{lab_id[:29]}-rm", words) != 0 or state.lab_dir(lab_id).exists():
            raise LabError(f"lab {lab_id} is not gone", remedy="dstest lab gc")
        return [f"directory {state.lab_dir(lab_id)}"]

    def status(self, lab_id: str) -> LabInfo | None:
        """See `Lab.status`: from outside, no lab can be used."""
        return super().status(lab_id) if self.inside() else None

    def examine(self, lab_id: str) -> list[str]:
        """See `Inspects.examine`."""
        if self.inside():
            return super().examine(lab_id)
        if seclusion.held_by(lab_id) is not None:
            return ["its nodes are in the namespaces of that command, and nowhere else"]
        return ["its command is gone, and with it the nodes"] if self.load(lab_id) else []

    def users(self, lab_id: str) -> list[int]:
        """See `Inspects.users`."""
        if self.inside():
            return super().users(lab_id)
        held = seclusion.held_by(lab_id)
        return [] if held is None else [held.pid or 0]

    def starting(self, lab_id: str) -> bool:
        """See `Inspects.starting`."""
        return self.inside() and super().starting(lab_id)

    def gc(self, *, images: bool = False) -> Sequence[str]:
        """Remove what dead labs left; what a living command has stays."""
        if not self.inside():
            return []
        held = {i for i in state.lab_ids(self.name) if seclusion.held_by(i) is not None}
        return leftovers.collect(self.name, self.machines, images=images, keep=frozenset(held))

    # The monitors of LXC that this host shows are those of other labs.
    def list(self) -> builtins.list[str]:
        """See `Lab.list`: by their files alone, which outlive the namespaces."""
        return state.lab_ids(self.name)

    def missing(self) -> Mapping[str, str]:
        """See `Lab.missing`."""
        lacks = {t: host.apt_remedy([t], self.tools) for t in host.missing_tools(self.tools)}
        if self.inside() or lacks:
            return lacks
        if os.geteuid() == 0:
            return {"an ordinary user": "--lab lxc, which root may have"}
        try:
            seclusion.tried()
        except LabError as error:
            return {error.message: error.remedy or ""}
        return {}


def _mount_root(lab: LabState, name: str) -> None:
    """LXC itself would not mount an overlay so that a user namespace may."""
    upper = identity.own_files(lab, name)
    work = upper.with_name("work")
    work.mkdir()
    layers = f"lowerdir={lab.image}/rootfs,upperdir={upper},workdir={work},userxattr"
    where = str(upper.with_name("rootfs"))
    host.run(["mount", "-t", "overlay", "overlay", "-o", layers, where])


LAB = RootlessLab()
