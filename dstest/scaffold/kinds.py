"""What `dstest new` can write: a kind is two files of `templates`, a word for it, and commands."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["KINDS", "Kind"]


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of plug-in. Its templates are `my_<name>.py` and `test_my_<name>.py`.

    `group` is its group in the registry. `commands` are what one would do next with the file,
    `{file}` in them.
    """

    name: str
    group: str
    commands: tuple[str, ...]


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind(
            name="system",
            group="systems",
            commands=(
                "dstest run --system {file} --workload register --nemesis none",
                "dstest run --system {file} --workload register --nemesis kill",
            ),
        ),
        Kind(
            name="workload",
            group="workloads",
            commands=("dstest run --workload {file} --nemesis none",),
        ),
        Kind(
            name="nemesis",
            group="nemeses",
            commands=("dstest run --workload register --nemesis {file}",),
        ),
        Kind(
            name="checker",
            group="checkers",
            commands=(
                "dstest generate --workload register -o history.jsonl",
                "dstest check --checker {file} history.jsonl",
            ),
        ),
    )
}
