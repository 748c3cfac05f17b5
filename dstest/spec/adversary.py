"""Clients that keep to no rule: they send again, late, in another order, what is no request, or end
in the middle of one.

They are actions of a specification (`@action(adversary="stale")`), so that all that is done with
one, search, walks and a system that is held to it, is done with them and without.
"""

from __future__ import annotations

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.spec.declare import ADVERSARIES
from dstest.spec.model import Model


def allowed(model: Model, kinds: str) -> Model:
    """The model with adversaries of these kinds alone: a list with commas, `all` or `none`.

    Raises ConfigError for a word that is no kind, for a kind of which the model has no action, and
    where no action is left.
    """
    if kinds == "all":
        return model
    if absent := lacking(model, kinds):
        raise ConfigError(
            f"{model.name} has no action of clients that do {', '.join(absent)}",
            remedy=f'an action with adversary="{absent[0]}", or another --adversary',
        )
    named = _named(kinds)
    kept = tuple(one for one in model.actions if not one.adversary or one.adversary in named)
    if not kept:
        raise ConfigError(
            f"{model.name} has adversaries and nothing else", remedy="--adversary all"
        )
    return msgspec.structs.replace(model, actions=kept)


def lacking(model: Model, kinds: str) -> list[str]:
    """Those of the kinds of which the model has no action: nothing would be shown about them.
    Raises ConfigError for a word that is no kind."""
    return sorted(_named(kinds) - {one.adversary for one in model.actions})


def _named(kinds: str) -> set[str]:
    named = set() if kinds in ("all", "none") else {part.strip() for part in kinds.split(",")}
    if strange := sorted(named - ADVERSARIES.keys()):
        raise ConfigError(
            f"no client does {strange[0]!r}", remedy=meant(strange[0], sorted(ADVERSARIES))
        )
    return named
