"""An empty word of the command line is refused: as a path it would be the current directory, as an
address every one."""

from __future__ import annotations

from pathlib import Path

import pytest
from touched_runs import dstest

from dstest.cli import entry
from dstest.core import processes


@pytest.mark.parametrize(
    "words",
    [
        ("serve", ""),
        ("serve", "--host", ""),
        ("serve", "--host="),
        ("serve", "store", "--export", ""),
        ("report", ""),
        ("check", ""),
        ("run", "--store", ""),
        ("",),
    ],
)
def test_an_empty_word_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    done = processes.dstest(words, tmp_path)
    assert done.returncode == 2
    assert "an empty word" in done.stderr and "remedy: " in done.stderr


def test_words_of_others_may_be_empty() -> None:
    entry._require_words(["lab", "ssh", "n1", "--", "grep", "", "file"])
    entry._require_words(["check", "h.jsonl", "-o", "total="])


def test_an_empty_address_is_refused_wherever_it_comes_from(tmp_path: Path) -> None:
    code, said = dstest("serve", tmp_path, "--host", " ")
    assert code == 2 and "--host is empty" in said
