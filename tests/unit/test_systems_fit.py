"""Every system with every nemesis: planned where it fits, refused with what lacks where not."""

from __future__ import annotations

import json

import pytest
from typer import Typer
from typer.testing import CliRunner

from dstest.cli.listing import list_
from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve
from dstest.runner.requirements import lacking

pytestmark = pytest.mark.slow

SYSTEMS = registry.names("systems")
NEMESES = registry.names("nemeses")
OPTIONS = {
    "credentials": ["auth=true"],
    "mixed-versions": [f"other_build={__file__}"],
    "upgrade": [f"other_build={__file__}"],
}


def workload_of(system: str) -> str:
    """One that fits: queues keep no registers."""
    offers = registry.load("systems", system).capabilities
    every = dict.fromkeys(["register", *registry.names("workloads")])
    return next(name for name in every if registry.load("workloads", name).capability in offers)


def planned(system: str, nemesis: str) -> bool:
    """Was it planned? Refusals name all that lacks."""
    load = workload_of(system)
    wanted = RunSpec(
        system=system, workload=load, nemesis=nemesis, time_limit_s=120.0, seed=5, lab="vm"
    )
    options = OPTIONS.get(nemesis, []) if system == "etcd" or nemesis != "credentials" else []
    try:
        plans = resolve(wanted, options).plans
    except ConfigError as error:
        said = error.message
        assert f"system {system} cannot have --nemesis {nemesis}: it lacks" in said
        found = lacking(registry.load("systems", system), registry.load("nemeses", nemesis))
        names = [lack.capability for lack in found if not lack.when]
        assert names
        assert all(f"{name} (" in said for name in names)
        return False
    assert bool(plans) == (nemesis != "none")
    return True


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.sampled(2)
def test_what_is_listed_as_fitting_is_planned_and_nothing_else(system: str) -> None:
    app = Typer()
    app.command()(list_)
    rows = json.loads(CliRunner().invoke(app, ["--json"]).stdout)["matrix"]
    fits = {
        r["nemesis"]: r["fits"]
        for r in rows
        if (r["system"], r["workload"]) == (system, workload_of(system))
    }
    assert fits == {nemesis: planned(system, nemesis) for nemesis in NEMESES}
    unfit = {nemesis for nemesis, fit in fits.items() if not fit}
    assert (unfit == {"schema-change", "store-outage"}) == (system == "etcd")
