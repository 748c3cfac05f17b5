"""Properties of a run that a person states in Python, asked of everything that they are about.

    from checkers.properties import Properties, Property

    CHECKER = Properties(
        "stock",
        [
            Property("never-negative", lambda op: op.op_type == "read",
                     lambda op: op.output >= 0, least=100),
            Property("sold-once", None, lambda ops: len({o.input for o in ops}) == len(ops)),
        ],
    )

A property with `about` is asked of each ok operation that it is about, one without of all ok
operations of a key together. It is *fired* so many times, and with fewer than `least` the answer is
unknown: a property whose path was never taken holds of everything. What raises is no answer, and
leaves the key undecided.

| anomaly | meaning |
|---|---|
| (the property's name) | it does not hold |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from checkers._findings import ANY_TYPE, Findings, Part, PerKey
from dstest.core.op import Op

__all__ = ["Properties", "Property"]


class Property(NamedTuple):
    """`holds` is given an operation, or without `about` the list of a key's. It fires at least
    `least` times over the whole run, or nothing was shown."""

    name: str
    about: Callable[[Op], bool] | None
    holds: Callable[[Any], bool]
    least: int = 1


class Properties(PerKey):
    """A checker of some properties. Its model is its name; options as for any `PerKey`."""

    def __init__(self, name: str, properties: Sequence[Property], **options: Any) -> None:
        self.properties = tuple(properties)
        if len({one.name for one in self.properties}) < len(self.properties):
            raise ValueError(f"{name}: two properties have one name")
        if any(type(one.least) is not int or one.least < 1 for one in self.properties):
            raise ValueError(f"{name}: `least` of a property is a whole number from 1 on")
        given = {
            "models": (name,),
            "types": ANY_TYPE,
            "vacuous": "no property was fired as often as it says",
            "observers": frozenset[str](),
        }
        super().__init__(name, self._ask, **{**given, **options})

    def _ask(self, part: Part, findings: Findings) -> int:
        """Fire each at what it is about; how often, of those that are fired often enough."""
        fired = 0
        for one in self.properties:
            subjects: list[Any]
            if one.about is None:
                subjects = [list(part.ok)] if part.ok else []
            else:
                subjects = [op for op in part.ok if one.about(op)]
            for subject in subjects:
                findings.tick()
                fired += 1
                findings.count(**{f"fired:{one.name}": 1})
                held = one.holds(subject)
                if not isinstance(held, bool):
                    raise TypeError(f"{one.name} answers {type(held).__name__}, not True or False")
                if not held:
                    ops = [subject] if isinstance(subject, Op) else subject
                    message = f"{one.name} does not hold"
                    findings.anomaly(one.name, part.key, ops, message, minimal=False)
        return fired

    def check(self, history: Any, model: str, budget: Any) -> Any:
        """As any checker; unknown where a property was not fired as often as it says."""
        import msgspec

        result = super().check(history, model, budget)
        seldom = [
            f"{one.name} was fired {result.stats.get(f'fired:{one.name}', 0)} times, of at least"
            f" {one.least}"
            for one in self.properties
            if result.stats.get(f"fired:{one.name}", 0) < one.least
        ]
        if seldom and result.valid is True:
            return msgspec.structs.replace(result, valid="unknown", reason="; ".join(seldom))
        return result
