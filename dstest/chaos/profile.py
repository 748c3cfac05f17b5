"""Which fault a request meets, drawn from a seed.

The n-th request of an endpoint at a proxy meets the same fault in each run of a seed, however
requests of other endpoints lie between.
"""

from __future__ import annotations

import math
import random
from typing import Annotated, Final, Literal

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.rng import stream

Kind = Literal["delay", "error", "reset", "drop", "blackhole"]
KINDS: Final[tuple[Kind, ...]] = ("delay", "error", "reset", "drop", "blackhole")

Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often each fault comes. The shares are of all requests that the profile is for, and add
    up to 1 at most: a request meets one fault or none.

    delay      the request is forwarded after `delay_low_s` to `delay_high_s`, drawn evenly
    error      `error_status` is answered, and nothing is forwarded
    reset      the connection is reset (TCP RST), and nothing is forwarded
    drop       the connection is closed without an answer, and nothing is forwarded
    blackhole  nothing is answered while the client waits, and nothing is forwarded
    """

    delay: Share = 0.0
    delay_low_s: float = 0.1
    delay_high_s: float = 2.0
    error: Share = 0.0
    error_status: Annotated[int, msgspec.Meta(ge=400, le=599)] = 500
    reset: Share = 0.0
    drop: Share = 0.0
    blackhole: Share = 0.0
    only: tuple[str, ...] = ()
    """`GET /orders`, as endpoints are named; all that pass the proxy where it is empty."""

    def __post_init__(self) -> None:
        low, high = self.delay_low_s, self.delay_high_s
        if not (math.isfinite(low) and math.isfinite(high) and 0 <= low <= high):
            raise ValueError(f"a delay of {low} to {high} s: it begins at 0 and does not shrink")
        if self.share > 1 + 1e-9:
            raise ValueError(f"the shares of faults add up to {self.share:.3g}, more than 1")

    @property
    def share(self) -> float:
        """Of requests that meet a fault."""
        return math.fsum(getattr(self, kind) for kind in KINDS)

    def scaled(self, share: float) -> Profile:
        """The same mixture of kinds, so often that `share` of all requests meet a fault.

        Raises ConfigError where the profile has no fault at all.
        """
        if self.share <= 0:
            raise ConfigError(
                "a ramp needs faults to scale, and the profile has none",
                remedy="name one, as [proxy.faults] error = 0.1",
            )
        factor = share / self.share
        shares = {kind: min(1.0, getattr(self, kind) * factor) for kind in KINDS}
        return msgspec.structs.replace(self, **shares)


class Drawn(msgspec.Struct, frozen=True):
    """A fault that was drawn. `delay_s` is 0 of all but a delay."""

    kind: Kind
    delay_s: float = 0.0


class Faults:
    """Draws for each request of one proxy, in the order in which they came to each endpoint."""

    def __init__(self, profile: Profile, seed: int, proxy: str) -> None:
        self.profile = profile
        self._seed = seed
        self._proxy = proxy
        self._streams: dict[str, random.Random] = {}

    def draw(self, endpoint: str) -> Drawn | None:
        """What the next request of an endpoint meets; None where it is let through."""
        profile = self.profile
        if profile.only and endpoint not in profile.only:
            return None
        found = self._streams.get(endpoint)
        if found is None:
            found = self._streams[endpoint] = stream(self._seed, "chaos", self._proxy, endpoint)
        point, length = found.random(), found.random()  # both, so that no draw shifts the next
        for kind in KINDS:
            point -= getattr(profile, kind)
            if point < 0:
                low, high = profile.delay_low_s, profile.delay_high_s
                return Drawn(kind, low + (high - low) * length if kind == "delay" else 0.0)
        return None
