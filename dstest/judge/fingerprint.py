"""A name for a violation that stays the same when it is seen again.

    linearizable/stale-read/#-#/register

checker, anomaly class, pattern of the key (digits become #), model. Two runs show the same
violation when their fingerprints are equal (discipline 3.3).
"""

from __future__ import annotations

import re

import msgspec

from dstest.core.check import CheckResult
from dstest.core.fingerprint import Parts, joined
from dstest.core.verdict import Verdict

_DIGITS = re.compile(r"\d+")


def key_pattern(key: object) -> str:
    """A key with every run of digits replaced by `#`; `*` for no key."""
    return "*" if key is None else _DIGITS.sub("#", str(key))


def violation_fingerprint(result: CheckResult) -> str:
    """Fingerprint of the first anomaly by name. ValueError where there is no violation."""
    if result.valid is not False:
        raise ValueError(f"{result.checker}: no violation to name (valid is {result.valid})")
    kinds = sorted(result.anomaly_types or result.anomalies) or ["violation"]
    return fingerprint_of(result, kinds[0])


def fingerprints_of(result: CheckResult) -> set[str]:
    """Fingerprints of all kinds of anomalies that it found; none where there is no violation.

    A run may show a violation beside others that come first by name.
    """
    return {fingerprint_of(result, kind) for kind in result.kinds}


def all_fingerprints(verdict: Verdict) -> list[str]:
    """Of all violations that the checkers of a verdict found, in order."""
    results = msgspec.convert(verdict.checkers, dict[str, CheckResult])
    return sorted(name for result in results.values() for name in fingerprints_of(result))


def fingerprint_of(result: CheckResult, kind: str) -> str:
    """Fingerprint of one kind of anomaly that it found."""
    shown = result.anomalies.get(kind, [])
    key = key_pattern(shown[0].key) if shown else "*"
    return joined(Parts(result.checker, kind, key, result.model or result.workload or "*"))
