"""Numbers that the C core answers with are the ones that Python has words for: a new one, or
another order, shows here and not in the midst of a judgement."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path
from typing import Final

import pytest

from checkers import txn
from checkers.txn import _native, ingest, order_search, weak_models

CSRC: Final = Path(txn.__file__).parents[1] / "csrc"
STREAM_H: Final = CSRC / "stream" / "stream.h"


def enum_in(text: str, name: str) -> dict[str, int]:
    """An enum of a C header: its names and numbers."""
    plain = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    found = re.search(rf"\benum {name} \{{(.*?)\}};", plain, flags=re.DOTALL)
    assert found is not None, name
    numbers: dict[str, int] = {}
    following = 0
    for part in filter(None, map(str.strip, found[1].split(","))):
        word, _, given = map(str.strip, part.partition("="))
        numbers[word] = int(given) if given else following
        following = numbers[word] + 1
    return numbers


def enum_of(folder: str, name: str, *, count: str = "") -> list[str]:
    """The names of an enum without gaps, in order, but for the one that counts them."""
    numbers = enum_in((CSRC / folder / f"{folder}.h").read_text(), name)
    assert numbers.pop(count, len(numbers)) == len(numbers)
    assert [*numbers.values()] == [*range(len(numbers))]
    return [*numbers]


def named(members: type[IntEnum]) -> dict[str, int]:
    return {f"STREAM_{one.name}": int(one) for one in members}


def test_a_stream_says_nothing_that_nobody_has_words_for() -> None:
    text = STREAM_H.read_text()
    assert enum_in(text, "stream_status") == named(ingest.Status)
    assert enum_in(text, "stream_end") == named(ingest.End)
    assert {*ingest.WHY} == {*ingest.Status} - {ingest.Status.GOING, ingest.Status.REFUSED}
    assert {*ingest.ENDS} == {*ingest.End}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("STREAM_NAMED = 7,", "STREAM_NAMED = 7,\n    STREAM_NEW,"),
        ("STREAM_TIME = 2,", "STREAM_TIME = 1,"),
        ("STREAM_TIME = 2,", "STREAM_LATE = 2,"),
    ],
)
def test_a_status_that_python_lacks_is_seen(old: str, new: str) -> None:
    text = STREAM_H.read_text()
    assert text.count(old) == 1
    assert enum_in(text.replace(old, new), "stream_status") != named(ingest.Status)


def test_a_stream_spends_as_the_rest_of_the_core_does() -> None:
    spent = enum_in((CSRC / "common" / "core_budget.h").read_text(), "core_spent")
    said = named(ingest.Status)
    for word in ("TIME", "MEMORY", "STOPPED"):
        assert said[f"STREAM_{word}"] == spent[f"CORE_{word}"]


def test_anomalies_and_edges_of_transactions() -> None:
    def plain(words: list[str]) -> list[str]:
        return [word.removeprefix("TXN_").replace("_", "-").lower() for word in words]

    found = enum_of("txn", "txn_finding", count="TXN_FINDINGS")
    assert plain(found) == [name.lower() for name in _native.FINDINGS]
    cycles = enum_of("txn", "txn_cycle", count="TXN_CYCLES")
    assert plain(cycles) == [name.lower().removesuffix("-item") for name in _native.CYCLES]
    labels = plain(enum_of("txn", "txn_label", count="TXN_LABELS"))
    assert [{"proc": "process", "rt": "realtime"}.get(w, w) for w in labels] == [*_native.LABELS]
    assert len(enum_of("txn", "txn_between")) == len(_native.BETWEEN)
    assert enum_of("txn", "txn_status") == [
        *("TXN_DONE", "TXN_TIME", "TXN_MEMORY", "TXN_STOPPED"),
        "TXN_INVALID",  # the last one: it becomes an exception
    ]
    assert len(_native.STATUS) == 4
    sources = enum_in((CSRC / "txn" / "txn.h").read_text(), "txn_source")
    assert [*sources.values()] == [*_native.SOURCES.values(), _native.BEYOND_ELLE]


SHORT: Final = {
    "ISO_SESSION_CAUSAL": "strong-session-causal",
    "ISO_SESSION_ATOMIC": "strong-session-read-atomic",
    "ISO_SESSION_VIEW": "strong-session-monotonic-atomic-view",
    "ISO_CAUSAL": "causal-cerone",
    "ISO_ATOMIC": "read-atomic",
    "ISO_VIEW": "monotonic-atomic-view",
    "ISO_SESSION_COMMITTED": "strong-session-read-committed",
    "ISO_COMMITTED": "read-committed",
    "ORD_STRICT_SER": "strong-serializable",
    "ORD_SESSION_SER": "strong-session-serializable",
    "ORD_SER": "serializable",
    "ORD_STRICT_SI": "strong-snapshot-isolation",
    "ORD_SESSION_SI": "strong-session-snapshot-isolation",
    "ORD_SI": "snapshot-isolation",
}


def test_models_that_are_decided() -> None:
    iso = enum_of("iso", "iso_model", count="ISO_MODELS")
    assert [SHORT[name] for name in iso] == [*weak_models.MODELS]
    order = enum_of("ord", "ord_model", count="ORD_MODELS")
    assert [SHORT[name] for name in order] == [*order_search.MODELS]
    words = {"NOT_ASKED": "open"}
    for folder in ("iso", "ord"):
        prefix = f"{folder.upper()}_"
        answers = [name.removeprefix(prefix) for name in enum_of(folder, f"{folder}_answer")]
        assert [words.get(one, one.lower()) for one in answers] == [*weak_models.ANSWERS]
