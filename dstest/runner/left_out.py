"""`-o without=read+cas`: types of operations that clients leave out.

A smaller load shows what a violation needs. A run that leaves one out is never a pass (RF1), also
where its final phase asks for what its load has left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from dstest.core.errors import ConfigError
from dstest.core.protocols import OpDraft, Option, Reactive, Workload

LEFT_OUT_OPTION: Final[Mapping[str, Option]] = {
    "without": Option(
        type=str, default="", help="types of operations to leave out, as read+cas; never a pass"
    ),
}


def left_out(options: Mapping[str, Any]) -> frozenset[str]:
    """The types."""
    names = str(options.get("without", "")).split("+")
    return frozenset(name.strip() for name in names if name.strip())


def check_left_out(work: Workload, options: Mapping[str, Any]) -> None:
    """Raises ConfigError for a type that the workload does not have, for all of them, and where
    operations answer to each other."""
    types = left_out(options)
    if not types:
        return
    wrong = ""
    if absent := types - work.op_types:
        wrong = f"{work.name} has no {', '.join(sorted(absent))}"
    elif types == work.op_types:
        wrong = f"{work.name} has no others"
    elif isinstance(work.generator(0, 0, 1, options), Reactive):
        wrong = f"what a client of {work.name} does next depends on what it did last"
    if wrong:
        raise ConfigError(
            f"-o without={options['without']}: {wrong}",
            remedy=f"its types are {', '.join(sorted(work.op_types))}",
        )


DRAWS_MAX: Final = 100_000


def drawing(generator: Any, types: frozenset[str], workload: str) -> Callable[[], OpDraft]:
    """What gives the generator's next operation that is of none of these types; ConfigError where
    none comes."""
    if not types:
        return lambda: generator.next()

    def draw() -> OpDraft:
        for _ in range(DRAWS_MAX):
            draft: OpDraft = generator.next()
            if not isinstance(draft, OpDraft) or draft.op_type not in types:
                return draft
        raise ConfigError(
            f"workload {workload}: {DRAWS_MAX:,} draws of its generator have given nothing but"
            f" {', '.join(sorted(types))}",
            remedy="another -o without",
        )

    return draw
