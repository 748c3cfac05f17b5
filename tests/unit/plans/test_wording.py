"""What a requirement asks for and its claims do not: in words."""

from __future__ import annotations

import pytest

from dstest.plans.trace.wording import hedges, lost_phrases, lost_words


@pytest.mark.parametrize(
    ("text", "claim", "lost"),
    [
        (
            "A payment is made exactly once, also after a power cut of all members.",
            "A payment is made at most once.",
            ["exactly once", "also after a power cut of all members"],
        ),
        ("Results are given page by page.", "Results are given in pages.", ["page by page"]),
        ("Every write survives.", "Writes survive.", ["every"]),
        ("Every write survives.", "Each write survives.", []),
        ("Nothing is lost, always.", "In every case nothing is lost.", []),
        ("It never goes back.", "It goes forward.", ["never"]),
        ("It answers within 5 s.", "It answers.", ["5 s"]),
        ("It answers within 5 s.", "It answers within 50 s.", ["5 s"]),
        ("It answers within 5 seconds.", "It answers within 5 s.", []),
        ("At least 3 replicas have it.", "Exactly 3 replicas have it.", []),
        ("At most 3 replicas have it.", "At least 3 replicas have it.", ["at most"]),
        ("Only the leader writes.", "The leader writes.", ["only"]),
        ("It holds even under a partition.", "It holds.", ["even under a partition"]),
        ("It holds even under a partition.", "It holds, whatever a partition does.", []),
        ("A payment that is sent again takes effect once", "It takes effect once.", []),
        ("It serves 1,000 requests.", "It serves 1000 requests.", []),
        ("A payment takes effect once.", "A payment takes effect.", ["once"]),
        ("A payment takes effect once.", "A payment takes effect exactly once.", []),
        ("It serves once the leader is known.", "It serves when the leader is known.", []),
    ],
)
def test_what_is_lost(text: str, claim: str, lost: list[str]) -> None:
    found = list(dict.fromkeys(lost_phrases(text, [claim])))
    assert sorted(found) == sorted(lost)


def test_it_may_stand_in_any_of_the_claims() -> None:
    text = "Each entry is there exactly once, also after a restart."
    assert not list(lost_phrases(text, ["Entries are there exactly once.",
                                        "Every entry is there after a restart."]))  # fmt: skip


@pytest.mark.parametrize(
    ("text", "claim", "said"),
    [
        ("It is made once.", "It is made once in the typical case.", ["in the typical case"]),
        ("It is made once.", "It is usually made once.", ["usually"]),
        ("It usually works.", "It usually works.", []),
        ("Every payment is made.", "It is not so that every payment is made.", ["not so", "not"]),
        ("Every payment is made.", "Not every payment is made.", ["not every", "not"]),
        ("Every payment is made.", "Almost every payment is made.", ["almost"]),
        (
            "Every payment is made.",
            "Every payment is made unless members crash.",
            ["unless members crash"],
        ),
        ("It is made within 5 s.", "It is made within 5 s or 50 s.", ["or "]),
        ("It is made, also after a crash.", "It is made, except after a crash.", ["except"]),
        ("It takes effect once.", "It does not take effect once.", ["not"]),
        ("Nothing is lost.", "Writes do not get lost.", []),
        ("It never fails.", "It does not fail.", []),
        ("It converges.", "It converges eventually, best-effort.", ["eventually", "best-effort"]),
    ],
)
def test_what_is_hedged(text: str, claim: str, said: list[str]) -> None:
    assert list(hedges(text, claim)) == said


def test_words_that_no_claim_has() -> None:
    text = "registers, sets, counters and logs are linearizable"
    assert lost_words(text, ["A register is linearizable."]) == ["sets", "counters", "logs"]
    assert lost_words("stopped entries", ["An entry that stops."]) == []
