"""The pages over HTTP, for who is on this machine: only GET and HEAD, and nothing is ever written.

A page of somebody else's in the same browser must not read them: the Host header has to be one of
our names, no other origin is allowed and none of theirs may frame one. What lies in a run is text,
but for its report.html, which is shown as it was summed up, without an origin and unable to ask
anything.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from io import BytesIO
from typing import IO, Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.web import Application, HTTPError, RequestHandler

from dstest.core.errors import ConfigError
from dstest.serve.files import REPORT, Report, open_below
from dstest.serve.live import live_of
from dstest.serve.pages import REPORT_POLICY, TEXT_POLICY
from dstest.serve.views import Views
from dstest.store.index import Index
from dstest.store.inventory import StorePlace
from dstest.store.query import query_of, unparsed

_CHUNK: Final = 256 * 1024
T = TypeVar("T")


def is_loopback(host: str) -> bool:
    """Is this an address, or the usual name of one, that nobody else reaches?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_of(host: str) -> frozenset[str]:
    """The names by which we may be asked, where we listen at `host`. Addresses as such are always
    ours: nobody makes one point elsewhere."""
    own = {socket.gethostname(), socket.getfqdn()} if not is_loopback(host) else set()
    return frozenset(name.lower() for name in {"localhost", host, *own} if name)


def _is_ours(header: str, names: frozenset[str]) -> bool:
    """Is the Host header one of an address, or of these names?"""
    name = header.strip().lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.rstrip(".") in names
    return True


class _Turns:
    """How much is done in threads at a time. What reads whole histories has turns of its own, so
    that two which take minutes hold up nothing but a third one, and memory has a bound."""

    def __init__(self) -> None:
        self.short = asyncio.Semaphore(2)
        self.long = asyncio.Semaphore(2)


class _Page(RequestHandler):
    """Answers with a page. Reading many files is done in a thread, where there is a turn for it."""

    def initialize(self, views: Views, names: frozenset[str], turns: _Turns) -> None:
        self.views = views
        self.names = names
        self.turns = turns

    def set_default_headers(self) -> None:
        self.set_header("Server", "dstest")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("X-Frame-Options", "DENY")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Cross-Origin-Opener-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Security-Policy", TEXT_POLICY)

    def prepare(self) -> None:
        if not _is_ours(self.request.headers.get("Host", ""), self.names):
            self.set_status(421)
            self.text(
                "dstest serve: this name is not one of this server's; ask for localhost, or for "
                "the address by its numbers\n"
            )

    def head(self, *given: str) -> Awaitable[None] | None:
        answer: Awaitable[None] | None = self.get(*given)
        return answer

    def text(self, text: str) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(text)

    def page(self, text: str | None) -> None:
        if text is None:
            raise HTTPError(404)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        policy = f"{self.views.pages.policy}; frame-ancestors 'none'"
        self.set_header("Content-Security-Policy", policy)
        self.finish(text.encode("utf-8", errors="replace"))

    async def aside(self, work: Callable[[], T], *, long: bool = False) -> T:
        """`long`: it may read whole histories."""
        async with self.turns.long if long else self.turns.short:
            return await asyncio.get_running_loop().run_in_executor(None, work)

    def asked(self) -> dict[str, str]:
        """The first value of each word of the address."""
        found = self.request.query_arguments
        return {name: values[0].decode(errors="replace") for name, values in found.items()}

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        told = {
            404: (
                "There is no such page",
                "The run may be gone; the list has those that are here.",
            ),
            405: ("Nothing can be changed here", "Only GET and HEAD are answered."),
        }
        usual = ("That did not work", f"The answer is {status_code}.")
        title, text = told.get(status_code, usual)
        self.page(self.views.error(self.request.path.lstrip("/"), title, text))


class _Runs(_Page):
    def get(self, *_: str) -> None:
        given = self.asked()
        self.page(self.views.runs(query_of(given), unparsed(given)))


class _Named(_Page):
    """A page without further words."""

    def get(self, name: str) -> None:
        makes = {
            "triage": self.views.triage,
            "trends": self.views.trends,
            "live": self.views.live,
            "groups": self.views.groups,
        }
        self.page(makes[name]())


class _Cell(_Page):
    def get(self, name: str) -> None:
        self.page(self.views.cell(f"trends/{name}"))


class _Pair(_Page):
    async def get(self) -> None:
        given = self.request.query_arguments.get("run", [])
        refs = [one.decode(errors="replace") for one in given]
        if len(refs) != 2:
            self.set_status(400)
            said = f"Tick two runs in the list, not {len(refs)}, and ask again."
            self.page(self.views.error("pair.html", "Two runs, please", said))
            return
        self.page(await self.aside(partial(self.views.pair, refs[0], refs[1]), long=True))


