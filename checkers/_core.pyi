"""C core of the checkers; checkers/csrc/lin/lin.h says what the columns hold."""

from collections.abc import Callable
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkers.columns import I32, I64, U8

U32 = NDArray[np.uint32]

class Array:
    """A buffer, read-only."""

def check_automaton(
    class_: I32,
    invoke: I64,
    complete: I64,
    offsets: I64,
    pure: U8,
    lo: I64,
    hi: I64,
    delta: I64,
    verdict: U8,
    bad: I64,
    prefix: I64,
    steps: I64,
    states: I64,
    n_found: I64,
    stop: I32,
    initial: I64,
    ask: Callable[[int, int], tuple[int, ...]] | None,
    time_ns: int,
    memory_bytes: int,
    steps_max: int,
    /,
) -> None: ...
def encode_registers(
    ops: list[Any],
    key_ids: dict[Any, int],
    new_key: Callable[[Any], int],
    value_ids: dict[Any, int],
    new_value: Callable[[Any], int],
    key: I32,
    kind: U8,
    a: I32,
    b: I32,
    invoke: I64,
    complete: I64,
    cas: bool,
    /,
) -> None: ...
def read_sessions(
    text: bytes | bytearray | memoryview | mmap, format: int, memory_bytes: int, /
) -> tuple[Any, ...]: ...
def reduce_registers(
    kind: U8,
    a: I32,
    b: I32,
    invoke: I64,
    complete: I64,
    stays: U8,
    stop: I32,
    n_values: int,
    initial: int,
    time_ns: int,
    memory_bytes: int,
    steps_max: int,
    checks_max: int,
    /,
) -> bool: ...
def chains(
    kind: U8,
    a: I32,
    b: I32,
    invoke: I64,
    complete: I64,
    offsets: I64,
    verdict: U8,
    stop: I32,
    n_values: int,
    memory_bytes: int,
    /,
) -> None: ...
def exit_guard(status: int, /) -> None: ...
def monitor(
    kind: U8,
    value: I32,
    invoke: I64,
    complete: I64,
    offsets: I64,
    verdict: U8,
    stop: I32,
    n_values: int,
    model: int,
    memory_bytes: int,
    /,
) -> None: ...
def check_order(
    call: tuple[Any, ...], slack: int, read: I64, first: I64, write: I64, /
) -> tuple[int, bytes, int, bytes, bytes, bytes, int, int, int, int, int, int]: ...
def check_registers(
    kind: U8,
    a: I32,
    b: I32,
    invoke: I64,
    complete: I64,
    offsets: I64,
    verdict: U8,
    bad: I64,
    prefix: I64,
    steps: I64,
    states: I32,
    stop: I32,
    n_values: int,
    initial: int,
    time_ns: int,
    memory_bytes: int,
    steps_max: int,
    exact_states: bool,
    /,
) -> None: ...
def check_isolation(
    call: tuple[Any, ...], first: I32, then: I32, /
) -> tuple[int, bytes, bytes, bytes, int, int, int, int, int]: ...
def check_transactions(
    outcome: U8,
    process: I64,
    invoke_pos: I64,
    complete_pos: I64,
    mop_start: I64,
    mop_kind: U8,
    mop_key: I32,
    mop_value: I32,
    mop_known: U8,
    elem_start: I64,
    elem: I32,
    order: I64,
    value_hash: U32,
    stop: I32,
    n_keys: int,
    n_values: int,
    n_processes: int,
    n_positions: int,
    workload: int,
    between: int,
    sources: int,
    time_ns: int,
    memory_bytes: int,
    /,
) -> tuple[int, bytes, bytes, bytes, int, int, int, int, int]: ...
def place_sessions(*rows: Any) -> tuple[Any, ...]: ...
def read_history(
    text: bytes | bytearray | memoryview | mmap, format: int, threads: int, memory_bytes: int, /
) -> tuple[Array | bytes | int, ...]: ...
def read_operations(
    text: bytes | bytearray | memoryview | mmap, threads: int, memory_bytes: int, /
) -> tuple[bytes, ...]: ...

class Stream:
    """A capsule; see csrc/stream/stream.h."""

def stream_open(memory_bytes: int, window_bytes: int, /) -> Stream: ...
def stream_feed(
    stream: Stream, lines: bytes, time_ns: int, stop: I32, /
) -> tuple[int, str | None, int, int]: ...
def stream_report(
    stream: Stream, /
) -> tuple[
    int,
    int,
    int,
    int,
    int,
    int,
    int,
    int,
    int,
    int,
    tuple[int, int, int],
    list[int | str | bool | None],
]: ...
def stream_select(stream: Stream, lines: bytes, n: int, first: bool, /) -> bytes | None: ...
