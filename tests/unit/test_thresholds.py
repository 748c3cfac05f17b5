"""Thresholds of `dstest debug` and `dstest monitor`: one way to change them, by file or word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dstest.core.errors import ConfigError, Exit
from dstest.core.settings import thresholds_of
from dstest.debug.monitor.settings import LEAST, MOST
from dstest.debug.monitor.settings import Settings as OfMonitor
from dstest.debug.patterns.model import Settings as OfDebug

TABLES: list[tuple[Any, str, str]] = [
    (OfDebug(), "stuck_s", "attempts_least"),
    (OfMonitor(), "cpu_percent", "clear_checks"),
]


@pytest.mark.parametrize(("usual", "name", "whole"), TABLES)
def test_a_word_goes_before_a_file_and_a_file_before_what_is_usual(
    usual: Any, name: str, whole: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f"{name} = 7\n{whole} = 4\n")
    found = thresholds_of(usual, file)
    assert (getattr(found, name), getattr(found, whole)) == (7.0, 4)
    found = thresholds_of(usual, file, [f"{name}=8.5", f"{name}=9.5"])
    assert (getattr(found, name), getattr(found, whole)) == (9.5, 4)
    changed = {name: 9.5, whole: 4}
    assert found == msgspec.structs.replace(usual, **changed), "all others are as usual"
    assert type(getattr(found, whole)) is int
    assert thresholds_of(usual) == usual


@pytest.mark.parametrize(("usual", "name", "whole"), TABLES)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{name}s=1", "no such threshold"),
        ("{name}=-1", "no number from 0 on"),
        ("{name}=nan", "no number from 0 on"),
        ("{name}=inf", "no number from 0 on"),
        ("{name}='soon'", "no number from 0 on"),
        ("{name}=true", "no number from 0 on"),
        ("{whole}=2.5", "no whole number from 0 on"),
    ],
)
def test_both_refuse_the_same_in_the_same_words(
    usual: Any, name: str, whole: str, text: str, why: str, tmp_path: Path
) -> None:
    word = text.format(name=name, whole=whole)
    file = tmp_path / "mine.toml"
    file.write_text(f"# mine\n{word}\n")
    told = []
    for given in ((file, ()), (None, [word])):
        with pytest.raises(ConfigError) as error:
            thresholds_of(usual, *given)
        told.append((error.value.message, error.value.remedy or ""))
    (of_file, help_file), (of_word, help_word) = told
    assert of_file.startswith(f"{file}:2: ") and of_file.split(", up to")[0].endswith(why)
    assert of_word.startswith(f"--set {word}: ")
    assert of_word.split(", up to")[0].endswith(why)
    assert help_file == help_word
    assert name in help_file or whole in help_file


@pytest.mark.parametrize(("usual", "name", "whole"), TABLES)
def test_a_file_that_cannot_be_read(usual: Any, name: str, whole: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        thresholds_of(usual, tmp_path / "nowhere.toml")
    for data, why in ((b"[", "no TOML"), (b"\xff\xfe", "no TOML"), (b"[mine]\n", "no such")):
        (tmp_path / "bad.toml").write_bytes(data)
        with pytest.raises(ConfigError, match=why):
            thresholds_of(usual, tmp_path / "bad.toml")


def test_what_has_a_least_value(tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    for name in LEAST:
        file.write_text(f"{name} = 0.01\n")
        for given in ((file, ()), (None, [f"{name}=0.01"])):
            with pytest.raises(ConfigError, match=r"from 0\.1 on"):
                thresholds_of(OfMonitor(), *given, least=LEAST)


HUGE = ("1e300", "1e10", "1000000001", "9" * 400, "-" + "9" * 400, "9" * 5000, "1e400", "-1e300")


@pytest.mark.parametrize("usual", [table[0] for table in TABLES])
@pytest.mark.parametrize("value", HUGE, ids=lambda value: value[:10])
def test_what_is_too_large_for_any_of_them(usual: Any, value: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    for name in usual.__struct_fields__:
        file.write_text(f"{name} = {value}\n")
        for given in ((file, ()), (None, [f"{name}={value}"])):
            if name in MOST and value in ("1e10", "1000000001"):
                assert getattr(thresholds_of(usual, *given, most=MOST), name) == float(value)
                continue
            with pytest.raises(ConfigError) as error:
                thresholds_of(usual, *given, most=MOST)
            assert error.value.exit_code is Exit.USAGE


@pytest.mark.parametrize("usual", [table[0] for table in TABLES])
def test_the_largest_is_let_pass(usual: Any) -> None:
    for name in usual.__struct_fields__:
        assert getattr(thresholds_of(usual, None, [f"{name}=1e9"]), name) == 1e9


@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ("{a=", "}")])
def test_a_file_that_is_nested_too_deeply(opens: str, closes: str, tmp_path: Path) -> None:
    file = tmp_path / "deep.toml"
    file.write_text(f"p99_ms = {opens * 5000}1{closes * 5000}\n")
    with pytest.raises(ConfigError):
        thresholds_of(OfMonitor(), file)
