"""docs/gate.md and docs/store.md: the policy is one, the rules are those of the code, and the
commands do something on a store that was made without a lab."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from gate_store import POLICY, now
from touched_runs import dstest

from checkers.slo import METRICS
from dstest.core.errors import Exit
from dstest.gate.policy import read_policy
from dstest.gate.soundness import require_sound, too_far
from dstest.gate.table import RULES, table
from dstest.history.layout import link_latest
from dstest.store.compare.measured import FACTORS

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    """Those on a store; of a simulated night they are executed in unit/test_gate_simulated.py."""
    lines = [line for page in ("gate.md", "store.md") for b in blocks(page, "console") for line in
             b.splitlines()]  # fmt: skip
    found = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line for line in found if "night" not in line and "simulated" not in line]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, honest_store: Path) -> Path:
    """A directory with a store and the policy of the page."""
    home = tmp_path_factory.mktemp("pages")
    shutil.copytree(honest_store, home / "store")
    newest = max((home / "store").glob("*/*-5"))
    link_latest(home / "store", newest)
    (home / "release.toml").write_text(blocks("gate.md", "toml")[0])
    return home


def test_the_policy_of_the_page_is_one(made: Path) -> None:
    read = read_policy(made / "release.toml")
    require_sound(read, METRICS, FACTORS)
    assert not list(too_far(read.policy, now().date()))
    assert {claim.tier for claim in read.policy.claim} == {"hardening"}
    assert read.line_of("C1") == read.path.read_text()[: read.path.read_text().index('"C1"')].count(
        "\n"
    )


def test_the_page_has_the_rules() -> None:
    assert table() in (DOCS / "reference" / "rules.md").read_text()


def test_there_are_commands() -> None:
    assert len(commands()) >= 6
    assert {command.split()[1] for command in commands()} == {"gate", "store"}


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_page_runs(
    command: str, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made)
    words = shlex.split(command)[1:]
    policy = (made / "release.toml").read_text()
    if words[0] == "gate":  # what is in the store is no release of this policy, and no baseline
        (made / "release.toml").write_text(policy.partition("[baseline]")[0])
    code, said = dstest(*words)
    (made / "release.toml").write_text(policy)
    # What fails in this store is a red control of another policy.
    assert code == (Exit.FAIL if words[0] == "gate" else Exit.PASS), said
    assert said.strip()


def shown(made: Path, tmp_path: Path, policy: str, *more: str) -> tuple[int, str]:
    path = tmp_path / "policy.toml"
    path.write_text(policy)
    return dstest("gate", "--policy", path, made / "store", *more)


def test_what_is_let_through_is_shown_in_every_form(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, said = shown(made, tmp_path, POLICY, "--out", str(out), "--github")
    assert code == Exit.PASS, said
    assert "let through" in said and "::error" not in said
    page = (out / "decision.md").read_text()
    assert page.startswith("# Release gate: let through") and page.count("\n") < 80
    html = (out / "decision.html").read_text()
    assert "LET THROUGH" in html and "src=" not in html
    suite = ElementTree.parse(out / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("4", "0", "0")
    log = json.loads((out / "results.sarif").read_text())
    assert log["runs"][0]["results"] == []
    decision = json.loads((out / "decision.json").read_text())
    assert decision["exit"] == 0 and len(decision["evidence"]) == 5
    told = shown(made, tmp_path, POLICY, "--json")[1].splitlines()
    assert json.loads(told[-1])["outcome"] == "let through"
    assert told[0].startswith("dstest: all evidence was judged again, in ")


def test_what_is_refused_is_shown_in_every_form(made: Path, tmp_path: Path) -> None:
    out, policy = tmp_path / "out", POLICY.replace("seeds = 3", "seeds = 4")
    code, said = shown(made, tmp_path, policy, "--out", str(out), "--github")
    assert code == Exit.NOT_PROVEN
    line = policy[: policy.index('id = "C1"')].count("\n")
    (error,) = [row for row in said.splitlines() if row.startswith("::error ")]
    assert f"line={line},title=G26 " in error and "::C1: 3 of 4 seeds" in error
    page = (out / "decision.md").read_text()
    why = page.partition("## Why\n\n")[2].partition("\n\n")[0].splitlines()
    assert len(why) <= 10 and why[0].startswith("- G26 C1: 3 of 4 seeds")
    suite = ElementTree.parse(out / "junit.xml").getroot()
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0")
    assert suite.find("testcase[@name='C1']/error[@type='G26']") is not None
    assert suite.find("testcase[@name='K1']/error") is None


def test_sarif_has_what_a_code_host_asks_for(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    risk = '\n[[risk]]\nid = "R1"\nof = "C1"\nrule = "G27"\ntext = "t"\nowner = "o"\n'
    risk += f"expires = {now().date()}\n"
    policy = POLICY.replace("sizes = [3]", "sizes = [3, 5]").replace("seeds = 3", "seeds = 4")
    shown(made, tmp_path, policy + risk, "--out", str(out))
    log = json.loads((out / "results.sarif").read_text())
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [*RULES]
    open_, accepted = run["results"]
    for result in (open_, accepted):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"].endswith("policy.toml")
        assert place["region"]["startLine"] > 1
        assert result["message"]["text"] and result["partialFingerprints"]
    assert "suppressions" not in open_
    assert accepted["suppressions"][0]["status"] == "accepted"


def test_what_a_run_says_ends_no_annotation(made: Path, tmp_path: Path) -> None:
    policy = POLICY.replace('name = "etcd 3.4.23"', 'name = "a\\n::error::b"')
    shows = 'anomalies = ["x\\n::warning::y%"]\nbeside = ["nonlinearizable"]'
    policy = policy.replace('anomalies = ["nonlinearizable"]', shows)
    said = shown(made, tmp_path, policy, "--github")[1]
    told = [row for row in said.splitlines() if row.startswith("::")]
    assert [row.partition(" ")[0] for row in told] == ["::error"]
    assert "x%0A::warning::y%25" in told[0]


def test_a_page_never_opens_what_a_run_says(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    policy = POLICY.replace('anomalies = ["nonlinearizable"]', 'anomalies = ["<script>|`x`"]')
    shown(made, tmp_path, policy, "--out", str(out))
    assert "<script>" not in (out / "decision.md").read_text()
    ElementTree.parse(out / "junit.xml")


def test_the_decision_is_written_beside_the_evidence(made: Path, tmp_path: Path) -> None:
    code, said = shown(made, tmp_path, POLICY, "--out", str(made / "store" / "decision"))
    assert code == Exit.USAGE and "within" in said
    assert not (made / "store" / "decision").exists()
    code, said = shown(made, tmp_path, POLICY, str(made / "store"))
    assert code == Exit.USAGE and "twice" in said


@pytest.mark.parametrize("seeds", [(4,), (5,), (1, 2, 3)], ids=["red", "green", "claim"])
def test_what_was_not_shown_is_kept_in_no_form(
    seeds: tuple[int, ...], made: Path, tmp_path: Path
) -> None:
    """Its runs were edited, so that they count for nothing: their rule speaks, and what is short
    without them goes without saying, but is not there all the same."""
    home, out = tmp_path / "home", tmp_path / "out"
    shutil.copytree(made, home, symlinks=True)
    for seed in seeds:
        (next((home / "store").glob(f"*/*-{seed}")) / "run.log").write_text("all is well\n")
    code, said = shown(home, tmp_path, POLICY, "--out", str(out))
    assert code == Exit.NOT_PROVEN, said
    decision = json.loads((out / "decision.json").read_text())
    assert {found["rule"] for found in decision["findings"]} == {"G01"}
    name = {4: "K1", 5: "K2", 1: "C1"}[seeds[0]]
    rows = {row["id"]: row for row in decision["rows"]}
    assert {id_ for id_, row in rows.items() if not row["kept"]} == {name}
    missing, command = rows[name]["missing"], rows[name]["command"]
    assert [found["rule"] for found in missing] == ["G21" if name == "C1" else "G32"]
    assert command.startswith("dstest run --system etcd")
    page = (out / "decision.md").read_text()
    kept = {line.split(" | ")[0]: line for line in page.splitlines() if line.endswith("yes |")}
    assert f"| {name}" not in kept and len(kept) == 2
    assert missing[0]["what"] in page and command in page
    assert missing[0]["what"] in (out / "decision.html").read_text()
    assert f"missing for {name}: {command}" in said
    suite = ElementTree.parse(out / "junit.xml").getroot()
    assert [case.get("name") for case in suite if case.find("error") is not None] == [
        "evidence",
        name,
    ]
    assert suite.get("failures") == "0"
