"""Two behaviours side by side as sequence charts (Mermaid), the first difference marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from dstest.spec.model import Model, Step, shown


class Arrow(msgspec.Struct, frozen=True):
    """Who tells whom what; `to` is who acts where nobody is told."""

    at: str
    to: str
    text: str


def arrows_of(
    steps: Sequence[Step], lanes: Callable[[Step], tuple[str, str]] | None = None
) -> list[Arrow]:
    """`lanes` are who acts and who is told; without it, the first argument acts by itself."""

    def own(step: Step) -> tuple[str, str]:
        who = shown(step.args[0]) if step.args else "system"
        return who, who

    return [Arrow(*(lanes or own)(step), str(step)) for step in steps]


def lanes_of(model: Model) -> Callable[[Step], tuple[str, str]]:
    """Who acts is the argument that the specification names (`lane`), or that all of its actions
    have first. Where there is none, it is the specification."""
    firsts = {one.params[0] for one in model.actions if one.params}
    lane = model.spec.lane or (next(iter(firsts)) if len(firsts) == 1 else "")
    places = {one.name: one.params.index(lane) for one in model.actions if lane in one.params}

    def lanes(step: Step) -> tuple[str, str]:
        place = places.get(step.action)
        who = model.name if place is None else f"{lane} {shown(step.args[place])}"
        return who, who

    return lanes


def _word(text: str) -> str:
    """As Mermaid takes it: its own signs of a chart are left out."""
    return text.replace(";", ",").replace("#", "").replace("\n", " ")


def chart(arrows: Sequence[Arrow], title: str = "", differs_at: int | None = None) -> str:
    """One chart."""
    lines = ["sequenceDiagram"]
    if title:
        lines.insert(0, f"---\ntitle: {_word(title)}\n---")
    names = dict.fromkeys(name for one in arrows for name in (one.at, one.to))
    ids = {name: f"p{number}" for number, name in enumerate(names)}
    lines += [f"    participant {id_} as {_word(name)}" for name, id_ in ids.items()]
    for number, one in enumerate(arrows):
        if number == differs_at:
            lines.append(f"    Note over {ids[one.at]}: first difference")
        lines.append(f"    {ids[one.at]}->>{ids[one.to]}: {_word(one.text)}")
    return "\n".join(lines) + "\n"


def side_by_side(
    left: Sequence[Arrow], right: Sequence[Arrow], titles: tuple[str, str]
) -> tuple[str, str, int | None]:
    """Both charts, and where they differ first; None where one is the other."""
    both = list(zip(left, right, strict=False))
    at = next((i for i, (a, b) in enumerate(both) if a.text != b.text), None)
    if at is None and len(left) != len(right):
        at = len(both)
    return chart(left, titles[0], at), chart(right, titles[1], at), at
