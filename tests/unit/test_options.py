"""Options and flags at their limits: refused before a node exists, with a word on what to give."""

from __future__ import annotations

import math

import msgspec
import pytest

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.protocols import Option
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve

SPEC = RunSpec(time_limit_s=60.0, seed=1)

WRONG = [
    {"nemesis": ""},
    {"nemesis": ","},
    {"nemesis": "kill,"},
    {"nemesis": " "},
    {"rate": math.nan},
    {"rate": math.inf},
    {"rate": 0.0},
    {"rate": -5.0},
    {"rate": 1e12},
    {"time_limit_s": math.nan},
    {"time_limit_s": math.inf},
    {"time_limit_s": 0.0},
    {"nodes": 0},
    {"nodes": 1000},
    {"concurrency": 0},
    {"concurrency": 4},
    {"concurrency": 10**9},
    {"seed": -1},
    {"workload": ""},
    {"system": ""},
    {"model": ""},
]

PAIRS = [
    "keys=0",
    "keys=-1",
    "keys=1e3",
    "write_ratio=7",
    "write_ratio=-0.1",
    "write_ratio=nan",
    "op_timeout_s=0",
    "op_timeout_s=inf",
    "workers=-1",
    "targets=n9",
    "targets=n1,n1",
    "targets=n1,,n6",
    "fault_s=0",
    "fault_s=nan",
    "quiet_s=-1",
    "paths=n1:n9",
    "ops_per_key=0",
    "election_ms=0",
    "keys",
    "=5",
    "keyz=5",
    "reads=both",
]


@pytest.mark.parametrize("changes", WRONG, ids=str)
def test_flags_out_of_range(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        resolve(msgspec.structs.replace(SPEC, **changes), [])


@pytest.mark.parametrize("pair", PAIRS)
def test_options_out_of_range(pair: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(SPEC, [pair])
    assert caught.value.remedy


@pytest.mark.parametrize("pair", ["keys=1", "write_ratio=1", "targets=n1,n5", "quiet_s=0"])
def test_options_at_their_limits(pair: str) -> None:
    assert resolve(SPEC, [pair]).plans


def test_nothing_is_asked_for_by_none_alone() -> None:
    assert resolve(msgspec.structs.replace(SPEC, nemesis="none"), []).plans == []
    assert resolve(msgspec.structs.replace(SPEC, nemesis="kill,none"), []).plans


def options() -> list[tuple[str, str, Option]]:
    found = []
    for group in ("systems", "workloads", "nemeses"):
        for name in registry.names(group):
            found += [(name, key, o) for key, o in registry.load(group, name).options.items()]
    return found


def test_every_number_has_a_range_that_holds_its_default() -> None:
    numbers = [row for row in options() if row[2].type in (int, float) and not row[2].choices]
    assert len(numbers) > 100
    for owner, key, option in numbers:
        assert option.least is not None, f"{owner} -o {key}"
        assert option.most is not None, f"{owner} -o {key}"
        assert option.least <= option.default <= option.most, f"{owner} -o {key}"
