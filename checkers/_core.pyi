"""C core of the checkers; checkers/csrc/lin.h says what the columns hold."""

from checkers._columns import I32, I64, U8

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
