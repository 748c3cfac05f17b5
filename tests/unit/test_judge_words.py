"""An id never stands alone on the page of a run: plain words are beside it."""

from __future__ import annotations

import re
from typing import get_args

import msgspec
import pytest
from made_report import evidence, report

from dstest.core.evidence import TAXDC_WORDS, AuditRow, BlameProbe, Lint, TaxDC
from dstest.core.verdict import Bug
from dstest.judge.audit import TITLES
from dstest.judge.blame import CLASSES, PROBES, blame
from dstest.judge.decide import RULES, decide
from dstest.judge.lints import LINTS
from dstest.judge.symptom import SEVERITIES
from dstest.judge.words import blame_words, bug_words, rule_words, spelled, words_of
from dstest.report.html import render_html


def page_text(page: str) -> str:
    text = re.sub(r"<[^>]+>", " ", page)
    return re.sub(r"\s+", " ", text.replace("&#39;", "'"))


def test_an_id_before_a_colon_gets_its_words() -> None:
    assert spelled("RF8: n1 does not serve") == (
        "RF8 (should hold: the cluster recovered): n1 does not serve"
    )
    assert spelled("It contradicts itself: H02: 2 operations share an id") == (
        "It contradicts itself: H02 (should hold: no op_id stands twice): 2 operations share an id"
    )
    assert spelled("a\nWO3: b").startswith("a\nWO3 (should hold: ")


@pytest.mark.parametrize(
    "text", ["RF8's baseline", "node H02 fell", "xRF8: y", "RF99: y", "H77: y", 'said: "H02": y']
)
def test_what_only_looks_like_an_id_stays(text: str) -> None:
    assert spelled(text) == text


def test_every_row_lint_rule_and_class_has_words() -> None:
    for name in (*TITLES, *(lint.id for lint in LINTS)):
        assert words_of(name)
        assert "(should hold: " in spelled(f"{name}: seen")
    for rule in RULES:
        words = rule_words(rule.id, rule.state)
        assert words
        assert re.search(r"\b(?:RF|WO)\d+\b(?! \()", words) is None
    assert {*CLASSES} == {"SUT", "unknown", *(about.who for about in PROBES.values())}
    assert {*TAXDC_WORDS} == {*get_args(TaxDC)} - {""}
    for severity in SEVERITIES:
        assert bug_words(severity)
    assert words_of("X1") == rule_words("X1", RULES[0].state) == bug_words("unclassified: x") == ""


def test_a_blame_that_the_code_gives_has_words() -> None:
    violation = evidence(violation=True)
    assert blame_words(blame(violation) or "").startswith("nobody can tell yet")
    for name, about in PROBES.items():
        given = {one: BlameProbe(fired=True, said="x") for one in (name, *about.beside)}
        found = blame(msgspec.structs.replace(violation, probes=given)) or ""
        assert blame_words(found), found
    quiet = {name: BlameProbe(fired=False, said="x") for name in PROBES}
    assert blame_words(blame(msgspec.structs.replace(violation, probes=quiet)) or "").startswith(
        "the system under test did it"
    )


def test_the_page_of_a_failure_has_the_words_of_its_blame_rule_and_bug() -> None:
    made = report(fail=True)
    bug = Bug(type="ordering", severity="P0", tags=["safety"], reasons=["x"])
    verdict = msgspec.structs.replace(made.verdict, bug=bug)
    text = page_text(render_html(msgspec.structs.replace(made, verdict=verdict)))
    assert f"of the decision table ({rule_words(verdict.rule, verdict.verdict)})" in text
    assert "blame: unknown - pending: generator swap (nobody can tell yet whose fault it is" in text
    assert f"ordering ({TAXDC_WORDS['ordering']})" in text
    assert f"P0 ({SEVERITIES['P0']})" in text
    assert "Whose fault it is: unknown - pending: generator swap (nobody can tell yet" in text


def test_the_page_of_an_unproven_run_has_the_words_of_its_rows_and_lints() -> None:
    rows = evidence().redflags | {"RF8": AuditRow(status="short", evidence="n1 does not serve")}
    weak = Lint(corrupt={"H02": "2 operations share an op_id"}, weak={}, warning={})
    found = evidence(redflags=rows, history_lint=weak)
    made = report(redflags=rows, history_lint=weak)
    made = msgspec.structs.replace(made, verdict=decide(found, {}))
    text = page_text(render_html(made))
    assert "RF8 The cluster recovered short n1 does not serve" in text
    assert "H02 no op_id stands twice corrupt 2 operations share an op_id" in text
    assert "H02 (should hold: no op_id stands twice): 2 operations share an op_id" in text
    only = report(redflags=rows)
    obstacles = page_text(render_html(only)).partition("Why not better")[2]
    assert "RF8 (should hold: the cluster recovered): n1 does not serve" in obstacles
