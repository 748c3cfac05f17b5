"""The rules of plans: the plan of etcd breaks none, each change of one thing exactly its own."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from plan_mutations import CHANGED, DOCUMENTS, MUTATIONS, PAUSED, SOUND, Pairs, changed, read

from dstest.core.errors import ConfigError, Exit
from dstest.plans.lint import RULES, blocking, lint, require_sound

pytestmark = pytest.mark.slow

BLOCKING = {
    "L03",
    "L04",
    "L05",
    "L06",
    "L10",
    "L17",
    "L19",
    "L20",
    "L21",
    "L22",
    "L23",
    "L24",
    "L25",
    "L37",
}


def rules_of(text: str) -> set[str]:
    return {finding.rule for finding in lint(read(text))}


@pytest.mark.parametrize("text", [SOUND, CHANGED], ids=["project-wide", "change-scoped"])
def test_a_complete_plan_is_clean(text: str) -> None:
    assert lint(read(text)) == []


@pytest.mark.parametrize("name", MUTATIONS)
def test_one_change_breaks_one_rule(name: str) -> None:
    plan = read(changed(SOUND, MUTATIONS[name]))
    found = lint(plan)
    assert {finding.rule for finding in found} == {name.split()[0]}, found
    lines = plan.text.splitlines()
    assert all(1 <= finding.line <= len(lines) and finding.remedy for finding in found)


def test_a_change_of_documents_needs_no_plan() -> None:
    assert rules_of(changed(CHANGED, DOCUMENTS)) == {"L35"}


def test_each_rule_is_broken_by_some_change() -> None:
    assert {name.split()[0] for name in MUTATIONS} | {"L35"} == {rule.id for rule in RULES}
    assert [rule.id for rule in RULES] == [f"L{number:02}" for number in range(1, 38)]


def test_which_rules_keep_a_plan_from_being_run() -> None:
    assert {rule.id for rule in RULES if rule.severity == "error"} == BLOCKING


def test_a_weak_oracle_is_stopped_at_load() -> None:
    plan = read(changed(SOUND, MUTATIONS["L19 logs"]))
    assert [finding.rule for finding in blocking(plan)] == ["L19"]
    with pytest.raises(ConfigError, match=r"etcd\.md:\d+: L19: S5: 'logs look'") as caught:
        require_sound(plan)
    assert caught.value.exit_code == Exit.USAGE and "code marks" in str(caught.value.remedy)
    require_sound(read(SOUND))


def test_warnings_do_not_keep_a_plan_from_being_run() -> None:
    require_sound(read(changed(SOUND, MUTATIONS["L33 nothing"])))


PLACES: dict[str, tuple[Pairs, str]] = {
    "a field": (MUTATIONS["L19 logs"], "- **Oracle:** logs look fine"),
    "a row": (MUTATIONS["L14 no such verdict"], "| C7 | H9 |"),
    "a block": (MUTATIONS["L23 no such nemesis"], "```toml run"),
    "the front matter": (MUTATIONS["L02 no such mode"], "slug:"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_finding_says_where(name: str) -> None:
    pairs, line = PLACES[name]
    plan = read(changed(SOUND, pairs))
    assert plan.text.splitlines()[lint(plan)[0].line - 1].startswith(line)


ORACLES = {
    "`list-append`: 0 anomalies": set(),
    "p99_ms <= 50 over the whole run": {"L19"},
    "works": {"L19"},
    "the log looks normal": {"L19"},
    "everything works and `list-append` passes": {"L19"},
    "list-append has seen it": {"L19"},
    "a watch over the cluster in order": {"L19"},
}


@pytest.mark.parametrize("oracle", ORACLES)
def test_what_a_machine_can_decide(oracle: str) -> None:
    before = "`list-append`: 0 anomalies that strict serializability rules out"
    assert rules_of(changed(SOUND, ((before, oracle),))) == ORACLES[oracle]


OF_PROGRESS = {
    "gap_s <= 20, declared before the run": set(),
    "`slo`: gap_s <= 20": set(),
    "`linearizable`: 0 keys without an order": {"L19"},
    "`linearizable`, because a stretch without service shows as time-outs": set(),
}


@pytest.mark.parametrize("oracle", OF_PROGRESS)
def test_the_oracle_is_about_the_claim(oracle: str) -> None:
    """What is no matter of single operations is not shown by who judges those."""
    start = SOUND.index("- **Oracle:** `slo`") + len("- **Oracle:** ")
    end = SOUND.index("- **Observability required:**", start)
    assert rules_of(f"{SOUND[:start]}{oracle}\n{SOUND[end:]}") == OF_PROGRESS[oracle]


MORE: dict[str, tuple[Pairs, set[str]]] = {
    "no evidence though faults are injected": (
        (
            (
                f"evidence:** `pause`\n{PAUSED}",
                "evidence:** none\n",
            ),
        ),
        {"L22", "L23"},
    ),
    "faults of a run without any": (
        (('nemesis = "power"', 'nemesis = "none"'), ('scope = "all"\nwriteback_s = 0.5', "")),
        {"L23", "L25"},
    ),
    "a boundary without confusable identifiers": (
        (
            ("| fairness | operators", "| boundary | operators"),
            ("groups differ in nothing but their\n  names", "groups are alike"),
        ),
        {"L24"},
    ),
    "no arm is run": (
        (
            ('options = { fairness_by = "key" }', 'expected = "NOT-RUN"\nreason = "so"'),
            ('options = { fairness_by = "node" }', 'expected = "NOT-RUN"\nreason = "so"'),
            ('options = { fairness_by = "op_type" }', 'expected = "NOT-RUN"\nreason = "so"'),
        ),
        {"L17", "L30", "L32"},
    ),
    "a claim that nothing tests": (
        (("- **Falsifies:** C2\n", "- **Falsifies:** C1\n"),),
        {"L30"},
    ),
}


@pytest.mark.parametrize("name", MORE)
def test_what_breaks_several_rules(name: str) -> None:
    pairs, rules = MORE[name]
    assert rules_of(changed(SOUND, pairs)) >= rules


def test_whatever_can_be_read_can_be_linted() -> None:
    """Lines that are lost, doubled or cut leave a plan unreadable, or with findings: no crash."""
    rng = random.Random(7)
    lines = SOUND.split("\n")
    for _ in range(40):
        damaged = list(lines)
        for _ in range(rng.choice((1, 3))):
            place = rng.randrange(len(damaged))
            line = damaged[place]
            damaged[place : place + 1] = rng.choice(
                ([], [line, line], [line[: rng.randrange(len(line) + 1)]], [line, "| a | b |"])
            )
        with suppress(ConfigError):
            lint(read("\n".join(damaged)))