class _Live(_Page):
    """What a run says while it runs, as JSON."""

    def get(self) -> None:
        place = self.views.shown.places.get(self.asked().get("run", ""))
        if place is None or place.kind != "run":
            raise HTTPError(404)
        self.set_header("Content-Type", "application/json")
        self.finish(msgspec.json.encode(live_of(place)))


class _Run(_Page):
    """The page of a run, its report, its files and those beside it."""

    async def get(self, path: str) -> None:
        parts = [unquote_to_bytes(part).decode(errors="replace") for part in path.split("/")]
        ref = "/".join(parts[:-1])
        if parts[-1] == "index.html":
            hashed = self.asked().get("hash") == "all"
            self.page(await self.aside(partial(self.views.run, ref, hashed=hashed), long=hashed))
        elif parts[-1] == REPORT and ref in self.views.shown.rows:
            await self._report(ref)
        else:
            await self._file(parts)

    async def _report(self, ref: str) -> None:
        """Only where the run stands, and the page is as it was summed up."""
        place = self.views.shown.places[ref]
        report = await self.aside(partial(_report_of, self.views, place))
        if report.why:
            self.set_status(409)
            title = "This report is not shown"
            told = f"{place.path}: {report.why}."
            self.page(self.views.error(f"run/{ref}/{REPORT}", title, told))
            return
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Security-Policy", REPORT_POLICY)
        self.set_header("X-Frame-Options", "SAMEORIGIN")
        await self._send(BytesIO(report.content))

    async def _file(self, parts: Sequence[str]) -> None:
        """As text, whatever it is."""
        if not _belongs(self.views, parts):
            raise HTTPError(404)
        file = open_below(self.views.index.store, parts)
        if file is None:
            raise HTTPError(404)
        start = file.read(4096)
        file.seek(0)
        binary = b"\0" in start
        kind = "application/octet-stream" if binary else "text/plain; charset=utf-8"
        self.set_header("Content-Type", kind)
        if binary:
            self.set_header("Content-Disposition", "attachment")
        await self._send(file)

    async def _send(self, file: IO[bytes]) -> None:
        with file:
            if self.request.method == "HEAD":
                return
            while chunk := file.read(_CHUNK):
                self.write(chunk)
                try:
                    await self.flush()
                except StreamClosedError:
                    return


def _report_of(views: Views, place: StorePlace) -> Report:
    """Asked of the files as they are now."""
    return views.report(views.read(place))


def _belongs(views: Views, parts: Sequence[str]) -> bool:
    """Is this below a run, or a directory that is kept beside one?"""
    shown = views.shown
    for end in range(1, len(parts)):
        ref = "/".join(parts[:end])
        if ref in shown.rows:
            return True
        run, dot, suffix = ref.rpartition(".")
        if dot and run in shown.rows and f"{parts[end - 1]}" in shown.rows[run].asides:
            return bool(suffix)
    return False


def application(index: Index, host: str) -> Application:
    """What answers, where we listen at `host`."""
    views = Views(index, static=False)
    given = {"views": views, "names": names_of(host), "turns": _Turns()}
    return Application(
        [
            (r"/(?:index\.html)?", _Runs, given),
            (r"/(triage|trends|live|groups)\.html", _Named, given),
            (r"/trends/([A-Za-z0-9\-]+\.html)", _Cell, given),
            (r"/pair\.html", _Pair, given),
            (r"/live\.json", _Live, given),
            (r"/run/(.+)", _Run, given),
        ],
        default_handler_class=_Missing,
        default_handler_args=given,
        compress_response=False,
        log_function=lambda handler: None,
    )


class _Missing(_Page):
    def get(self) -> None:
        raise HTTPError(404)


class Listening(NamedTuple):
    """Where the pages are."""

    host: str
    port: int

    @property
    def url(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/"


def serve(index: Index, host: str, port: int, ready: Callable[[Listening], None]) -> None:
    """Until SIGINT or SIGTERM. Raises ConfigError where nobody can listen there."""
    bound = _bound(host, port)
    # What a client did wrong is told to the client.
    logging.getLogger("tornado").setLevel(logging.CRITICAL)
    asyncio.run(_serve(index, host, bound, ready))


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family, backlog=128)
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"cannot listen at {host or 'no address'} port {port}: "
            f"{getattr(error, 'strerror', None) or error}",
            remedy="--port 0 takes any that is free; --host wants an address of this machine",
        ) from None
    made.setblocking(False)
    return made


async def _serve(
    index: Index, host: str, bound: socket.socket, ready: Callable[[Listening], None]
) -> None:
    server = HTTPServer(application(index, host), max_buffer_size=1 << 20, no_keep_alive=False)
    server.add_socket(bound)
    end, stop = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    follower = threading.Thread(target=index.follow, args=(stop,), name="index", daemon=True)
    follower.start()
    try:
        ready(Listening(host, bound.getsockname()[1]))
        await end.wait()
    finally:
        stop.set()
        server.stop()
        await server.close_all_connections()
        follower.join(timeout=5)
