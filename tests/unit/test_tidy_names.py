"""No part of the run, the judge or the commands knows a plug-in by its name: what one of them does
differently from others, it says itself (`dstest.core.protocols.traits`)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dstest.core import registry
from dstest.core.protocols import CheckerTraits, NemesisTraits, SystemTraits

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "dstest").rglob("*.py"))
NAMES = {name for group in registry.GROUPS for name in registry.names(group, ours=True)}

OF_NAMES = {
    "findings/entries": "published bugs are commands, whose words are names",
    "scaffold/templates": "what `dstest new` writes for files of a user's own",
}
"""Folder -> why its files are nothing but such words."""

ALLOWED = {
    "series that are sampled: what waits, open files; and a run without a baseline": {
        "monitor/alerts.py": {"none"},
        "monitor/baseline.py": {"none"},
        "monitor/correlations.py": {"none"},
        "monitor/health.py": {"queue"},
        "monitor/look.py": {"none", "queue"},
        "monitor/rows.py": {"fds", "queue"},
        "monitor/rules.py": {"none", "queue"},
        "monitor/told.py": {"fds", "none", "queue"},
        "report/fault_samples.py": {"fds", "queue"},
        "report/measured_file.py": {"none"},
        "report/sampled.py": {"queue"},
        "runner/monitored.py": {"none"},
        "runner/session_check.py": {"none"},
    },
    "what goes wrong in a simulation, which has no nemeses": {
        "sim/faults.py": {"partition", "kill", "pause", "power", "none"},
    },
    "a command, which is called as a lab is": {"cli/examples.py": {"sim"}},
    "a command, which is called as a workload is": {"cli/spec_ledger.py": {"ledger"}},
    "a set, as a kind of value and as Python has it": {
        "spec/export/kinds.py": {"set"},
        "spec/export/quint.py": {"set"},
        "spec/export/translate.py": {"set"},
    },
    "defaults of `dstest run` and `dstest lab`": {
        "core/spec.py": {"etcd", "lxc", "partition", "register"},
        "cli/run.py": {"etcd", "partition", "register"},
    },
    "`none` is the run without a fault; and null, or no budget met": {
        "compare/fair.py": {"none"},
        "core/evidence.py": {"none"},
        "core/registry.py": {"none"},
        "core/tiers.py": {"none"},
        "core/verdict.py": {"none"},
        "judge/_audit_weak.py": {"none"},
        "kb/alike.py": {"none"},
        "judge/budgets.py": {"none"},
        "judge/canary_audit.py": {"none"},
        "judge/rules.py": {"none"},
        "judge/session.py": {"none"},
        "findings/measure.py": {"none"},
        "gate/claims.py": {"none"},
        "gate/gather.py": {"none"},
        "gate/sarif.py": {"none"},
        "nightly/junit.py": {"none"},
        "reference/plugins.py": {"none"},
        "patterns/steps.py": {"none"},
        "report/findings.py": {"none"},
        "report/junit.py": {"none"},
        "report/model.py": {"none"},
        "report/plots.py": {"none"},
        "report/remedies.py": {"none"},
        "report/session.py": {"none"},
        "report/tally.py": {"none"},
        "runner/nemesis_loop.py": {"none"},
        "spec/controls.py": {"none"},
        "runner/plugins.py": {"none"},
        "runner/residues.py": {"none"},
        "runner/schedule_file.py": {"none"},
        "shrink/candidate.py": {"none"},
        "shrink/reproducer.py": {"none"},
        "shrink/said.py": {"none"},
        "plans/draft/render.py": {"none"},
        "plans/lint/claims.py": {"none"},
        "plans/lint/faults.py": {"none"},
        "plans/lint/scope.py": {"none"},
    },
    "no adversary at all, and what one does": {
        "cli/spec_against.py": {"none"},
        "spec/adversary.py": {"none"},
        "spec/declare.py": {"duplicate"},
    },
    "fields of events in foreign histories": {"store/jepsen_keys.py": {"latency", "register"}},
    "keys of run.json and of reports; a column of a frame": {
        "core/run_meta.py": {"clock"},
        "notebook/frames.py": {"latency"},
        "report/write.py": {"latency"},
    },
    "the command that simulates, and its streams of random numbers": {
        "cli/commands.py": {"sim"},
        "cli/sim.py": {"sim"},
        "sim/simulate.py": {"sim"},
        "sim/world.py": {"sim"},
    },
    "a step of the clean-up; a function": {
        "runner/simulated_run.py": {"stop"},
        "fan/desk.py": {"stop"},
        "runner/run.py": {"stop"},
    },
    "patterns of failure by their names, types of operations, kinds of anomalies, figures": {
        "patterns/checklists.py": {"partition", "split-brain"},
        "patterns/families/consensus.py": {"split-brain"},
        "patterns/families/messages.py": {"causal-reverse", "duplicate", "long-fork"},
        "patterns/families/partition.py": {"partition"},
        "patterns/loadfigures.py": {"fds", "queue"},
        "patterns/model.py": {"partition"},
        "patterns/stuck.py": {"lock"},
    },
    "a severity of lints": {
        "judge/canary_audit.py": {"corrupt"},
        "judge/lints.py": {"corrupt"},
        "report/model.py": {"corrupt"},
    },
    "a session of several runs, or of pytest": {
        "results/gather.py": {"session"},
        "results/model.py": {"session"},
        "results/sarif.py": {"session"},
        "testing/plugin.py": {"session"},
        "testing/run.py": {"session"},
        "cli/sessions.py": {"session"},
        "cli/report_targets.py": {"session"},
        "judge/decide.py": {"session"},
        "gate/gather.py": {"session"},
        "gate/honest.py": {"session"},
        "retention/contents.py": {"session"},
        "retention/look.py": {"session"},
        "retention/verify.py": {"session"},
        "retention/walk.py": {"session"},
        "report/session.py": {"session"},
        "serve/reading.py": {"session"},
    },
    "claims and families of fields, which workloads name": {
        "core/claims.py": {
            *("fairness", "membership", "counter", "lease", "ledger", "queue", "session"),
        },
        "judge/_audit_weak.py": {"fairness"},
        "judge/taxdc.py": {"membership"},
        "plans/draft/aims.py": {"fairness", "membership"},
        "plans/draft/material.py": {"fairness"},
        "plans/draft/parts.py": {"fairness"},
        "plans/draft/scan.py": {"fairness", "membership"},
        "judge/lints.py": {"counter", "lease", "ledger", "queue", "session"},
    },
    "no rows": {
        "gate/claims.py": {"none"},
        "gate/controls.py": {"none"},
        "gate/fits.py": {"none"},
        "gate/plans.py": {"none"},
        "report/review/render.py": {"none"},
        "report/review/rules.py": {"none"},
    },
    "types of bugs, as TaxDC has them": {"core/evidence.py": {"config", "partition", "upgrade"}},
    "what a kernel counts pressure on": {
        "judge/host_events.py": {"memory"},
        "runner/host_sampler.py": {"memory"},
    },
    "types of operation": {
        "judge/_audit_again.py": {"watch"},
        "judge/evidence.py": {"watch"},
        "store/jepsen_hint.py": {"watch"},
    },
    "a kind of oracle, which checkers name": {"judge/view.py": {"final-state"}},
    "families of mutants, which checkers name; kinds of mutant, models": {
        "judge/_mutate_lists.py": {"duplicate"},
        "judge/_mutate_service.py": {"slo"},
        "judge/_mutate_streams.py": {"duplicate", "watch"},
        "judge/_mutate_values.py": {"duplicate"},
        "judge/_mutate_views.py": {"duplicate"},
        "judge/_txn_plants.py": {"long-fork"},
        "judge/canary_family.py": {"cas-register", "linearizable", "register"},
        "judge/canary_models.py": {"cas-register", "counter", "register", "set"},
        "judge/canary_mutators.py": {
            *("atomic-view", "closed-predicate", "g2"),
            *("bank", "causal", "causal-reverse", "counter-bounds", "duplicate", "exactly-once"),
            *("exclusion", "fairness", "final-state", "kafka", "linearizable", "long-fork"),
            *("no-lost-ack", "order", "reconciliation", "session", "sessions", "set", "set-full"),
            *("dead-letters", "slo", "total-queue", "unique-ids", "watch"),
        },
    },
    "words in names of scenarios": {
        "plans/lint/fields.py": {"causal", "latency", "loss", "order"},
    },
    "models and categories, by which plans find checkers and workloads": {
        "plans/picker.py": {
            *(
                "cas-register",
                "causal",
                "counter",
                "exactly-once",
                "exclusion",
                "fairness",
                "kafka",
            ),
            *("latency", "lease", "ledger", "linearizable", "lock", "membership", "queue"),
            *("register", "session", "slo", "watch"),
        },
        "plans/pitfalls.py": {
            *("cas-register", "counter", "kafka", "lease", "ledger", "linearizable", "lock"),
            *("register", "session", "watch"),
        },
    },
    "which workload can have made a foreign history": {
        "cli/check_source.py": {
            *("bank", "cas-register", "counter", "list-append", "rw-register", "unique-ids"),
            *("closed-predicate", "watch"),
        },
        "cli/check_look.py": {"list-append", "rw-register"},
        "cli/generate.py": {"list-append"},
        "notebook/sessions.py": {"rw-register"},
    },
    "kinds of histories that are generated, each for the judges that it is named after": {
        "generator/gadgets.py": {"list-append", "register", "rw-register"},
        "generator/histories.py": {"list-append", "register", "rw-register", "session"},
        "generator/true_histories.py": {
            *("atomic-view", "bank", "causal", "causal-reverse", "closed-predicate", "counter"),
            *("counter-bounds", "dead-letters", "exactly-once", "exclusion", "fairness"),
            *("final-state", "g2", "kafka", "lease", "ledger", "linearizable", "lock"),
            *("long-fork", "no-lost-ack", "order", "reconciliation", "session", "sessions"),
            *("set", "set-full", "slo", "total-queue", "unique-ids", "watch"),
        },
        "generator/true_objects.py": {"watch"},
        "generator/true_views.py": {"slo"},
        "generator/writing.py": {"register"},
    },
    "the fault that a row of the audit or a remedy is about": {
        "judge/_audit_weak.py": {"partition"},
        "report/remedies.py": {"kill", "partition", "power"},
    },
}
"""Why -> file -> words in it that are names of plug-ins as well."""


def _literals(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    }


def _in(path: Path) -> str:
    return path.relative_to(ROOT / "dstest").as_posix()


@pytest.mark.parametrize(
    "path", [p for p in FILES if str(Path(_in(p)).parent) not in OF_NAMES], ids=_in
)
def test_no_file_knows_a_plugin_by_its_name(path: Path) -> None:
    allowed = {word for files in ALLOWED.values() for word in files.get(_in(path), ())}
    assert _literals(path) & NAMES == allowed


def test_every_room_is_looked_at() -> None:
    rooms = {folder.name for folder in (ROOT / "dstest").iterdir() if any(folder.glob("*.py"))}
    assert {Path(_in(path)).parts[0] for path in FILES if "/" in _in(path)} == rooms
    assert {file for files in ALLOWED.values() for file in files} <= {_in(path) for path in FILES}
    for folder in OF_NAMES:
        found = [_literals(path) & NAMES for path in (ROOT / "dstest" / folder).glob("*.py")]
        assert any(found), f"{folder} needs no leave"


def test_traits_are_asked_for_in_one_place() -> None:
    traits = {
        name
        for kind in (CheckerTraits, NemesisTraits, SystemTraits)
        for name in kind.__struct_fields__
    }
    asked = {
        str(path.relative_to(ROOT))
        for room in ("dstest", "nemeses", "checkers", "workloads", "clusters")
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "hasattr")
        and isinstance(node.args[1], ast.Constant)
        and node.args[1].value in traits
    }
    assert asked == set()


class Terse:
    name = "terse"


def test_what_a_plugin_does_not_say_has_a_default() -> None:
    assert CheckerTraits.of(Terse()) == CheckerTraits()
    assert NemesisTraits.of(Terse()).explains == frozenset()
    assert SystemTraits.of(Terse()).residues == ()


def test_what_a_plugin_says_is_read() -> None:
    checker = CheckerTraits.of(registry.load("checkers", "linearizable"))
    assert checker.keyed and checker.prefix_closed and checker.mutants == "linearizable"
    assert NemesisTraits.of(registry.load("nemeses", "restart")).restarts_nodes
    assert "grpcio" in SystemTraits.of(registry.load("systems", "etcd")).client_packages
    kept = {
        name
        for name in registry.names("nemeses", ours=True)
        if NemesisTraits.of(registry.load("nemeses", name)).page_cache == "kept"
    }
    assert kept == {"kill", "stop", "restart", "rolling"}
