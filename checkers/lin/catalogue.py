"""The models by name. `semaphore` needs the option `permits` (the history's header has it)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from checkers.lin.containers import Deque, FifoQueue, Log, PriorityQueue, Set, Stack
from checkers.lin.locks import FencingLock, Mutex, ReentrantMutex, Semaphore
from checkers.lin.model import Model
from checkers.lin.values import Counter, KvMap, MultiRegister, Register

REGISTERS: Final = ("register", "cas-register")


class _PlainRegister(Register):
    """A register without cas."""

    name = "register"
    op_types = ("read", "write")


_CLASSES: Final[tuple[type[Model], ...]] = (
    *(_PlainRegister, Register, MultiRegister, KvMap, Mutex, ReentrantMutex, FencingLock),
    *(Semaphore, FifoQueue, PriorityQueue, Stack, Deque, Set, Counter, Log),
)
_BY_NAME: Final = {model.name: model for model in _CLASSES}

MODELS: Final = tuple(_BY_NAME)

OP_TYPES: Final = {name: frozenset(model.op_types) for name, model in _BY_NAME.items()}
"""The operations that each model knows."""

STARTS: Final = {name: model.starts for name, model in _BY_NAME.items()}
"""What the initial state of each model is given as."""


def make(name: str, options: Mapping[str, Any]) -> Model:
    """The model called `name`. Raises KeyError for an unknown one, ConfigError where an option that
    it needs is missing or wrong."""
    return _BY_NAME[name].made(options)
