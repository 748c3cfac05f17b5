"""What there is to test claims with, by what plug-ins say of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dstest.campaign.fit import fit_of
from dstest.campaign.launch import Arm, Run
from dstest.core import registry
from dstest.core.check import CATEGORIES, GATED
from dstest.plans.choice import (
    CONFUSABLES,
    KINDS,
    PICKER,
    PITFALLS,
    TECHNIQUES,
    Tool,
    checkers_of,
    rows_of,
    toolbox,
    workloads_of,
)
from nemeses.catalogue import CATALOGUE

ETCD = toolbox("etcd")


def tool(model: str, category: str) -> Tool:
    return next(one for one in ETCD.tools if (one.model, one.category) == (model, category))


PICKED = {
    ("register", "safety"): {"linearizable"},
    ("log", "durability"): {"no-lost-ack", "set-full", "kafka", "set"},
    ("ledger", "idempotency"): {"exactly-once"},
    ("membership-table", "membership"): {"reconciliation"},
    ("queue", "ordering"): {"order"},
    ("feed", "ordering"): {"watch"},
    ("lease", "safety"): {"exclusion"},
    ("any", "fairness"): {"fairness"},
    ("tenants", "boundary"): {"boundary"},
}


@pytest.mark.parametrize("row", PICKED, ids=" ".join)
def test_the_picker_finds_checkers_by_their_models(row: tuple[str, str]) -> None:
    assert {*checkers_of(rows_of(row[1], row[0]))} >= PICKED[row]


def test_every_gated_category_can_be_picked() -> None:
    assert {row.category for row in PICKER} >= GATED
    for row in PICKER:
        assert row.category in CATEGORIES and checkers_of([row]), row
    published = [row for row in PICKER if not row.ours]
    assert len(published) == 11


def test_workloads_are_those_that_claim_it() -> None:
    safety = rows_of("safety", "register")[0]
    assert {*workloads_of(safety)} == {"register", "cas-register", "tenants"}
    assert workloads_of(rows_of("membership")[0]) == ["bank-replicas"]


def test_the_workload_has_names_of_every_confusable_class() -> None:
    from workloads._confusables import SPELLERS

    assert [*SPELLERS] == [*CONFUSABLES]


def test_what_fits_a_system() -> None:
    assert "register" in tool("register", "safety").workloads
    assert "clock" in tool("register", "safety").nemeses
    assert tool("any", "liveness").besides and "register" in tool("any", "liveness").workloads
    assert "schema-change" in ETCD.refused and "ChangesSchema" in ETCD.refused["schema-change"]


def test_what_is_missing_has_a_command() -> None:
    assert ETCD.untested == []
    assert tool("tenants", "boundary").workloads == ["boundary"]
    box = toolbox("memcached")
    ledger = next(one for one in box.tools if one.model == "ledger")
    assert not ledger.usable
    assert "memcached offers no client for ledger" in ledger.missing[0].what


def test_pitfalls_name_faults_and_models_that_are_known() -> None:
    numbers = {fault.number for fault in CATALOGUE}
    models = {
        model
        for name in registry.names("checkers")
        for model in registry.load("checkers", name).models
    }
    assert [pattern.number for pattern in PITFALLS] == [*range(1, 17)]
    for pattern in PITFALLS:
        assert {*pattern.faults} <= numbers and {*pattern.models} <= models, pattern
        assert pattern.kind in KINDS and {*pattern.categories} <= CATEGORIES
        assert pattern.faults and pattern.models
    assert len(KINDS) == 8 and len(CONFUSABLES) == 9 and len(TECHNIQUES) == 8


FITS: dict[str, tuple[dict[str, Any], str]] = {
    "as it is": ({}, ""),
    "no system": ({"system": "etcdd"}, "run"),
    "no client": ({"workload": "closed-predicate"}, "run"),
    "no nemesis": ({"nemesis": "partitions"}, "nemesis"),
    "no such fault on it": ({"nemesis": "kill,schema-change"}, "nemesis"),
    "no judge": ({"model": "queue"}, "checker"),
    "a judge twice": ({"checker": ("linearizable",)}, "checker"),
    "a judge besides": ({"checker": ("slo",)}, ""),
    "other judges": ({"checkers": ("slo",)}, "checker"),
    "all judges": ({"checkers": ("linearizable", "slo"), "checker": ("slo",)}, ""),
}


@pytest.mark.parametrize("name", FITS)
def test_what_would_be_refused(name: str) -> None:
    facts, where = FITS[name]
    plain = Run(system="etcd", workload="register", nemesis="partition")
    fit = fit_of(msgspec.structs.replace(plain, **facts), Arm(name=""))
    assert (fit.where, bool(fit.problem)) == (where, bool(where)), fit.problem


def test_an_arm_may_differ() -> None:
    run = Run(system="etcd", workload="register", nemesis="partition")
    fit = fit_of(run, Arm(name="x", workload="set", nemesis="kill,pause"))
    assert [*fit.nemeses] == ["kill", "pause"] and fit.faults == {"N01", "N03"}
    assert "no-lost-ack" in fit.checkers


def test_a_file_of_ones_own_is_in_the_toolbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dstest.core.registry import FILES
    from dstest.extend.scaffold.write import KINDS as NEW
    from dstest.extend.scaffold.write import write

    monkeypatch.setenv(FILES, "")
    skeleton, _ = write(NEW["nemesis"], "slow-link", tmp_path)
    run = Run(system="etcd", workload="register", nemesis="slow-link", plugin=(str(skeleton),))
    fit = fit_of(run, Arm(name=""))
    assert not fit.problem and [*fit.nemeses] == ["slow-link"]
