"""What a violation means in a sentence, for the JSON of `dstest check`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dstest.core.errors import DstestError

if TYPE_CHECKING:
    from dstest.core.check import CheckResult
    from dstest.core.op import Op


def headline_in(
    result: CheckResult, file: Path, format_: str, independent: bool | None
) -> str | None:
    """None where nothing was found wrong. Where the answer is bad only because the run is, it is
    the sentence of the run."""
    if result.valid is not False:
        return None
    from dstest.report.headline import headline_of, headline_of_result

    if file.is_dir() and not any(result.anomalies.values()):
        from dstest.report.model import load_report

        return headline_of(load_report(file))
    history = file / "history.jsonl" if file.is_dir() else file

    def ops() -> Sequence[Op]:
        from dstest.store.importers import load_history

        try:
            return load_history(history, format_, independent=independent).ops
        except (DstestError, OSError):
            return ()  # what is no file of operations was judged otherwise

    return headline_of_result(result, _system(history), ops) or None


def with_headline(result: CheckResult, said: str | None) -> dict[str, Any]:
    """The answer as an object, with its sentence; null where there is none."""
    import msgspec

    return {**msgspec.to_builtins(result), "headline": said or None}


def _system(history: Path) -> str:
    """As the history says; empty where it does not."""
    from dstest.store.jsonl import read_header

    try:
        header = read_header(history)
    except (DstestError, OSError, ValueError):
        return ""
    return " ".join(part for part in (header.system, header.system_version) if part)
