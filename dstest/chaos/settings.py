"""`chaos.toml`: what is asked, which faults stand in front of what, and when all is over."""

from __future__ import annotations

import ipaddress
import math
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from dstest.chaos.http1 import Upstream, upstream_of
from dstest.chaos.records import Profile
from dstest.core.errors import ConfigError
from dstest.core.settings import Shape, read_settings

Whole = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, float) and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} = {value}: a number from 0 on")


class Endpoint(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request of the load, and which answer to it is a success."""

    path: str
    method: Annotated[str, msgspec.Meta(pattern="^[A-Z]{3,10}$")] = "GET"
    body: str = ""
    headers: dict[str, str] = {}
    status: tuple[Annotated[int, msgspec.Meta(ge=200, le=599)], ...] = (200, 201, 202, 204)
    json_keys: tuple[str, ...] = ()
    """The answer is a JSON object that has these keys."""

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or not self.path.isascii() or " " in self.path:
            raise ValueError(f"a path of {self.path!r}: it begins with / and has no spaces")
        for name, value in self.headers.items():
            if any(sign in name + value for sign in "\r\n") or not (name + value).isascii():
                raise ValueError(f"the header {name!r} has a line end, or is not ASCII")

    @property
    def name(self) -> str:
        return f"{self.method} {self.path.partition('?')[0]}"


class ProxyAt(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A proxy. The one whose upstream is the target is in front of the service: the load goes
    through it. Others are in front of what the service needs, which must be told to come here."""

    name: Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9-]{0,30}$")]
    upstream: str
    listen: str = "127.0.0.1:0"
    routes: tuple[str, ...] = ()
    """`GET /items/*` is one endpoint of that name, in logs and for the draw of faults."""
    faults: Profile = Profile()


class Load(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An open loop: requests are due at fixed times, however slow the answers are."""

    rate: Annotated[float, msgspec.Meta(gt=0, le=100_000)] = 50.0
    """Requests a second, of all endpoints together."""
    requests: Whole = 200
    """Of each endpoint, while faults stand."""
    timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 5.0
    in_flight: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 256
    """More wait, and their latency counts from when they were due."""
    quiet_s: Annotated[float, msgspec.Meta(ge=1)] = 3.0
    """Load without faults, before and after: what is usual, and what stays broken."""
    min_entries: Whole = 100
    deadline_s: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    """After so long it goes on with what there is, and says that it is not all."""


class Ramp(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares of requests that meet a fault, one step after the other until the service breaks."""

    steps: tuple[Annotated[float, msgspec.Meta(gt=0, le=1)], ...] = ()
    step_s: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    rest_s: Annotated[float, msgspec.Meta(gt=0)] = 5.0
    """Without faults after each step: how long it takes to recover."""
    failures: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.05
    """It is broken where more than this share of requests that no fault hit fails (the lower end of
    its 95 % interval), or as `slower` says."""
    slower: Annotated[float, msgspec.Meta(gt=1)] = 3.0
    """... or where their p95 is more than so many times what it was without faults."""

    def __post_init__(self) -> None:
        if list(self.steps) != sorted(set(self.steps)):
            raise ValueError("the steps of a ramp rise")


class Service(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command that starts the service once the proxies listen, where it does not run already.
    `{proxy.NAME}` in `environment` is the address of a proxy, `http://127.0.0.1:PORT`."""

    command: tuple[str, ...]
    environment: dict[str, str] = {}
    ready_s: Annotated[float, msgspec.Meta(gt=0)] = 30.0
    source: str = ""
    """Where its source is: tracebacks are followed into it. Never changed."""
    log: str = ""
    """What it writes itself; the output of `command` is kept anyway."""


class Settings(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of `chaos.toml`."""

    target: str
    endpoint: tuple[Endpoint, ...]
    proxy: tuple[ProxyAt, ...] = ()
    load: Load = Load()
    ramp: Ramp = Ramp()
    service: Service | None = None
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    allow_hosts: tuple[str, ...] = ()
    """Hosts other than this one that may be asked and disturbed."""

    @property
    def front(self) -> ProxyAt | None:
        """The proxy that the load goes through."""
        target = upstream_of(self.target)
        return next((one for one in self.proxy if upstream_of(one.upstream) == target), None)


_SHAPE: Final = Shape(
    {
        "": Settings,
        "endpoint": Endpoint,
        "proxy": ProxyAt,
        "proxy.faults": Profile,
        "load": Load,
        "ramp": Ramp,
        "service": Service,
    },
    "docs/chaos.md",
)


def read_chaos(path: Path) -> Settings:
    """What a file says. Raises ConfigError with the line of whatever is wrong in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", remedy="see docs/chaos.md") from None
    settings = read_settings(str(path), text, Settings, _SHAPE)
    _checked(settings, str(path))
    return settings


def _checked(settings: Settings, name: str) -> None:
    def refuse(what: str, remedy: str) -> Any:
        raise ConfigError(f"{name}: {what}", remedy=remedy)

    if not settings.endpoint:
        refuse("there is no endpoint", '[[endpoint]] path = "/orders"')
    for kind, names in (
        ("endpoints", [one.name for one in settings.endpoint]),
        ("proxies", [one.name for one in settings.proxy]),
    ):
        if twice := {one for one in names if names.count(one) > 1}:
            refuse(f"two {kind} are called {min(twice)!r}", "a name for each")
    target = upstream_of(settings.target)
    if sum(upstream_of(one.upstream) == target for one in settings.proxy) > 1:
        refuse("two proxies stand in front of the target", "one of them")
    if settings.ramp.steps and not any(one.faults.share for one in settings.proxy):
        refuse("a ramp has no faults to make more of", "[proxy.faults] error = 0.1")
    places = [target, *(upstream_of(one.upstream) for one in settings.proxy)]
    places += [listening(one) for one in settings.proxy]
    heard = [place for place in map(listening, settings.proxy) if place.port]
    asked = [target, *(upstream_of(one.upstream) for one in settings.proxy)]
    if loop := next((place for place in heard if place in asked or heard.count(place) > 1), None):
        refuse(f"{loop.address} is listened at and asked, or listened at twice", "another port")
    for place in places:
        _own(place, settings.allow_hosts, refuse)


def listening(proxy: ProxyAt) -> Upstream:
    """Where a proxy listens. Port 0 takes a free one."""
    host, colon, port = proxy.listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{proxy.listen!r} is no place to listen at", remedy="127.0.0.1:9001")
    return Upstream(host.strip("[]"), int(port))


def _own(place: Upstream, allowed: tuple[str, ...], refuse: Any) -> None:
    """Faults and load go to this machine, unless somebody says by name that another is theirs."""
    if place.host == "localhost" or place.host in allowed:
        return
    try:
        if ipaddress.ip_address(place.host).is_loopback:
            return
    except ValueError:
        pass
    refuse(
        f"{place.host} is not this machine",
        f'allow_hosts = ["{place.host}"], where it is yours to load and disturb',
    )
