"""Who listens where a system's services go: others are named, our own are not, and our program is
asked only where somebody listens."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

# The package has a function of that name.
residues = importlib.import_module("clusters.supervise.system")


@pytest.fixture(name="port")
def _port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture(name="ours")
def _ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program on the node; it tells of this process as a server, and keeps that it was asked."""
    program = tmp_path / "services"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\necho server {os.getpid()} of etcd\n")
    program.chmod(0o755)
    monkeypatch.setattr(residues, "PROGRAM", str(program))
    return tmp_path / "asked"


def said(port: int) -> str:
    look = residues.foreign((port, 1)).look
    done = subprocess.run(["sh", "-c", look], capture_output=True, text=True, check=True)
    return str(done.stdout)


def test_somebody_else(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residues, "PROGRAM", "/nowhere/services")
    assert said(port).startswith(f"foreign process {os.getpid()} (")


def test_our_own(port: int, ours: Path) -> None:
    assert said(port) == ""
    assert ours.exists()


def test_nobody(ours: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        free = bound.getsockname()[1]
    assert said(free) == ""
    assert not ours.exists()


def test_who_cannot_look_does_not_say_that_nobody_is_there(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ss").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "ss").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(subprocess.CalledProcessError):
        said(port)
