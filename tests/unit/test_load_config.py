"""What the workers of a run are told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dstest.core.spec import RunSpec
from dstest.runner.load import Load
from dstest.runner.plugins import resolve


@pytest.mark.parametrize(("workload", "final_s"), [("work-queue", 120.0), ("register", 20.0)])
def test_the_final_phase_takes_as_long_as_the_workload_says(
    tmp_path: Path, workload: str, final_s: float
) -> None:
    system = "rabbitmq" if workload == "work-queue" else "etcd"
    plugins = resolve(RunSpec(system=system, workload=workload, nemesis="none"), [])
    run: Any = SimpleNamespace(path=tmp_path, segments=tmp_path)
    endpoints: Any = [SimpleNamespace(node=node) for node in plugins.members]
    load = Load(plugins, endpoints, run)
    told = [load._config(worker).final_s for worker in range(load.workers)]
    assert told == [final_s] * load.workers
    load.board.close()
