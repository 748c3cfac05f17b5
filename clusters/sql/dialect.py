"""What SQL databases do not say alike."""

from __future__ import annotations

import msgspec


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """Statements with `?` where a value goes, and `{table}` where the table does.

    `put` writes a value whether the key is there or not, `append` puts one behind a comma, `add`
    adds a number. `text` is the type of long texts, `sequence` makes one of numbers, and
    `next_id` asks for one that nobody else gets; `version` asks for the server's, `time_us` for its
    clock in microseconds since 1970, `marks` how many indexes are named `dstest_mark…`.
    """

    put: str
    append: str
    add: str
    text: str
    next_id: str
    sequence: str
    version: str
    time_us: str
    marks: str
