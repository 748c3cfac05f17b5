"""`dstest options` tells of each `-o` that a run takes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core import registry
from dstest.core.errors import ConfigError


def shown(*words: str) -> str:
    result = CliRunner().invoke(app, ["options", *words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize(
    ("flag", "group"),
    [("--system", "systems"), ("--workload", "workloads"), ("--nemesis", "nemeses")],
)
def test_every_declared_option_is_told(flag: str, group: str) -> None:
    for name in registry.names(group, ours=True):
        rows = json.loads(shown(flag, name, "--json"))["options"]
        told = {row["name"]: row for row in rows if row["of"].endswith(f" {name}")}
        declared = registry.load(group, name).options
        assert told.keys() == declared.keys()
        for key, option in declared.items():
            assert (told[key]["default"], told[key]["help"]) == (option.default, option.help)


def test_what_it_may_be_stands_there() -> None:
    text = shown("--nemesis", "partition,kill")
    assert "-o shape=random" in text and "leader)" in text
    assert "-o at_once=" in text
    assert "every run:" in text and "-o op_timeout_s=2.0" in text


def test_without_a_name_it_is_the_main_job() -> None:
    text = shown()
    assert [line for line in text.splitlines() if not line.startswith(" ")] == [
        "system etcd:",
        "workload register:",
        "nemesis partition:",
        "every run:",
    ]


def test_a_misspelt_name_is_corrected() -> None:
    with pytest.raises(ConfigError, match="no workload called 'regster'") as told:
        shown("--workload", "regster")
    assert "did you mean register" in str(told.value)
