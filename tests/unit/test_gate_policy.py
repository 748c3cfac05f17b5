"""A policy that is not one, asks for nothing, or for what cannot be, is refused with its place in
the file and a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from gate_store import POLICY

from checkers.slo import METRICS
from dstest.core.errors import ConfigError
from dstest.gate.policy import read_policy
from dstest.gate.soundness import require_sound
from dstest.gate.table import RULES
from dstest.store.compare.measured import FACTORS


def refused(tmp_path: Path, text: str) -> ConfigError:
    path = tmp_path / "release.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        require_sound(read_policy(path), METRICS, FACTORS)
    return caught.value


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_the_policy_of_the_tests_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "release.toml"
    path.write_text(POLICY)
    require_sound(read_policy(path), METRICS, FACTORS)


PLACES = [
    ("seeds = 3", "sedes = 3", "sedes", "did you mean 'seeds'?"),
    ("age-days-max", "age_days_max", "age_days_max", "did you mean 'age-days-max'?"),
    ('name = "etcd 3.4.23"', 'name = "x"\nverdict = "PASS"', "verdict", ""),
    ('expect = "red"', 'expect = "red"\nowner = "me"', "owner", "keys of [control]"),
    ("[claim.faults]", "[claim.fautls]", "[claim.fautls]", "did you mean 'faults'?"),
]


@pytest.mark.parametrize(("old", "new", "at", "hint"), PLACES, ids=[row[2] for row in PLACES])
def test_a_key_that_is_not_known_is_refused_where_it_stands(
    old: str, new: str, at: str, hint: str, tmp_path: Path
) -> None:
    text = POLICY.replace(old, new, 1)
    error = refused(tmp_path, text)
    assert f"release.toml:{line_of(text, at)}: " in error.message
    assert "there is no key" in error.message
    assert hint in (error.remedy or "")


def test_what_a_policy_leaves_out_is_said(tmp_path: Path) -> None:
    path = tmp_path / "release.toml"
    left_out = ("operations", "canaries")
    path.write_text("\n".join(x for x in POLICY.splitlines() if not x.startswith(left_out)))
    said = read_policy(path).unsaid
    assert any(one.startswith("operations is not said of ") for one in said)
    assert any(one.startswith("evidence.canaries is not said") for one in said)


BOUNDS = [
    ('name = "etcd 3.4.23"', 'name = "   "'),
    ("seeds = 3", "seeds = 0"),
    ("seeds = 3", "seeds = 1001"),
    ("sizes = [3]", "sizes = []"),
    ("sizes = [3]", "sizes = [0]"),
    ("operations = 1000", "operations = 0"),
    ("partition = 2", "partition = 0"),
    ("partition = 2", "partition = -1"),
    ("age-days-max = 14", "age-days-max = 0"),
    ("age-days-max = 14", "age-days-max = 10_000"),
    ("age-days-max = 14", "age-days-max = inf"),
    ("age-days-max = 14", "age-days-max = nan"),
    ('tier = "smoke"', 'tier = "none"'),
    ('expect = "red"', 'expect = "blue"'),
    ('checkers = ["linearizable"]', "checkers = []"),
    ('model = "register"', 'model = ""'),
    ('schema = "dstest.gate/1"', 'schema = "dstest.gate/2"'),
    ('id = "C1"', 'id = "C 1"'),
]


@pytest.mark.parametrize(("old", "new"), BOUNDS, ids=[new for _, new in BOUNDS])
def test_every_value_is_bounded(old: str, new: str, tmp_path: Path) -> None:
    text = POLICY.replace(old, new, 1)
    assert text != POLICY
    error = refused(tmp_path, text)
    at = "[claim.faults]" if new.startswith("partition") else new
    assert f"release.toml:{line_of(text, at)}: " in error.message, error.message
    assert error.remedy


def without(table: str, text: str = POLICY) -> str:
    """The policy without the first table that begins so."""
    begin = text.index(table)
    end = text.find("\n[[", begin + 1)
    return text[:begin] + (text[end + 1 :] if end > 0 else "")


VACUOUS = [
    ("", "required"),
    ('schema = "dstest.gate/1"\nname = "x"\n[evidence]\nage-days-max = 1\n', "asks for nothing"),
    (without("[[claim]]"), "asks for nothing"),
    (without("[[control]]"), "no red control"),
    (POLICY.replace("[claim.faults]\npartition = 2\n", ""), "no claim asks for a fault"),
    (POLICY.replace('anomalies = ["nonlinearizable"]\n', ""), "any violation would do"),
    (POLICY.replace('checkers = ["linearizable"]\n', ""), "'checkers'"),
]


@pytest.mark.parametrize(("text", "why"), VACUOUS, ids=[why for _, why in VACUOUS])
def test_what_asks_for_nothing_is_refused(text: str, why: str, tmp_path: Path) -> None:
    assert why in refused(tmp_path, text).message


WRONG = [
    ('id = "K1"', 'id = "C1"', "stands twice"),
    ('system = "etcd"', 'system = "etdc"', "no 'etdc'"),
    ('workload = "register"', 'workload = "registers"', "no 'registers'"),
    ('nemesis = "partition"', 'nemesis = "partitions"', "no 'partitions'"),
    ('checkers = ["linearizable"]', 'checkers = ["all"]', "no 'all'"),
    ("partition = 2", "kill = 2", "which its nemesis 'partition' never makes"),
    ('"shape=one"', '"shape"', "has no value"),
    ('"shape=one"', '"shape=one", "shape=leader"', "stands twice"),
    ('tier = "smoke"', 'tier = "hardening"\nlab = "sim"', "better than smoke"),
    ('tier = "smoke"', 'tier = "release"\nlab = "sim"', "simulation is better than"),
    (', "reads=serializable"', "", "asks that the same test passes"),
    ('expect = "green"', 'expect = "green"\nanomalies = ["lost"]', "shows no anomaly"),
    ('expect = "green"', 'expect = "green"\nbeside = ["lost"]', "shows no anomaly"),
    ('expect = "green"', 'expect = "green"\nby-fault = false', "none that shows without a fault"),
]


@pytest.mark.parametrize(("old", "new", "why"), WRONG, ids=[why for *_, why in WRONG])
def test_what_cannot_be_is_refused(old: str, new: str, why: str, tmp_path: Path) -> None:
    text = POLICY.replace(old, new, 1)
    assert text != POLICY
    error = refused(tmp_path, text)
    assert why in error.message and error.remedy
    assert "release.toml:" in error.message


MEANT = [
    ('model = "register"', 'model = "registr"', "did you mean 'register'?"),
    ('workload = "register"', 'workload = "registr"', "did you mean 'register'?"),
    ('options = ["shape=one"', 'options = ["shap=one"', "did you mean shape?"),
    ('options = ["shape=one"', 'options = ["shape=two"', "shape is one of"),
    ('tier = "smoke"', 'tier = "smok"', "did you mean 'smoke'?"),
    ('expect = "red"', 'expect = "blue"', "one of 'red', 'green'"),
    ('anomalies = ["nonlin', 'anomalies = ["nonlim', "did you mean nonlinearizable"),
]


@pytest.mark.parametrize(("old", "new", "hint"), MEANT, ids=[new for _, new, _ in MEANT])
def test_a_word_that_is_not_known_is_refused_with_what_was_meant(
    old: str, new: str, hint: str, tmp_path: Path
) -> None:
    text = POLICY.replace(old, new, 1)
    assert text != POLICY
    error = refused(tmp_path, text)
    assert hint in (error.remedy or ""), (error.message, error.remedy)


def test_a_table_that_there_is_not_is_refused_at_its_line(tmp_path: Path) -> None:
    text = POLICY.replace("[[claim]]", "[[claims]]")
    error = refused(tmp_path, text)
    assert f"release.toml:{line_of(text, '[[claims]]')}: " in error.message
    assert "did you mean 'claim'?" in (error.remedy or "")


def test_a_baseline_names_what_there_is(tmp_path: Path) -> None:
    table = '\n[baseline]\nclaims = ["C1"]\nmetrics = ["ok_per_s"]\n'
    path = tmp_path / "release.toml"
    path.write_text(POLICY + table)
    require_sound(read_policy(path), METRICS, FACTORS)
    for old, new in (("C1", "C9"), ("ok_per_s", "joy_per_s")):
        text = POLICY + table.replace(old, new)
        error = refused(tmp_path, text)
        assert new in error.message
        assert f":{line_of(text, '[baseline]')}: " in error.message
    assert "runs" in refused(tmp_path, POLICY + table + "runs = 2\n").message


def test_what_is_no_policy_at_all_is_refused(tmp_path: Path) -> None:
    assert "no TOML" in refused(tmp_path, "claim = [").message
    path = tmp_path / "bytes.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="no TOML"):
        read_policy(path)
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(ConfigError, match="bytes"):
        read_policy(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_policy(tmp_path / "nothing.toml")


def test_the_rules_are_numbered_in_order() -> None:
    """A number that is no rule's any more (G10) is not given again."""
    numbers = [f"G{number:02}" for number in range(1, len(RULES) + 2)]
    assert [*RULES] == [number for number in numbers if number != "G10"]
