"""A system is loaded without the libraries of its clients: planning and listing need none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dstest.core import registry
from dstest.core.protocols import Endpoint
from dstest.core.registry import FILES
from dstest.extend.scaffold.write import KINDS, write

pytestmark = pytest.mark.slow

LIBRARIES = ("grpc", "google.protobuf", "redis")

LOAD = """
import sys
from dstest.core import registry
system = registry.load("systems", sys.argv[1])
assert system.deployment and system.capabilities and system.definite_errors
print(*sorted({*sys.argv[2:]} & {*sys.modules}))
"""


def imported_with(name: str, files: str = "") -> str:
    """Libraries that a fresh process has once it has loaded this system."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, name, *LIBRARIES], env={**os.environ, FILES: files},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.mark.parametrize("name", registry.names("systems", ours=True))
def test_a_registered_system(name: str) -> None:
    assert imported_with(name) == ""


def test_a_file_of_the_users_own(tmp_path: Path) -> None:
    path, _ = write(KINDS["system"], "small-store", tmp_path)
    assert imported_with("small-store", str(path)) == ""


def test_the_look_would_see_a_library(tmp_path: Path) -> None:
    path, _ = write(KINDS["system"], "small-store", tmp_path)
    path.write_text(path.read_text() + "\nimport grpc\n")
    assert imported_with("small-store", str(path)) == "grpc"


@pytest.mark.parametrize("name", registry.names("systems", ours=True))
def test_each_capability_has_a_client(name: str) -> None:
    system = registry.load("systems", name)
    end = Endpoint(node="n1", address="192.0.2.1", port=1)
    for capability in system.capabilities:
        client = system.client(capability, end, [end], {"op_timeout_s": 1.0})
        assert callable(client.invoke), capability
