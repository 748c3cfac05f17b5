"""The models by name. `semaphore` needs the option `permits` (the history's header has it)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from checkers.lin.containers import Deque, FifoQueue, Log, PriorityQueue, Set, Stack
from checkers.lin.locks import FencingLock, Mutex, ReentrantMutex, Semaphore
from checkers.lin.model import Model
from checkers.lin.values import Counter, KvMap, MultiRegister, Register

__all__ = ["MODELS", "OP_TYPES", "REGISTERS", "STARTS", "make"]

REGISTERS: Final = ("register", "cas-register")

_MAKERS: Final[dict[str, Callable[[Mapping[str, Any]], Model]]] = {
    "multi-register": lambda _: MultiRegister(),
    "kv-map": lambda _: KvMap(),
    "mutex": lambda _: Mutex(),
    "reentrant-mutex": lambda _: ReentrantMutex(),
    "fencing-lock": lambda _: FencingLock(),
    "semaphore": lambda options: Semaphore(options.get("permits", 0)),
    "fifo-queue": lambda _: FifoQueue(),
    "priority-queue": lambda _: PriorityQueue(),
    "stack": lambda _: Stack(),
    "deque": lambda _: Deque(),
    "set": lambda _: Set(),
    "counter": lambda _: Counter(),
    "log": lambda _: Log(),
    "register": lambda _: Register(),
    "cas-register": lambda _: Register(),
}

MODELS: Final = (*REGISTERS, *(name for name in _MAKERS if name not in REGISTERS))


_CLASSES: Final[tuple[type[Model], ...]] = (
    *(MultiRegister, KvMap, Mutex, ReentrantMutex, FencingLock, Semaphore, FifoQueue),
    *(PriorityQueue, Stack, Deque, Set, Counter, Log, Register),
)
OP_TYPES: Final = {
    "register": frozenset({"read", "write"}),
    **{model.name: frozenset(model.op_types) for model in _CLASSES},
}
"""The operations that each model knows."""

STARTS: Final = {"register": Register.starts, **{model.name: model.starts for model in _CLASSES}}
"""What the initial state of each model is given as."""


def make(name: str, options: Mapping[str, Any]) -> Model:
    """The model called `name`. Raises KeyError for an unknown one, ValueError where an option that
    it needs is missing or wrong."""
    return _MAKERS[name](options)
