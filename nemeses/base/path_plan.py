"""Which paths a planned fault cuts: as the user named them, or by a shape that is drawn."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dstest.core.errors import ConfigError
from dstest.core.protocols import FaultPlan, Option, When
from nemeses.base.cut_sets import DIRECTIONS, SHAPES, TARGETED, CutSet, cuts_for, named
from nemeses.base.path_evidence import path_name
from nemeses.base.schedule import drawable, given_targets

PATH_OPTIONS: Final[Mapping[str, Option]] = {
    "shape": Option(
        type=str, default="random", choices=("random", *SHAPES), help="who is parted from whom"
    ),
    "direction": Option(
        type=str,
        default="random",
        choices=("random", *DIRECTIONS),
        help="cut both ways, or only what goes in to or comes out of the targets",
    ),
    "paths": Option(
        type=str, default="", help="these paths alone, as n1:n2,n3:n1 (from:to), not a shape"
    ),
}


def drawing(
    rng: random.Random,
    nodes: Sequence[str],
    options: Mapping[str, Any],
    requires_when: Sequence[When],
    draw_params: Callable[[], Mapping[str, Any]],
    *,
    leader_first: bool,
) -> Callable[[], dict[str, Any]]:
    """What draws the facts of one plan after the other; shapes in a shuffled order, so that all
    come in turn."""
    shapes: list[str] = []
    shuffled: list[bool] = []
    given = {**_apart(options), **_given(nodes, options)}

    def draw() -> dict[str, Any]:
        if not shapes:
            fitting = [s for s in SHAPES if s != "majorities-ring" or len(nodes) > 3]
            shapes.extend(drawable(requires_when, "shape", fitting, options))
            rng.shuffle(shapes)
            if leader_first and not shuffled and "leader" in shapes:
                shapes.sort(key=lambda shape: shape == "leader")
            shuffled.append(True)
        drawn = {"shape": shapes.pop(), "direction": rng.choice(("both", "both", "in", "out"))}
        return {
            **{k: v if options[k] == "random" else options[k] for k, v in drawn.items()},
            **given,
            **draw_params(),
            "seed": rng.getrandbits(32),
        }

    return draw


def _apart(options: Mapping[str, Any]) -> dict[str, Any]:
    """The shape that cuts the targets which the user has named off, nothing where none were."""
    targets, shape = given_targets(options), options["shape"]
    if not targets or shape in TARGETED:
        return {}
    if shape != "random":
        raise ConfigError(
            f"-o targets leaves no choice of shape={shape}",
            remedy=f"-o shape={' or shape='.join(TARGETED)}, or no -o targets",
        )
    return {"shape": "one" if len(targets) == 1 else "halves"}


def _given(nodes: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan says of paths that the user has named; nothing where none were."""
    text = str(options.get("paths", ""))
    if not text:
        return {}
    others = [k for k in ("shape", "direction") if options[k] != "random"]
    others += ["targets"] if options["targets"] else []
    if others:
        raise ConfigError(f"-o paths leaves no choice of {others[0]}", remedy="give one of the two")
    try:
        paths = named(text, nodes)
    except ValueError as error:
        raise ConfigError(f"-o paths={text}: {error}", remedy="-o paths=n1:n2,n2:n1") from None
    if not paths:
        raise ConfigError(f"-o paths={text} names no path", remedy="-o paths=n1:n2,n2:n1")
    both = all((b, a) in paths for a, b in paths)
    return {
        "shape": "paths",
        "direction": "both" if both else "in",
        "paths": [path_name(path) for path in paths],
    }


def cuts_of(plan: FaultPlan, nodes: Sequence[str], leader: str | None) -> CutSet:
    """The paths that a plan is about, as things are now. ValueError where there are none."""
    facts = plan.facts
    if facts["shape"] == "paths":
        cuts = named(",".join(facts.get("paths", ())), nodes)
        if not cuts:
            raise ValueError("no path is named")
        return CutSet(list(dict.fromkeys(destination for _, destination in cuts)), cuts)
    return cuts_for(
        facts["shape"],
        facts["direction"],
        nodes,
        random.Random(facts["seed"]),
        leader=leader,
        targets=facts["targets"],
    )
