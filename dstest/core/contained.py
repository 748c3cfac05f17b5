"""Plug-ins and libraries that end the process: an error of theirs, and no exit code of ours.

asyncio lets SystemExit of any task end the whole loop, clean-up and all. `contained` makes tasks
that turn it into an error which ends a run as others do. `ends_by_us_alone` is for what does not
even raise it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, NoReturn

from dstest.core.errors import Exit, HarnessError
from dstest.core.plugin_files import said_of

if TYPE_CHECKING:
    import asyncio


def ends_by_us_alone() -> None:
    """From here on `os._exit` in this process raises SystemExit, as `sys.exit` does. Processes that
    are forked from it end as ever."""
    own, at_once = os.getpid(), os._exit

    def ended(status: int) -> NoReturn:
        if os.getpid() != own:
            at_once(status)
        if threading.current_thread() is not threading.main_thread():
            # Nobody above a thread would hear of it, and what has given up must not go on.
            sys.stderr.write(f"dstest: a library ended the process with {status} in a thread\n")
            at_once(int(Exit.HARNESS))
        raise SystemExit(status)

    os._exit = ended


def quit_by(end: BaseException) -> HarnessError:
    """The error that it is for us where a plug-in wanted to end the process."""
    return HarnessError(
        f"{said_of(end)}: a plug-in tried to end dstest", remedy="raise another exception there"
    )


def contained(
    loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    **more: Any,
) -> asyncio.Task[Any]:  # fmt: skip
    """A factory of tasks, for `loop.set_task_factory`."""
    import asyncio

    return asyncio.Task(_Contained(coro), loop=loop, **more)


class _Contained(Coroutine[Any, Any, Any]):
    """A coroutine that raises HarnessError in place of SystemExit."""

    def __init__(self, inner: Coroutine[Any, Any, Any] | Generator[Any, None, Any]) -> None:
        self._inner = inner

    def send(self, value: Any) -> Any:
        try:
            return self._inner.send(value)
        except SystemExit as end:
            raise quit_by(end) from end

    def throw(self, *error: Any) -> Any:
        try:
            return self._inner.throw(*error)
        except SystemExit as end:
            raise quit_by(end) from end

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        import asyncio

        return (yield from asyncio.ensure_future(self))
