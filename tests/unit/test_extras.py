"""Packages that are not installed: which extra brings them, and that it is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.extras import extra_with, lacking, require_packages
from dstest.core.protocols import SystemTraits

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def test_every_package_of_a_client_comes_with_dstest_or_an_extra() -> None:
    always = {row.partition(">")[0] for row in PROJECT["dependencies"]}
    for name in registry.names("systems", ours=True):
        for package in SystemTraits.of(registry.load("systems", name)).client_packages[:1]:
            assert package in always or extra_with(package), name


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("yaml", "pyyaml", "plans"),
        ("markdown_it.tree", "markdown-it-py", "plans"),
        ("tornado.web", "tornado", "serve"),
        ("distributed", "distributed", "night"),
    ],
)
def test_an_import_that_fails_names_its_extra(module: str, package: str, extra: str) -> None:
    said = lacking(ModuleNotFoundError(f"No module named {module!r}", name=module))
    assert said is not None
    assert f"this needs {package}, " in said.message
    assert said.remedy == f'pip install "dstest[{extra}]"'


def test_other_errors_are_what_they_are() -> None:
    assert lacking(ModuleNotFoundError("no", name="dstest.core.nowhere")) is None
    assert lacking(ImportError("cannot import name 'x'", name="yaml")) is None


def test_a_driver_that_is_missing_is_said_before_a_run() -> None:
    with pytest.raises(ConfigError, match="system mine needs no-such-driver, which is not") as no:
        require_packages(["msgspec", "no-such-driver"], "system mine")
    assert no.value.remedy == "pip install no-such-driver"


def test_the_command_says_it(tmp_path: Path) -> None:
    """As where the package is not there: Python finds a module of its name that cannot be found."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['yaml'] = None\n")
    (tmp_path / "x.md").write_text("---\na: 1\n---\n")
    done = subprocess.run(
        [sys.executable, "-m", "dstest", "plan", "lint", str(tmp_path / "x.md"), "--json"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    answer = json.loads(done.stdout)
    assert "yaml" in done.stderr and 'pip install "dstest[plans]"' in done.stderr
    assert answer["exit_code"] == 2
