"""An ordinary user of this host, made for tests and removed after them."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dstest.core.processes import each

ROOT = Path(__file__).parents[2]


class User:
    """Runs programs as this user, with nothing of our own environment."""

    PLACES = ("/tmp", "/var/tmp", "/var/lib", "/run", "/dev/shm", str(ROOT))

    def __init__(self, name: str) -> None:
        self.name = name
        self.home = Path(pwd.getpwnam(name).pw_dir)
        self.uid = pwd.getpwnam(name).pw_uid

    def words(self, *words: str | Path) -> list[str]:
        """The command line of `dstest WORDS` as this user."""
        path = "PATH=/usr/local/bin:/usr/bin:/bin"
        drop = ["setpriv", "--reuid", self.name, "--regid", self.name, "--init-groups"]
        bare = ["env", "-i", "-C", str(self.home), path, f"HOME={self.home}", "LANG=C.UTF-8"]
        return [*drop, *bare, sys.executable, "-m", "dstest", *map(str, words)]

    def dstest(
        self, *words: str | Path, timeout_s: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        argv = self.words(*words)
        return subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)

    def processes(self) -> list[int]:
        """Those of the user, and of the ids that are mapped for it."""
        home = f"HOME={self.home}".encode()
        return [pid for pid, environ in each("environ") if home in environ]

    def give(self, source: Path, target: Path) -> None:
        """A copy that belongs to the user."""
        subprocess.run(["cp", "-r", str(source), str(target)], check=True, timeout=60)
        subprocess.run(["chown", "-R", self.name, str(target)], check=True, timeout=60)

    def files(self) -> list[str]:
        """What belongs to the user outside of his home."""
        argv = ["find", *self.PLACES, "-xdev", "-user", self.name, "-not", "-path", "/proc/*"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        return done.stdout.split("\n")[:-1]


def _unused_uid() -> int:
    """Of no user here, and of none that a node or a checkout is likely to have."""
    taken = {user.pw_uid for user in pwd.getpwall()}
    return next(uid for uid in range(23_000 + os.getpid() % 9_000, 60_000) if uid not in taken)


@contextmanager
def ordinary_user() -> Iterator[User]:
    """Skips where none can be made, or may not read what is to be run."""
    if os.geteuid() != 0:
        pytest.skip("making a user needs root")
    name, uid = f"dst-t{os.getpid()}", _unused_uid()
    argv = ["useradd", "--create-home", "--uid", str(uid), name]
    made = subprocess.run(argv, capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no user can be made here: {made.stderr.decode().strip()}")
    user = User(name)
    try:
        look = user.dstest("--version")
        if look.returncode != 0:
            pytest.skip(f"an ordinary user cannot run what is in {ROOT}: {look.stderr[-200:]}")
        yield user
    finally:
        for pid in user.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        subprocess.run(["userdel", "--remove", name], capture_output=True, check=False)
        subprocess.run(["rm", "-rf", str(Path("/home") / name)], check=False)
