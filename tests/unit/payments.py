"""Payments as clients see them, with clients that keep to no rule; and toykv in a simulation, which
is held to that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from clusters.systems.toykv.simulated import SIMULATED
from dstest.sim.world import World
from dstest.spec import Spec, Step, action, when


@dataclass(frozen=True, slots=True)
class Paid:
    """Payments in the order in which they were made, and how often the cluster has begun anew."""

    done: tuple[int, ...] = ()
    starts: int = 1


class Payments(Spec):
    """A payment has a number, is made once, and stays, however often a client sends it."""

    numbers: tuple[int, ...] = (1, 2, 3)
    starts_most = 2

    def initial(self) -> Iterable[Paid]:
        yield Paid()

    def due(self) -> tuple[int, ...]:
        return self.numbers

    @action(number=due)
    @when("next", lambda self, s, number: number == next(iter(self.open(s)), None))
    def pay(self, s: Paid, number: int) -> Paid:
        """In their order, each once."""
        return replace(s, done=(*s.done, number))

    @action()
    def audit(self, s: Paid) -> Paid:
        return s

    @action()
    @when("may", lambda self, s: s.starts < self.starts_most)
    def restart(self, s: Paid) -> Paid:
        """All servers at once."""
        return replace(s, starts=s.starts + 1)

    @action(adversary="duplicate")
    @when("some", lambda s: bool(s.done))
    def again(self, s: Paid) -> Paid:
        return s

    @action(adversary="stale", number=due)
    @when("old", lambda s, number: number in s.done[:-1])
    def late(self, s: Paid, number: int) -> Paid:
        return s

    @action(adversary="out-of-order", number=due)
    @when("later", lambda self, s, number: number in self.open(s)[1:])
    def early(self, s: Paid, number: int) -> Paid:
        return replace(s, done=(*s.done, number))

    @action(adversary="malformed")
    def nonsense(self, s: Paid) -> Paid:
        return s

    @action(adversary="crash", number=due)
    @when("open", lambda self, s, number: number in self.open(s))
    def half(self, s: Paid, number: int) -> Paid:
        """A request without its end, which is none."""
        return s

    def open(self, s: Paid) -> list[int]:
        return [number for number in self.numbers if number not in s.done]

    def answer_of(self, s: Paid, step: Step, after: Paid) -> Any:
        """What a client hears."""
        match step.action:
            case "pay" | "early":
                return "made"
            case "again" | "late":
                return "made before"
            case "audit":
                return s.done
            case "nonsense":
                return "malformed"
        return ...


class Toykv:
    """Three servers on simulated hosts, asked over a connection for each request."""

    bug: ClassVar[str] = "none"

    def __init__(self, seed: int) -> None:
        options = {"bug": self.bug, "spans": "no", "journal": "no"}
        names = ("n1", "n2", "n3")
        self._world = World(seed, names, lambda world, host: SIMULATED.main(world, host, options))
        self._last = 0
        self._begin()

    def _begin(self) -> None:
        for name in self._world.hosts:
            self._world.start(name)
        self._world.run(self._serving())

    async def _serving(self) -> None:
        for _ in range(300):
            if await SIMULATED.serves(self._world):
                return
            await asyncio.sleep(0.2)
        raise TimeoutError("it does not serve")

    def take(self, step: Step) -> Any:
        match step.action:
            case "restart":
                for name in self._world.hosts:
                    self._world.kill(name)
                self._begin()
                return None
            case "audit":
                effects = self._asked({"op": "audit", "key": "k"})["ok"]
                return tuple(int(effect.partition("/")[2]) for effect in effects)
            case "nonsense":
                return self._asked({"op": "credit", "id": None})["no"]
            case "half":
                return self._world.run(self._half(_credit(step.args[0])))
        number = step.args[0] if step.args else self._last
        if step.action in ("pay", "early"):
            self._last = number
        said = self._asked(_credit(number))
        return "made before" if "again" in said else "made" if said.get("ok") else str(said)

    def _asked(self, request: dict[str, Any]) -> dict[str, Any]:
        return dict(self._world.run(self._ask(request)))

    async def _ask(self, request: dict[str, Any]) -> Any:
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection("n1", SIMULATED.port)
            writer.write(json.dumps(request).encode() + b"\n")
            said = json.loads(await reader.readuntil(b"\n"))
            writer.close()
        return said

    async def _half(self, request: dict[str, Any]) -> None:
        _, writer = await asyncio.open_connection("n1", SIMULATED.port)
        writer.write(json.dumps(request).encode())
        await asyncio.sleep(0.01)
        writer.close()

    def close(self) -> None:
        self._world.close()


class Forgetful(Toykv):
    """A server that has replayed its log forgets which of the requests in it are done."""

    bug = "duplicate-on-retry-after-restart"


def _credit(number: int) -> dict[str, Any]:
    return {"op": "credit", "key": "k", "value": 5, "id": f"k/{number}"}
