"""Queues whose takers give back what they had in hand, at whatever time: nothing of it is lost.

True histories of a queue under at-least-once: a dequeue that failed, or whose outcome is unknown,
may have an element in hand, and it comes back later, or (unknown) is gone for good. Elements are
put in more than once. The checkers may say that they do not know; they may not accuse.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from dstest.core import registry
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op


class Queue:
    """`hands` are elements with the time at which they come back, and where to."""

    def __init__(self, seed: int, *, dead: bool) -> None:
        self.dice = random.Random(seed)
        self.dead = dead
        self.elements: dict[str, list[int]] = {"queue": [], "dead": []}
        self.hands: list[tuple[int, str, int]] = []
        self.ops: list[Op] = []
        self.now = 0
        self.lost = 0

    def tick(self) -> None:
        self.now += 10
        for hand in [hand for hand in self.hands if hand[0] <= self.now]:
            self.hands.remove(hand)
            self.elements[hand[1]].append(hand[2])

    def add(self, kind: str, asked: Any, output: Any, outcome: str, took: int = 1) -> None:
        gone = outcome == "unknown"
        self.ops.append(
            Op(
                op_id=len(self.ops),
                process_id=len(self.ops),
                invoke_ts=self.now,
                complete_ts=None if gone else self.now + took,
                op_type=kind,
                key="q",
                input=asked,
                output=output,
                error=None if outcome == "ok" else outcome,
                timeout_marker=gone,
            )
        )

    def take(self, kind: str, outcome: str, latest: int) -> None:
        """One take; what it gives back comes back before `latest`."""
        place = "dead" if kind == "collect" else "queue"
        waiting = self.elements[place]
        if not waiting or (outcome != "ok" and self.dice.random() < 0.4):
            if outcome != "ok" or not waiting:
                self.add(kind, None, None, outcome)
            return
        value = waiting.pop(self.dice.randrange(len(waiting)))
        back = self.dice.randint(self.now, max(self.now, latest))
        if outcome == "ok":
            self.add(kind, None, value, outcome)
            if kind == "reject":
                self.hands.append((back, "dead", value))
        elif outcome == "failed":
            self.add(kind, None, None, outcome, took=self.dice.randint(1, 60))
            self.hands.append((back, place, value))
        else:
            self.add(kind, None, None, outcome)
            if self.dice.random() < 0.5:
                self.hands.append((back + self.dice.randint(0, 300), place, value))
            elif kind == "reject":
                self.hands.append((back, "dead", value))


def made(seed: int, *, dead: bool, loses: bool = False) -> History:
    queue = Queue(seed, dead=dead)
    dice = queue.dice
    kinds = ("dequeue", "reject", "collect") if dead else ("dequeue",)
    steps = dice.randint(3, 14)
    by = 10 * (steps + 3)
    for _ in range(steps):
        queue.tick()
        if dice.random() < 0.4:
            value = dice.randint(1, 4)
            queue.add("enqueue", value, None, "ok")
            queue.elements["queue"].append(value)
        else:
            outcome = dice.choice(["ok", "ok", "failed", "unknown"])
            queue.take(dice.choice(kinds), outcome, by)
    if loses and queue.elements["queue"]:
        queue.elements["queue"].clear()
        queue.lost = 1
    # The last looks begin when what failed takers had in hand is back, and letters have arrived.
    for kind in ("dequeue", "collect") if dead else ("dequeue",):
        for _ in range(60):
            queue.tick()
            if queue.now < by:
                continue
            outcome = dice.choice(["ok"] * 9 + ["unknown"])
            empty = not queue.elements["dead" if kind == "collect" else "queue"]
            queue.take(kind, outcome, queue.now)
            if outcome == "ok" and empty and dice.random() < 0.7:
                break
    for _ in range(dice.randint(0, 2)):
        queue.tick()
        queue.take(dice.choice(kinds), "unknown", queue.now)
    return History(header=Header(), ops=queue.ops)


@pytest.mark.parametrize("name", ["total-queue", "dead-letters"])
def test_what_was_in_hand_is_not_lost(name: str) -> None:
    checker = registry.load("checkers", name)
    seen: Counter[Any] = Counter()
    for seed in range(3000):
        history = made(seed, dead=name == "dead-letters")
        result = checker.check(history, "at-least-once", Budget())
        seen[result.valid] += 1
        assert result.valid is not False, (seed, result.reason, history.ops)
    assert seen[True] > 300, seen


@pytest.mark.parametrize("name", ["total-queue", "dead-letters"])
def test_what_was_lost_is_still_found(name: str) -> None:
    checker = registry.load("checkers", name)
    found = [
        checker.check(
            made(seed, dead=name == "dead-letters", loses=True), "at-least-once", Budget()
        )
        for seed in range(500)
    ]
    assert sum(result.valid is False for result in found) > 50
