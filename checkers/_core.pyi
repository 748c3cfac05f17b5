"""C core of the checkers; checkers/csrc/lin.h says what the columns hold."""

from typing import Final

from typing_extensions import Buffer

def check_registers(
    kind: Buffer,
    a: Buffer,
    b: Buffer,
    invoke: Buffer,
    complete: Buffer,
    offsets: Buffer,
    verdict: Buffer,
    bad: Buffer,
    prefix: Buffer,
    steps: Buffer,
    states: Buffer,
    stop: Buffer,
    n_values: int,
    initial: int,
    time_ns: int,
    memory_bytes: int,
    steps_max: int,
    exact_states: bool,
    /,
) -> None: ...
