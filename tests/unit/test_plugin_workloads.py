"""Workloads that nobody could judge, and nemeses, checkers and systems that cannot be asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_plugins import CHECKER, NEMESIS, WORKLOAD, with_line
from third_party import BARE

from dstest.cli.listing import matrix
from dstest.core.errors import ConfigError
from dstest.core.registry import FILES, use
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILES, "")


def used(folder: Path, text: str, *lines: str) -> tuple[str, ...]:
    """Use a file of this text with more lines in its class."""
    for line in lines:
        text = with_line(text, line)
    path = folder / "mine.py"
    path.write_text(text)
    use([path])
    return (str(path),)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("checkers = ()", "names no checker\n.*checkers = "),
        ("checkers = ('',)", "names no checker"),
        ("checkers = 'linearizable'", "its checkers is 'linearizable'"),
        ("model = ''", "names no model"),
        ("model = 5", "its model is 5"),
        ("model = None", "lacks model"),
        ("claims = frozenset({'zzz'})", "claims zzz\n.*safety"),
        ("claims = {'safety', 'zzz'}", "claims zzz"),
        ("claims = frozenset()", "claims nothing\n.*safety"),
        ("claims = frozenset({1})", "its claims is"),
        ("op_types = frozenset()", "has no types of operation"),
        ("op_types = ['read']", "its op_types is"),
        ("minimum = {'read': -1}", "its minimum asks for -1 read"),
        ("minimum = {'read': 1.5}", "its minimum is"),
        ("minimum = {'read': True}", "its minimum is"),
        ("minimum = {'read': '30'}", "its minimum is"),
        ("minimum = {'cas': 30}", "its minimum asks for 30 cas\n.*of read, write"),
        ("minimum = {1: 30}", "its minimum is"),
        ("final_s = '120'", "its final_s is '120'"),
        ("final_s = None", "its final_s is None"),
        ("final_s = float('nan')", "its final phase may take nan s"),
        ("final_s = float('inf')", "its final phase may take inf s"),
        ("final_s = 0", "its final phase may take 0 s\n.*at most 3600"),
        ("fields = {}", "its fields is {}"),
        ("fields = None", "its fields is None"),
        ("fields = Fields(family=3)", "its fields.family is 3"),
        ("fields = Fields(family='zzz')", "its fields are of family 'zzz'\n.*ledger"),
        ("fields = Fields(idempotency_field=None)", "its fields.idempotency_field is None"),
        ("fields = Fields(ttl_option='ttl_s')", "ttl_option 'ttl_s' is none of its options"),
        ("fields = Fields(surfaces={'a': 'read'})", "its fields.surfaces is"),
        ("fields = Fields(surfaces=[])", "its fields.surfaces is"),
        ("fields = Fields(negative_controls='read')", "its fields.negative_controls is 'read'"),
        ("fields = Fields(nothing={'read': 'zero'})", "whose nothing is zero"),
    ],
)
def test_a_workload_that_cannot_be_judged_is_refused(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s)mine\.py: WORKLOAD:? .*{said}") as caught:
        used(tmp_path, WORKLOAD, line)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["checkers = ('nosuch',)"], "workload mine: no checker called 'nosuch'"),
        (["model = 'bogus'"], "workload mine: no checker of it knows its model 'bogus'"),
        (["op_types = {'read', 'fly'}"], "workload mine: no checker of it knows its model"),
    ],
)
def test_what_nobody_judges_fits_nothing(tmp_path: Path, lines: list[str], said: str) -> None:
    files = used(tmp_path, WORKLOAD, *lines)
    with pytest.raises(ConfigError) as caught:
        resolve(RunSpec(workload="mine", nemesis="none", files=files), [])
    assert said in caught.value.message
    assert caught.value.remedy
    assert "--model" not in caught.value.remedy
    rows = [row for row in matrix() if row["workload"] == "mine"]
    assert not any(row["fits"] for row in rows)
    assert all(said in row["reason"] for row in rows)


def test_what_can_be_judged_fits(tmp_path: Path) -> None:
    files = used(tmp_path, WORKLOAD)
    assert resolve(RunSpec(workload="mine", nemesis="none", files=files), []).checkers
    assert any(row["fits"] for row in matrix() if row["workload"] == "mine")


@pytest.mark.parametrize("model", ["", "bogus"])
def test_a_model_of_the_user_is_told_which(tmp_path: Path, model: str) -> None:
    files = used(tmp_path, WORKLOAD)
    with pytest.raises(ConfigError, match=f"--model {model}") as caught:
        resolve(RunSpec(workload="mine", nemesis="none", files=files, model=model), [])
    assert "leave --model out" in (caught.value.remedy or "")


@pytest.mark.parametrize("models", ["()", "('',)", "(1,)", "'strict'", "{'strict'}"])
def test_a_checker_without_a_model_is_refused(tmp_path: Path, models: str) -> None:
    with pytest.raises(ConfigError, match=r"mine\.py: CHECKER:? .*model") as caught:
        used(tmp_path, CHECKER, f"models = {models}")
    assert caught.value.remedy


@pytest.mark.parametrize(
    "line",
    [
        "requires = ('Zzz',)",
        "requires = (int,)",
        "requires = 'Kill'",
        "requires_when = (When('a', 1, ('Zzz',)),)",
        "requires_when = (When('a', 1, int),)",
        "requires_lab = (int,)",
    ],
)
def test_a_nemesis_that_requires_no_capability_is_refused(tmp_path: Path, line: str) -> None:
    option = "options = {'a': Option(type=int, default=1, help='h')}"
    files = used(tmp_path, NEMESIS, option, line)
    with pytest.raises(ConfigError, match=r"nemesis mine.* requires") as caught:
        resolve(RunSpec(workload="register", nemesis="mine", files=files), [])
    assert caught.value.remedy
    assert not any(row["fits"] for row in matrix() if row["nemesis"] == "mine")


@pytest.mark.parametrize(
    "members", ["[1]", "None", "5", "[]", "['n9']", "['n1', 'n1']", "'n1'", "[['n1']]"]
)
def test_members_that_are_no_nodes_are_refused(tmp_path: Path, members: str) -> None:
    text = BARE.replace("return list(nodes)", f"return {members}")
    with pytest.raises(ConfigError, match="system toy: its members") as caught:
        resolve(RunSpec(system="toy", nemesis="none", files=used(tmp_path, text)), [])
    assert caught.value.remedy
