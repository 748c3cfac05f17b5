"""Reading plans: what stands where, and what cannot be read."""

from __future__ import annotations

import hashlib
import re

import pytest
from plan_mutations import PLAN, SOUND, Pairs, changed, read

from dstest.core.errors import ConfigError, Exit
from dstest.plans.reader import SECTIONS, read_plan

pytestmark = pytest.mark.slow

PLAIN = read(SOUND)
LINES = SOUND.splitlines()


def test_all_of_a_plan_is_read() -> None:
    plan = read_plan(PLAN)
    assert plan == PLAIN and plan.sha256 == hashlib.sha256(PLAN.read_bytes()).hexdigest()
    assert plan.slug == plan.front.slug and plan.front.system == "etcd"
    assert set(plan.sections) == {*SECTIONS}
    sizes = (plan.claims, plan.missing, plan.hypotheses, plan.scenarios, plan.pitfalls)
    assert [len(size) for size in sizes] == [9, 2, 11, 11, 16]
    more = (plan.categories, plan.coverage, plan.techniques, plan.adequacy, plan.questions)
    assert [len(size) for size in more] == [8, 12, 5, 9, 2]


def test_items_know_where_they_stand() -> None:
    for items in (PLAIN.claims, PLAIN.hypotheses):
        for item in items:
            assert LINES[item.line - 1].startswith(f"| {item.id} |")
    for scenario in PLAIN.scenarios:
        assert LINES[scenario.line - 1] == f"### {scenario.id}: {scenario.name}"
        for name, line in scenario.lines.items():
            assert re.match(rf"- \*\*{re.escape(name)}:\*\*", LINES[line - 1], re.IGNORECASE)
        assert scenario.run is not None and LINES[scenario.run.line - 1] == "```toml run"


def test_a_claim() -> None:
    claim = PLAIN.claim("C5")
    assert claim is not None and claim.category == "safety" and claim.inferred
    assert "transaction" in claim.source and PLAIN.claim("C99") is None


def test_a_scenario() -> None:
    scenario = PLAIN.scenario("S9")
    assert scenario is not None
    assert (scenario.falsifies, scenario.closes) == (("C3", "C7"), ("H9",))
    assert PLAIN.categories_of(scenario) == {"isolation", "membership"}
    assert scenario.gated is not None and scenario.gated.field("Model") == "membership-table"
    evidence = scenario.gated.field("Nemesis + landing evidence")
    assert len(evidence.splitlines()) == 3
    assert scenario.skeleton is not None and scenario.skeleton.language == "python"


def test_a_scenario_of_surfaces() -> None:
    scenario = PLAIN.scenario("S11")
    assert scenario is not None and scenario.surfaces is not None
    assert scenario.surfaces.surfaces == ("tenants", "members", "kinds of operation")
    assert scenario.surfaces.arms == ("by-tenant", "by-member", "by-operation", "by-lease")
    assert scenario.surfaces.untested == ("by-lease",)
    assert [arm.name for arm in scenario.arms] == ["by-tenant", "by-member", "by-operation"]


def test_a_sentence_says_that_a_section_is_empty() -> None:
    start, end = SOUND.index("| ID | Behaviour"), SOUND.index("## 2.")
    plan = read(f"{SOUND[:start]}No missing claims were found.\n\n{SOUND[end:]}")
    assert plan.empty == {"1c"} and not plan.missing


def test_front_matter_may_be_toml() -> None:
    head, body = SOUND.split("---\n")[1], SOUND.split("---\n", 2)[2]
    toml = "\n".join(
        f'{key} = "{value}"' for key, value in (line.split(": ", 1) for line in head.splitlines())
    )
    assert read(f"+++\n{toml}\n+++\n{body}").front == PLAIN.front


RUN_BLOCK = r":\d+: the run block cannot be read"

UNREADABLE: dict[str, tuple[Pairs, str]] = {
    "no front matter": ((("---\nslug", "slug"),), r":1: no front matter"),
    "no end of it": ((("reviewed\n---", "reviewed\n"),), r":1: the front matter has no second"),
    "no YAML": ((("mode: project", "mode: [project"),), r":\d+: the front matter is no YAML"),
    "no slug": ((("slug: etcd", "sut-too: etcd"),), r":2: the front matter has no slug"),
    "strange words": ((("author:", "writer:"),), r":2: .* says writer"),
    "a list": ((("author: the", "author: [a, the"), ("of dstest\nstatus", "of dstest]\nstatus")),
               r":2: author is no text"),
    "a section twice": ((("## 9. Open", "## 8. Open"),), r":\d+: section 8 for the second time"),
    "columns": ((("| ID | Claim | Cat", "| ID | Promise | Cat"),), r":\d+: a table of section 1b"),
    "no scenario": ((("### S2: ", "### Second: "),), r":\d+: 'Second: .* heading of no scenario"),
    "a field twice": ((("- **Closes:** H2", "- **Falsifies:** H2"),), r":\d+: 'falsifies' stands"),
    "no TOML": ((('nemesis = "clock"', "nemesis = clock"),), r":\d+: the run block cannot be read"),
    "a strange key": ((('nemesis = "clock"', 'nemesys = "clock"'),), RUN_BLOCK),
    "a type": ((("concurrency = 20", 'concurrency = "20"'),), RUN_BLOCK + ".*int"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_refused(name: str) -> None:
    pairs, message = UNREADABLE[name]
    with pytest.raises(ConfigError, match=rf"etcd\.md{message}") as caught:
        read(changed(SOUND, pairs))
    assert caught.value.remedy and caught.value.exit_code == Exit.USAGE


def test_a_second_run_block_is_refused() -> None:
    text = changed(SOUND, (("#### 7.M\n", '```toml run\nsystem = "x"\n```\n\n#### 7.M\n'),))
    with pytest.raises(ConfigError, match="a second run block"):
        read(text)


def test_bytes_that_are_no_text_are_refused(tmp_path: object) -> None:
    from dstest.plans.reader import read_text

    with pytest.raises(ConfigError, match=r"x:3: no UTF-8"):
        read_text(b"---\nslug: a\n\xff\n---\n", "x")
    with pytest.raises(ConfigError, match="No such file"):
        read_plan(PLAN.with_name("absent.md"))
