"""How a number grows with the number of nodes, and a broadcast that is counted in a simulation."""

from __future__ import annotations

import asyncio
import random

import pytest

from dstest.core.errors import ConfigError
from dstest.debug.monitor.scale import CLASSES, class_named, fit
from dstest.sim.world import Host, World

SIZES = (3, 5, 9, 17, 33)


@pytest.mark.parametrize("name", CLASSES)
def test_numbers_of_a_class_are_named_and_noise_makes_them_no_other(name: str) -> None:
    """Noise is one percent, with three repetitions of each size."""
    for seed in range(20):
        dice = random.Random(f"{name} {seed}")
        base, per = dice.uniform(0, 2), dice.uniform(1, 50)
        found = fit([(n, base + per * CLASSES[name](n)) for n in SIZES])
        assert found.best == name, (seed, found)
        exact = [(n, per * (1 + CLASSES[name](n))) for n in SIZES for _ in range(3)]
        found = fit([(n, value * dice.gauss(1, 0.01)) for n, value in exact])
        assert name in (found.best, *found.alike), (seed, found)
        assert found.best in (name, "undecided"), (seed, found)


def test_few_sizes_close_together_are_seldom_wrong() -> None:
    """Of 3, 5 and 7 nodes with three percent of noise n and n log n are hardly told apart."""
    for seed in range(50):
        dice = random.Random(seed)
        found = fit([(n, n * dice.gauss(1, 0.03)) for n in (3, 5, 7) for _ in range(3)])
        assert found.best in ("O(n)", "undecided"), (seed, found)
        assert "O(n)" in (found.best, *found.alike), (seed, found)


def test_alike_is_said() -> None:
    dice = random.Random(3)
    found = fit([(n, 10 * n * dice.gauss(1, 0.05)) for n in (3, 4, 5) for _ in range(2)])
    assert found.best == "undecided"
    assert "O(n)" in found.alike
    assert "fit alike" in found.said


def test_what_shrinks_or_jumps_is_none_of_them() -> None:
    assert fit([(3, 90.0), (5, 60.0), (9, 20.0)]).best == "undecided"
    assert fit([(3, 1.0), (5, 90.0), (9, 2.0), (17, 95.0)]).best == "undecided"


def test_it_agrees_or_not() -> None:
    squares = [(n, float(n * n)) for n in SIZES]
    assert fit(squares, "O(n²)").agrees is True
    assert fit(squares, "O(n)").agrees is False


def test_what_cannot_be_fitted() -> None:
    with pytest.raises(ConfigError, match="2 sizes"):
        fit([(3, 1.0), (5, 2.0), (5, 2.5)])
    with pytest.raises(ConfigError, match="no number"):
        fit([(3, 1.0), (5, float("nan")), (7, 2.0)])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("n2", "O(n²)"),
        ("O(n^2)", "O(n²)"),
        ("n log n", "O(n log n)"),
        ("1", "O(1)"),
        ("log", "O(log n)"),
    ],
)
def test_names_of_classes(text: str, name: str) -> None:
    assert class_named(text) == name
    with pytest.raises(ConfigError):
        class_named("n3")


ROUNDS = 3


def broadcast(relay: bool) -> object:
    """Each host that hears of a round for the first time tells all others: n² messages a round. The
    one without `relay` keeps it to itself: n messages."""

    async def main(world: World, host: Host) -> None:
        heard: set[bytes] = set()
        others = [name for name in world.hosts if name != host.name]

        class Box(asyncio.DatagramProtocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                self.out = transport

            def datagram_received(self, data: bytes, addr: object) -> None:
                if data not in heard:
                    heard.add(data)
                    if relay or data.endswith(host.name.encode()):
                        for other in others:
                            self.out.sendto(data, (other, 9))  # type: ignore[attr-defined]

        loop = asyncio.get_running_loop()
        _, box = await loop.create_datagram_endpoint(Box, (host.name, 9))
        if host.name == "n0":
            for number in range(ROUNDS):
                await asyncio.sleep(1)
                box.datagram_received(b"%d of n0" % number, None)
        await asyncio.Event().wait()

    return main


@pytest.mark.parametrize(("relay", "name"), [(True, "O(n²)"), (False, "O(n)")])
def test_a_broadcast_is_named(relay: bool, name: str) -> None:
    points = []
    for size in (3, 5, 9, 15):
        made = World(1, [f"n{n}" for n in range(size)], broadcast(relay))  # type: ignore[arg-type]
        for host in made.hosts:
            made.start(host)
        try:
            made.run(asyncio.sleep(ROUNDS + 2), "client")
        finally:
            made.close()
        points.append((size, sum(made.net.sent.values()) / ROUNDS))
        assert points[-1][1] == (size * (size - 1) if relay else size - 1)
    found = fit(points, name)
    assert (found.best, found.agrees) == (name, True), found
