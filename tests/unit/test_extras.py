"""Packages that are not installed: which extra brings them, and that it is said."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dstest.campaign.workers.bundle import pack_bundle
from dstest.core import extras, registry
from dstest.core.errors import ConfigError, HarnessError
from dstest.core.extras import extra_with, install_command, lacking, require_packages

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def test_every_package_of_a_client_comes_with_dstest_or_an_extra() -> None:
    always = {row.partition(">")[0] for row in PROJECT["dependencies"]}
    for name in registry.names("systems", ours=True):
        for package in registry.load("systems", name).client_packages[:1]:
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
    assert said.remedy == install_command(extra)


NIGHT = """
name = "n"
[[cells]]
control = "red"
id = "R"
lab = "sim"
system = "toykv"
workload = "register"
nemesis = "partition"
anomalies = ["nonlinearizable"]
options = { bug = "stale-follower-read" }
[[cells]]
lab = "sim"
system = "toykv"
workload = "register"
nemesis = "partition"
"""


class Told:
    """A distribution that was installed from somewhere."""

    def __init__(self, direct_url: object) -> None:
        self._said = None if direct_url is None else json.dumps(direct_url)

    def read_text(self, name: str) -> str | None:
        return self._said if name == "direct_url.json" else None


@pytest.mark.parametrize("form", ["wheel", "directory", "editable", "index", "gone", "odd"])
def test_the_remedy_is_a_command_of_this_python_that_has_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """`pip install "dstest[night]"` asks another Python's pip, for what no index has."""
    wheel = tmp_path / "a b" / "dstest-1-py3-none-any.whl"
    wheel.parent.mkdir()
    if form != "gone":
        wheel.touch()
    file, folder = {"url": wheel.as_uri()}, {"url": wheel.parent.as_uri()}
    forms: dict[str, tuple[object, list[str]]] = {
        "wheel": ({**file, "archive_info": {}}, [f"{wheel}[night]"]),
        "directory": ({**folder, "dir_info": {}}, [f"{wheel.parent}[night]"]),
        "editable": ({**folder, "dir_info": {"editable": True}}, ["-e", f"{wheel.parent}[night]"]),
        "index": (None, ["dstest[night]"]),
        "gone": ({**file, "archive_info": {}}, PROJECT["optional-dependencies"]["night"]),
        "odd": ([], ["dstest[night]"]),
    }
    told, words = forms[form]
    monkeypatch.setattr(extras, "distributions", lambda name: [Told(None), Told(told)])
    assert shlex.split(install_command("night")) == [sys.executable, "-m", "pip", "install", *words]


def test_a_night_that_is_shown_needs_no_extra_and_one_that_is_run_names_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['distributed'] = None\n")
    (tmp_path / "n.toml").write_text(NIGHT)

    def nightly(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "dstest", "nightly", *words],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    shown = nightly("show", "n.toml")
    assert shown.returncode == 0, shown.stderr
    for command in ("report", "status"):
        assert "distributed" not in nightly(command, str(tmp_path)).stderr
    done = nightly("run", "n.toml")
    assert done.returncode == 2 and "a night needs distributed, which is not" in done.stderr
    assert install_command("night") in done.stderr
    assert not (tmp_path / "store").exists()


def test_what_workers_want_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.metadata.distribution

    def without(name: str) -> importlib.metadata.Distribution:
        if name == "distributed":
            raise importlib.metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(importlib.metadata, "distribution", without)
    with pytest.raises(HarnessError, match="distributed is required") as no:
        pack_bundle(tmp_path / "x.tar.gz")
    assert no.value.remedy == install_command("night")


def test_other_errors_are_what_they_are() -> None:
    assert lacking(ModuleNotFoundError("no", name="dstest.core.nowhere")) is None
    assert lacking(ImportError("cannot import name 'x'", name="yaml")) is None


def test_a_driver_that_is_missing_is_said_before_a_run() -> None:
    with pytest.raises(ConfigError, match="system mine needs no-such-driver, which is not") as no:
        require_packages(["msgspec", "no-such-driver"], "system mine")
    assert no.value.remedy == f"{sys.executable} -m pip install no-such-driver"


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
    assert "yaml" in done.stderr and install_command("plans") in done.stderr
    assert answer["exit_code"] == 2
