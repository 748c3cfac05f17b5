"""Requirements held to the words of their claims: what was asked for and is claimed no more.

A requirement grows weaker where a quantity ("exactly once", "every", "never"), a number with its
unit, or a circumstance ("also after a power cut", "page by page", "within 5 s") is left out, or
where a claim hedges ("in the typical case"). These are told as phrases. Of all other words it is
only told which of them no claim has: who writes in other words need not have left anything out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

_QUANTITIES: Final[Mapping[str, str]] = {
    "exactly once": r"exactly[ -]once|once and only once|exactly one time|precisely once",
    "at most": r"at most|no more than|not more than|up to a maximum of",
    "at least": r"at least|no (?:less|fewer) than|a minimum of",
    "exactly": r"exactly|precisely",
    "every": r"every|each|all|any|whichever|whatever|whoever",
    "never": r"never|at no time|under no circumstances|no",
    "always": r"always|at all times|at any time|in every case|whenever",
    "only": r"only|solely|exclusively|nothing but",
    "both": r"both",
    "immediately": r"immediately|at once|instantly",
    "forever": r"for ?ever|permanently|durably|durable",
    "once": r"once(?= *(?:$|[.,;:\n]))|one time",
}
"""What it is called -> all ways in which it is said. One that stands in a longer one is not asked
for by itself."""

_STRONGER: Final[Mapping[str, frozenset[str]]] = {
    "once": frozenset({"exactly once", "exactly"}),
    "at most": frozenset({"exactly once", "exactly", "never"}),
    "at least": frozenset({"exactly once", "exactly", "every", "always"}),
    "exactly": frozenset({"exactly once"}),
    "always": frozenset({"every"}),
    "every": frozenset({"always"}),
}
"""What says more than it, or the same."""

_UNIT: Final = (
    r"(?:ns|us|µs|ms|s|sec|secs|seconds?|milliseconds?|min|minutes?|h|hours?|days?|%|percent|"
    r"bytes?|[kKMGT]i?B|Hz|times|nodes?|members?|replicas?|servers?|pages?|requests?)"
)
_NUMBER: Final = re.compile(rf"(?<![\w.])(\d[\d,.]*\d|\d)\s*-?\s*({_UNIT})?(?![\w])")

_CIRCUMSTANCE: Final = re.compile(
    r"\b(?:(?:also|even|including|especially|not only)\s+)?"
    r"(?:after|during|under|while|within|until|unless|without|before|across|despite|when|if|"
    r"whenever|as long as|regardless of|in spite of)\b[^,;:.()]*"
)
_PAIRED: Final = re.compile(r"\b(\w+) (?:by|after|for) \1\b")

_HEDGES: Final = re.compile(
    r"in (?:the )?(?:typical|normal|usual|common|most|best|average) cases?|typically|usually|"
    r"normally|generally|mostly|in general|in most cases|best[ -]effort|where possible|"
    r"if possible|as far as possible|in principle|ideally|often|sometimes|approximately|roughly|"
    r"in practice|eventually|should be able|almost|nearly|hardly|rarely|"
    r"unless\b[^,;:.()]*|except\w*|or (?=\d)|"
    r"not (?:so|true|the case|every|each|all|any|always|only)\b",
)
_TURNED: Final = re.compile(r"\b(?:not|cannot|nobody)\b|n't\b")
_DENIED: Final = re.compile(r"\b(?:not|cannot|never|no|without|nobody|lost|only)\b|n't\b")
"""What a claim may say with another word of the kind."""

_LITTLE: Final = (
    "a an the this that these those it its is are was were be been being has have had do does did "
    "of to in on at by for from with as and or but not so than then there their they them he she "
    "who whom whose which what where when while if into onto over under after before during until "
    "unless without within across despite also even including especially can could may might must "
    "shall should will would one ones such same other another only very too no nor each every all "
    "any both up out off again about between through because since per via more most less least "
    "once exactly never always"
)
_STOP: Final = frozenset(_LITTLE.split())
_WORD: Final = re.compile(r"[a-z][a-z'-]*[a-z]|[a-z]")


def lost_phrases(text: str, claims: Sequence[str]) -> Iterator[str]:
    """Of a requirement what stands in none of its claims: quantities, numbers, circumstances."""
    wanted, said = text.lower(), " \n ".join(claims).lower()
    yield from _quantities(_CIRCUMSTANCE.sub(" ", wanted), said)
    there = {_number(one) for one in _NUMBER.finditer(said)}
    for one in _NUMBER.finditer(wanted):
        if _number(one) not in there:
            yield one[0].strip()
    stems = {_stem(word) for word in _WORD.findall(said)}
    for one in _PAIRED.finditer(wanted):
        if one[0] not in said:
            yield one[0]
    for one in _CIRCUMSTANCE.finditer(wanted):
        content = [w for w in _WORD.findall(_NUMBER.sub(" ", one[0])) if w not in _STOP]
        if content and any(_stem(word) not in stems for word in content):
            yield " ".join(one[0].split())


def _quantities(wanted: str, said: str) -> Iterator[str]:
    found, there = _named(wanted), _named(said)
    for name, words in found.items():
        if name not in there and not _STRONGER.get(name, frozenset()) & there.keys():
            yield words


def _named(text: str) -> dict[str, str]:
    """Quantity -> the words in which it is said first."""
    found: dict[str, str] = {}
    for name, ways in _QUANTITIES.items():
        pattern = re.compile(rf"\b(?:{ways})\b")
        if (first := pattern.search(text)) is not None:
            found[name] = first[0]
            text = pattern.sub(" ", text)
    return found


def _number(one: re.Match[str]) -> tuple[str, str]:
    unit = (one[2] or "").rstrip("s") or ("s" if one[2] == "s" else "")
    short = {"second": "s", "sec": "s", "millisecond": "m", "minute": "min", "hour": "h",
             "percent": "%"}  # fmt: skip
    return one[1].replace(",", ""), short.get(unit, unit)


def hedges(text: str, claim: str) -> Iterator[str]:
    """What a claim says to be true less often, or denies, and its requirement does not."""
    wanted, said = text.lower(), claim.lower()
    for one in _HEDGES.finditer(said):
        if one[0] not in wanted:
            yield one[0]
    if not _DENIED.search(wanted) and (turned := _TURNED.search(said)):
        yield turned[0]


def lost_words(text: str, claims: Sequence[str]) -> list[str]:
    """Words of a requirement that none of its claims has, in their order; little words left out,
    and endings not looked at."""
    there = {_stem(word) for claim in claims for word in _WORD.findall(claim.lower())}
    words = (word for word in _WORD.findall(text.lower()) if word not in _STOP)
    return list(_absent(words, there))


def _absent(words: Iterable[str], there: set[str]) -> Iterator[str]:
    told = set[str]()
    for word in words:
        if (stem := _stem(word)) not in there and stem not in told:
            told.add(stem)
            yield word


def _stem(word: str) -> str:
    """Without the endings of plurals and verbs: enough to find a word again."""
    for ending in ("ies", "ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stem = word.removesuffix(ending) + ("y" if ending == "ies" else "")
            return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem
    return word
