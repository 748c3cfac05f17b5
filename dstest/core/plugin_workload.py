"""Can anybody judge what this workload does? Asked where it is loaded, of what it says itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, get_type_hints

from dstest.core.attributes import require_attributes
from dstest.core.claims import CATEGORIES, FAMILIES, Fields
from dstest.core.errors import ConfigError
from dstest.core.protocols import Workload, WorkloadTraits

FINAL_S_MAX: Final = 3600.0


def require_workload(work: Workload, of: str) -> None:
    """Raises ConfigError where no run of it could be judged as it asks; `of` is where it is from.

    Its attributes are of their types.
    """
    require_attributes(work.fields, get_type_hints(Fields), f"{of}: its fields")
    for problems in (_judges(work), _counts(work), _fields(work), _final(work)):
        for said, remedy in problems:
            raise ConfigError(f"{of} {said}", remedy=remedy)


def _judges(work: Workload) -> Iterator[tuple[str, str]]:
    """(what is wrong, what to do about it), as in the others."""
    if not work.checkers or not all(work.checkers):
        yield (
            "names no checker",
            '`checkers = ("...",)` in its class; `dstest list` has their names',
        )
    if not work.model:
        yield "names no model", '`model = "..."` in its class, one that its checkers know'
    unknown = sorted({*work.claims} - CATEGORIES)
    if unknown or not work.claims:
        said = f"claims {', '.join(unknown) or 'nothing'}"
        yield said, f"`claims` of {', '.join(sorted(CATEGORIES))}"


def _counts(work: Workload) -> Iterator[tuple[str, str]]:
    if not work.op_types:
        yield "has no types of operation", "`op_types = frozenset({...})`, all that it asks for"
    known = ", ".join(sorted(work.op_types))
    for kind, least in work.minimum.items():
        if kind not in work.op_types:
            said = f"with its minimum asks for {kind}, which is no type of its operations"
            yield said, f"its op_types are {known}"
        if least < 0:
            yield f"with its minimum asks for {least} {kind}", "0 or more"


def _final(work: Workload) -> Iterator[tuple[str, str]]:
    final_s = WorkloadTraits.of(work).final_s
    if not 0 < final_s <= FINAL_S_MAX:
        said = f"says that its final phase may take {final_s:g} s"
        yield said, f"`final_s` above 0 and at most {FINAL_S_MAX:g}"


def _fields(work: Workload) -> Iterator[tuple[str, str]]:
    fields = work.fields
    if fields.family and fields.family not in FAMILIES:
        said = f"says that its fields are of family {fields.family!r}"
        yield said, f"one of {', '.join(sorted(FAMILIES))}, or none"
    if fields.ttl_option and fields.ttl_option not in work.options:
        said = f"has fields whose ttl_option {fields.ttl_option!r} is none of its options"
        yield said, "declare it in `options`"
