"""`latency`: what nodes send to one another arrives late, in one or both directions.

Injector signal: packets that the program in the queue held for the time asked for, per path.
Victim signal: the median round trip of our datagrams is longer by at least 0.7 of the delay of each
direction that is hit. Control: by less than 0.2 of it between all other pairs. It has healed when
it is so between all pairs again. Round trips are taken by programs: the kernel's stamps of arrival,
which ping prints, are from before the queue.

Jitter does not reorder: a packet never passes an earlier one of its sender. The system's own
connections to clients and ours to the nodes are not delayed.

Catalogue: N08.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import NemesisContext, Option
from nemeses.base.driver import Facts, nodes_of
from nemeses.base.path_fault import LANDING_DEADLINE_S
from nemeses.base.paths import Reached, path_name
from nemeses.base.schedule import check_range
from nemeses.network.queued import QueueFault
from nemeses.observe import probes
from nemeses.tools.netqueue import Sender

SHIFT_MIN: Final = 0.7
OTHERS_MAX: Final = 0.2
WAIT_MIN: Final = 0.9
WAIT_MAX: Final = 1.5
WAIT_SLACK_MS: Final = 30.0
"""The program may wait its turn for a processor."""

ECHOES: Final = 9
ECHO_SPACING_MS: Final = 15
NETEM_RATE_BYTES: Final = 1_250_000_000
"""Per second: ten gigabits."""

MS_MIN: Final = 20.0
MS_MAX: Final = 2000.0


def waits(path: str, row: Sender, delay_ms: float, jitter_ms: float) -> str | None:
    """Why the packets of a path did not wait as asked, None where they did."""
    if not row.delayed:
        return None
    mean_ms = row.waited_us / row.delayed / 1000
    longest_ms = WAIT_MAX * (delay_ms + jitter_ms) + WAIT_SLACK_MS
    if WAIT_MIN * delay_ms <= mean_ms <= longest_ms:
        return None
    return f"{path} waits {mean_ms:.1f} ms, {delay_ms:g} asked for"


def _directions(pair: str, cuts: Sequence[str]) -> int:
    asker, _, answerer = pair.partition("->")
    return sum(path in cuts for path in (pair, f"{answerer}->{asker}"))


def slow_pairs(
    before: Mapping[str, Sequence[int]],
    now: Mapping[str, Sequence[int]],
    pairs: Iterable[str],
    limits_us: Mapping[str, float],
) -> tuple[list[str], list[str], list[str]]:
    """(pairs that are slower than before by their limit, those that are not, those without answer).

    A pair is slower where it is so over each family; it is not where it is so over none.
    """
    slower, same, unresponsive = [], [], []
    for pair in pairs:
        shifts = []
        for was, is_now in zip(before[pair], now[pair], strict=True):
            if was == -1:
                continue
            if was == 0 or is_now == 0:
                unresponsive.append(pair)
                break
            shifts.append(is_now - was >= limits_us[pair])
        else:
            if shifts and all(shifts):
                slower.append(pair)
            if not any(shifts):
                same.append(pair)
    return slower, same, unresponsive


class Latency(QueueFault):
    """The `latency` nemesis."""

    name = "latency"
    taxdc = "timing"
    doc = "delays what nodes send to one another, in one or both directions"
    faults: tuple[str, ...] = ("N08",)
    counter = "delayed"
    options: Mapping[str, Option] = {
        "delay_ms": Option(
            type=float,
            default=100.0,
            least=1,
            most=60_000,
            help="how much later each packet arrives",
        ),
        "jitter_ms": Option(
            type=float, default=10.0, least=0, most=60_000, help="up to so much more or less"
        ),
        **QueueFault.options,
    }

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """Delay and jitter. ConfigError where they are out of range."""
        delay_ms, jitter_ms = float(options["delay_ms"]), float(options["jitter_ms"])
        check_range(options, "delay_ms", MS_MIN, MS_MAX)
        if not 0 <= jitter_ms <= delay_ms:
            raise ConfigError(
                f"-o jitter_ms={jitter_ms:g}: from 0 to delay_ms ({delay_ms:g})",
                remedy="a smaller -o jitter_ms, or a greater -o delay_ms",
            )
        return {"delay_ms": delay_ms, "jitter_ms": jitter_ms}

    def settings(self, record: LandingRecord) -> dict[str, int]:
        facts = record.facts
        return {
            "delay_us": round(facts["delay_ms"] * 1000),
            "jitter_us": round(facts["jitter_ms"] * 1000),
        }

    def netem_words(self, record: LandingRecord) -> Mapping[str, Any]:
        """With a rate, however high, netem keeps packets in their order."""
        facts = record.facts
        jitter = {"delay.jitter": facts["jitter_ms"] / 1000} if facts["jitter_ms"] else {}
        rate = {"rate.rate": NETEM_RATE_BYTES}
        return {"delay.delay": facts["delay_ms"] / 1000, **jitter, **rate}

    def doubts(self, record: LandingRecord, done: Mapping[str, Sender]) -> list[str]:
        delay_ms, jitter_ms = record.facts["delay_ms"], record.facts["jitter_ms"]
        found = (waits(path, row, delay_ms, jitter_ms) for path, row in done.items())
        return [why for why in found if why]

    async def probe(self, ctx: NemesisContext, token: str) -> Reached:
        longest_ms = 2 * (float(ctx.options["delay_ms"]) + float(ctx.options["jitter_ms"]))
        found = await probes.round_trips(
            nodes_of(ctx),
            token,
            count=ECHOES,
            spacing_ms=ECHO_SPACING_MS,
            wait_s=0.5 + 1.5 * longest_ms / 1000,
        )
        return {path_name(path): result for path, result in found.items()}

    def impaired_paths(self, record: LandingRecord, reach: Reached) -> Iterable[str]:
        slow_us = OTHERS_MAX * record.facts["delay_ms"] * 1000
        before = record.facts["probe_before"]
        _, same, _ = slow_pairs(before, reach, reach, dict.fromkeys(reach, slow_us))
        return [pair for pair in reach if pair not in same]

    def patience_s(self, record: LandingRecord) -> float:
        return LANDING_DEADLINE_S + 4 * float(record.facts["delay_ms"]) / 1000

    def victim(self, record: LandingRecord, reach: Reached, moved: Mapping[str, int]) -> Signal:
        cuts, before = record.facts["cuts"], record.facts["probe_before"]
        least_us = {
            p: SHIFT_MIN * _directions(p, cuts) * record.facts["delay_ms"] * 1000 for p in cuts
        }
        slower, _, unresponsive = slow_pairs(before, reach, cuts, least_us)
        fast = [p for p in cuts if p not in slower and p not in unresponsive]
        problems = [f"no round trip on {', '.join(unresponsive)}"] if unresponsive else []
        if fast:
            problems.append(f"not slower, or not enough: {', '.join(fast)}")
        shifts = [reach[p][0] - before[p][0] for p in slower]
        return Signal(
            signal="median round trip of our datagrams in microseconds (IPv4, IPv6)",
            before={p: before[p] for p in cuts},
            during={p: list(reach[p]) for p in cuts},
            moved=bool(cuts) and not problems,
            detail="; ".join(problems)
            or f"round trips are {min(shifts) / 1000:.0f} to {max(shifts) / 1000:.0f} ms longer",
        )

    def control(self, record: LandingRecord, reach: Reached) -> Signal:
        cuts, before = record.facts["cuts"], record.facts["probe_before"]
        others = [p for p in reach if not _directions(p, cuts)]
        slow_us = OTHERS_MAX * record.facts["delay_ms"] * 1000
        _, same, _ = slow_pairs(before, reach, others, dict.fromkeys(others, slow_us))
        hit = [p for p in others if p not in same]
        detail = "untouched" if others else "no pair was left out"
        return Signal(
            signal="median round trip between the other pairs in microseconds",
            before={p: before[p] for p in others},
            during={p: list(reach[p]) for p in others},
            moved=bool(hit),
            detail=f"hit as well: {', '.join(hit)}" if hit else detail,
        )


NEMESIS = Latency()
