"""Fault schedules as files: kept by every run, followed to the letter, refused where wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import ConfigError
from dstest.core.spec import RunSpec
from dstest.runner.plugins import Plugins, resolve, schedule_of
from dstest.runner.schedule_file import Schedule, read_schedule


def plugins(**spec: Any) -> Plugins:
    return resolve(RunSpec(nemesis="partition,kill", seed=3, **spec), ["scope=all", "fault_s=5"])


def kept(folder: Path, schedule: Schedule) -> Path:
    path = folder / "schedule.json"
    path.write_bytes(msgspec.json.encode(schedule))
    return path


def test_a_run_from_a_schedule_has_its_faults_and_options(tmp_path: Path) -> None:
    first = plugins()
    schedule = read_schedule(kept(tmp_path, schedule_of(first)))
    again = resolve(RunSpec(seed=99), [], schedule=schedule)
    assert again.plans == first.plans
    assert again.spec.nemesis == "partition,kill"
    assert again.nemesis.name == "partition,kill"
    assert (again.spec.options["scope"], again.spec.options["fault_s"]) == ("all", 5.0)
    other = resolve(RunSpec(seed=99), ["op_timeout_s=1", "shape=one"], schedule=schedule)
    assert (other.spec.options["shape"], other.spec.options["scope"]) == ("one", "all")


def test_a_schedule_must_fit_the_run(tmp_path: Path) -> None:
    schedule = schedule_of(plugins())
    with pytest.raises(ConfigError, match="for 5 nodes"):
        resolve(RunSpec(nodes=3), [], schedule=schedule)
    with pytest.raises(ConfigError, match="would not fit"):
        resolve(RunSpec(time_limit_s=30.0), [], schedule=schedule)
    strange = msgspec.structs.replace(schedule, options={"colour": 1})
    with pytest.raises(ConfigError, match="no option colour"):
        resolve(RunSpec(), [], schedule=strange)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "dstest.schedule/9"}, "schema"),
        ({"nemesis": "kill"}, "does not name"),
        ({"plans": "twice"}, "same fault_id"),
        ({"plans": "reversed"}, "order"),
        ({"plans": "timeless"}, "has no time"),
        ({"colour": 1}, "colour"),
        ({"nodes": "five"}, "nodes"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    plain = msgspec.to_builtins(schedule_of(plugins()))
    plans = plain["plans"]
    made: dict[Any, Any] = {
        "twice": [plans[0], plans[0]],
        "reversed": plans[::-1],
        "timeless": [{**plans[0], "duration_ns": 0}],
    }
    changed = {**plain, **{k: made.get(v, v) for k, v in change.items()}}
    path = tmp_path / "s.json"
    path.write_bytes(msgspec.json.encode(changed))
    with pytest.raises(ConfigError, match=message):
        read_schedule(path)


def test_a_file_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text("not json")
    for wrong in (path, tmp_path / "absent"):
        result = CliRunner().invoke(app, ["run", "--schedule", str(wrong)])
        assert isinstance(result.exception, ConfigError)
