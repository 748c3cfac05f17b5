"""Domains that ask for the state: they restrict a step as guards do.

Whoever takes arguments from elsewhere than the domains, as records do, asks these as well. Fixed
domains are constants of an exploration, and restrict nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from dstest.spec.compose import System
from dstest.spec.declare import Spec, actions_of
from dstest.spec.model import Args, Guard, bound


def domain_guards(spec: Spec) -> dict[str, list[Guard]]:
    """Action -> a guard for each of its domains that is a function of the state."""
    found = _of(spec, "system", lambda s: s, {})
    if isinstance(spec, System):
        places = {name: list(params) for name, params in _params(spec).items()}
        found = _of(spec, "system", lambda s: s, places)
        for part, inner in spec.parts.items():
            for name, guards in _of(inner, f"sub:{part}", _field(part), places).items():
                found.setdefault(name, []).extend(guards)
    return found


def _params(spec: System) -> dict[str, tuple[str, ...]]:
    return {one.name: one.params for one in spec.model().actions}


def _of(
    spec: Spec, level: str, state_of: Callable[[Any], Any], places: dict[str, list[str]]
) -> dict[str, list[Guard]]:
    found: dict[str, list[Guard]] = {}
    for one in actions_of(spec):
        params = places.get(one.name) or list(one.domains)
        for name, domain in one.domains.items():
            if callable(domain) and "s" in inspect.signature(domain).parameters:
                asked = bound(spec, domain, (), f"parameter {name!r} of action {one.name!r}")
                holds = _among(asked, params.index(name), state_of)
                found.setdefault(one.name, []).append(
                    Guard(f"domain of {name}", level, holds, domain)
                )
    return found


def _among(
    asked: Callable[[Any, Args], Iterable[Any]], place: int, state_of: Callable[[Any], Any]
) -> Callable[[Any, Args], bool]:
    return lambda s, a: a[place] in asked(state_of(s), ())


def _field(part: str) -> Callable[[Any], Any]:
    return lambda s: getattr(s, part)
