"""Section 7: from `### S1: name` to the next such heading, a scenario."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.plans.document import Block, Fence, Heading, Prose, fields_of
from dstest.plans.launch import Budget, Run
from dstest.plans.model import BUDGETS, Gated, Scenario, Skeleton, Surfaces
from dstest.plans.words import NOT_GATED, entries, ids, listed, plain

_NAME: Final = re.compile(r"(?P<id>S\d+)\s*[:.]\s*(?P<name>.+)")
_GATED: Final = re.compile(r"§?7\.M\b(?!\.S)")
_SURFACES: Final = re.compile(r"§?7\.M\.S\b")
_BUDGET: Final = re.compile(
    r"nodes (?P<nodes>\d+(?:\s*(?:,|and)\s*\d+)*); duration (?P<duration>\d+(?:\.\d+)?) s;"
    r" faults (?P<faults>\d+); seeds (?P<seeds>\d+)"
)
_UNTESTED: Final = re.compile(r"\b(NOT-RUN|PARTIAL)\b")


def scenarios_of(blocks: list[Block], name: str) -> Iterable[Scenario]:
    """The scenarios of a section 7. Raises ConfigError for a run block that cannot be read, and for
    a heading of the third level that is no scenario."""
    heads = [(i, b) for i, b in enumerate(blocks) if isinstance(b, Heading) and b.level == 3]
    ends = [*(i for i, _ in heads), len(blocks)][1:]
    for (start, head), end in zip(heads, ends, strict=True):
        found = _NAME.fullmatch(plain(head.text))
        if found is None:
            raise ConfigError(
                f"{name}:{head.line}: {head.text!r} is the heading of no scenario",
                remedy="### S1: claim_under_fault",
            )
        yield _scenario(found["id"], plain(found["name"]), head, blocks[start + 1 : end], name)


def _scenario(id: str, title: str, head: Heading, blocks: list[Block], name: str) -> Scenario:
    parts = _split(blocks)
    fields = fields_of(parts[""], name)
    texts = {key: line.text for key, line in fields.items()}
    budgets = {tier: texts.get(f"{tier} budget", "") for tier in BUDGETS}
    numbers = {tier: _budget(text) for tier, text in budgets.items()}
    return Scenario(
        line=head.line,
        id=id,
        name=title,
        falsifies=ids(texts.get("falsifies", "")),
        closes=ids(texts.get("closes", "")),
        fields=texts,
        lines={key: line.line for key, line in fields.items()},
        budgets={tier: number for tier, number in numbers.items() if number is not None},
        reasons={t: text for t, text in budgets.items() if text and numbers[t] is None},
        run=_run(blocks, name),
        gated=_gated(parts, name),
        surfaces=_surfaces(parts, name),
        skeleton=_skeleton(blocks),
    )


def _split(blocks: list[Block]) -> dict[str, list[Block]]:
    """The blocks below each heading of the fourth level; below "" those before the first."""
    found: dict[str, list[Block]] = {"": []}
    at = ""
    for block in blocks:
        if isinstance(block, Heading):
            at = f"{block.line} {plain(block.text)}"
            found[at] = [block]
        else:
            found[at].append(block)
    return found


def _budget(text: str) -> Budget | None:
    found = _BUDGET.fullmatch(" ".join(text.split()).rstrip("."))
    if found is None:
        return None
    sizes = tuple(map(int, re.findall(r"\d+", found["nodes"])))
    return Budget(
        nodes=sizes,
        duration_s=float(found["duration"]),
        faults=int(found["faults"]),
        seeds=int(found["seeds"]),
    )


def _run(blocks: list[Block], name: str) -> Run | None:
    fences = [b for b in blocks if isinstance(b, Fence) and b.info[1:2] == ("run",)]
    if not fences:
        return None
    if len(fences) > 1:
        raise ConfigError(
            f"{name}:{fences[1].line}: a second run block in one scenario",
            remedy="one for each scenario; what is different in an arm stands in [[arms]]",
        )
    fence = fences[0]
    try:
        facts: dict[str, Any] = tomllib.loads(fence.text)
        facts.pop("line", None)
        return msgspec.structs.replace(msgspec.convert(facts, Run), line=fence.line)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as error:
        known = ", ".join(f.encode_name for f in msgspec.structs.fields(Run) if f.name != "line")
        raise ConfigError(
            f"{name}:{fence.line}: the run block cannot be read: {error}",
            remedy=f"TOML with {known}",
        ) from None


def _gated(parts: dict[str, list[Block]], name: str) -> Gated | None:
    for block in (block for inside in parts.values() for block in inside):
        if isinstance(block, Prose) and plain(block.text).startswith(NOT_GATED[:5]):
            return Gated(line=block.line, not_applicable=" ".join(block.text.split()))
    for head, inside in parts.items():
        if _GATED.match(head.partition(" ")[2]):
            return Gated(line=inside[0].line, fields=_fields(inside, name))
    return None


def _surfaces(parts: dict[str, list[Block]], name: str) -> Surfaces | None:
    for head, inside in parts.items():
        if _SURFACES.match(head.partition(" ")[2]):
            fields = _fields(inside, name)
            arms = fields.get("scenario arms", "")
            return Surfaces(
                line=inside[0].line,
                fields=fields,
                surfaces=listed(fields.get("surfaces", "")),
                arms=listed(arms),
                untested=tuple(
                    name
                    for part in entries(arms)
                    if _UNTESTED.search(part)
                    for name in listed(part)
                ),
            )
    return None


def _fields(blocks: list[Block], name: str) -> dict[str, str]:
    return {key: line.text for key, line in fields_of(blocks, name).items()}


def _skeleton(blocks: list[Block]) -> Skeleton | None:
    for block in blocks:
        if isinstance(block, Fence) and block.info[1:2] == ("skeleton",):
            return Skeleton(line=block.line, language=block.info[0], text=block.text)
    return None
