"""In which layers an invariant was asked, and how often: all states, random walks, real histories
and logs, a running cluster. It is one function in all of them; where it was never asked, nothing
was shown of it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError, Exit
from dstest.spec.declare import Kind
from dstest.spec.model import Count, Model

_STATED: Final[tuple[Kind, ...]] = ("state", "action", "sometimes")

LAYERS: Final[Mapping[str, tuple[Kind, ...]]] = {
    "explore": (*_STATED, "liveness"),
    "simulate": _STATED,
    "conform": _STATED,
    "live": ("state", "sometimes"),
}
"""Command of `dstest spec` -> the kinds of invariants that it asks."""

_KNOWN_BY: Final = {"walks": "simulate", "depth": "explore", "mode": "conform", "samples": "live"}
"""Key of an answer that no other layer has."""


class _Answer(msgspec.Struct):
    """What `--json` of a layer's command printed, as far as it counts invariants."""

    spec: str = ""
    model: str = ""
    invariants: dict[str, Count] = {}
    counts: dict[str, Count] = {}


class Layers(msgspec.Struct, frozen=True, kw_only=True):
    """`asked` has by invariant and layer how often it held and did not; a layer is there where it
    asks invariants of that kind. `absent` are layers without an answer."""

    asked: dict[str, dict[str, Count]]
    absent: tuple[str, ...]

    @property
    def never(self) -> dict[str, list[str]]:
        """Invariant -> layers that could have asked it and never did."""
        found = {
            id_: [layer for layer, n in by.items() if not n.passed + n.failed]
            for id_, by in self.asked.items()
        }
        return {id_: layers for id_, layers in found.items() if layers}

    @property
    def code(self) -> Exit:
        """1 where one did not hold, 3 where one was never asked in a layer."""
        counts = [n for by in self.asked.values() for n in by.values()]
        if any(one.failed for one in counts):
            return Exit.FAIL
        return Exit.NOT_PROVEN if self.never or not counts else Exit.PASS


def layers_of(model: Model, files: Iterable[Path]) -> Layers:
    """Of answers in files; several of one layer are added up. Raises ConfigError for a file that is
    no such answer, or one of another specification."""
    asked: dict[str, dict[str, Count]] = {
        one.id: {layer: Count() for layer, kinds in LAYERS.items() if one.kind in kinds}
        for one in model.invariants
    }
    there = set[str]()
    for path in files:
        layer, counts = _read(model, path)
        there.add(layer)
        for id_, count in counts.items():
            if layer in asked.get(id_, {}):
                asked[id_][layer].passed += count.passed
                asked[id_][layer].failed += count.failed
    return Layers(asked=asked, absent=tuple(one for one in LAYERS if one not in there))


def _read(model: Model, path: Path) -> tuple[str, dict[str, Count]]:
    remedy = f"what `--json` of dstest spec {', '.join(LAYERS)} prints"
    try:
        given: Any = msgspec.json.decode(path.read_bytes())
        answer = msgspec.convert(given, _Answer)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", remedy=remedy) from None
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}: {error}", remedy=remedy) from None
    layer = next((name for key, name in _KNOWN_BY.items() if key in given), None)
    if layer is None:
        raise ConfigError(f"{path} is of no layer", remedy=remedy)
    if (answer.spec or answer.model) != model.name:
        said = answer.spec or answer.model or "nothing"
        raise ConfigError(f"{path} is of {said}, not of {model.name}", remedy="its own SPEC")
    return layer, answer.invariants or answer.counts


def lines(found: Layers) -> Iterator[str]:
    """For people."""
    for id_, by in found.asked.items():
        counts = [f"{layer} {n.passed + n.failed:,}" for layer, n in by.items()]
        failed = sum(n.failed for n in by.values())
        yield f"{id_:8} {', '.join(counts)}" + (f"; {failed:,} times false" if failed else "")
    for id_, layers in found.never.items():
        yield f"never asked: {id_} in {len(layers)} of {len(found.asked[id_])}: {', '.join(layers)}"
    if found.absent:
        yield f"without an answer: {', '.join(found.absent)}"
