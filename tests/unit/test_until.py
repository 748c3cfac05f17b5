"""A member that starts is asked again, and one that never answers is given up each time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.supervise import SupervisedDeployment
from dstest.core.errors import LabError
from dstest.core.protocols import Timing

pytestmark = pytest.mark.slow

NODE: Any = SimpleNamespace(name="n1")


class Starting(SupervisedDeployment):
    timing = Timing(start_s=0.6, answer_s=0.1)

    def services(self, node: Any) -> list[Any]:
        return []

    async def healthy(self) -> dict[str, bool]:
        return {}

    async def version(self) -> str:
        return ""


def asked(*answers: Any) -> Any:
    """What comes back of a member that says these, one after the other; None hangs."""
    left = list(answers)

    async def ask(node: Any) -> Any:
        said = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(said, BaseException):
            raise said
        return await asyncio.sleep(60) if said is None else said

    return asyncio.run(Starting([NODE], {}).until(NODE, ask))


def test_it_is_asked_until_it_answers() -> None:
    assert asked(ConnectionError("refused"), None, False, 7) == 7


@pytest.mark.parametrize("said", [ConnectionError("refused"), None, False])
def test_what_it_said_last_is_told(said: Any) -> None:
    name = "TimeoutError" if said is None else "refused" if said else "False"
    with pytest.raises(LabError, match=rf"n1 is not ready after 0.6 s: .*{name}"):
        asked(said)
