"""Histories judged from a test, no cluster needed. Apart from `plugin.py`, which pytest imports
wherever dstest is installed, and which therefore imports nothing of this."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dstest.core.check import NAMELESS, CheckResult
from dstest.core.errors import HistoryError
from dstest.core.processes import check_answer
from dstest.core.run_words import option_words

if TYPE_CHECKING:
    from dstest.core.history import History


class Checks:
    """The function that the fixture `dstest_check` gives."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self._root = root
        self._scratch = scratch
        self._written = 0

    def __call__(
        self,
        history: History | Path | str,
        *,
        workload: str | None = None,
        models: Sequence[str] = (),
        options: dict[str, Any] | None = None,
        expect: str = "valid",
    ) -> list[CheckResult]:
        """The answers, by `dstest check`, for each of the models, or for what the history says of
        itself. Fails the test where one of them is not as expected: `unknown` is not `valid`.

        `history` is a `History`, a file in any notation that `dstest check` reads, or a run
        directory; `expect` is `valid` or `violation`. `valid` is no finished run without a pass, a
        `violation` is an anomaly that was found among operations that were judged.
        """
        __tracebackhide__ = True
        if expect not in ("valid", "violation"):
            raise ValueError(f"expect={expect!r}: valid or violation")
        if isinstance(models, str):
            raise TypeError("models are several: models=['register']")
        try:
            path = self._file(history)
        except HistoryError as error:
            pytest.fail(str(error), pytrace=False)
        words = [] if workload is None else ["--workload", workload]
        words += option_words(options)
        asked = [["--model", model] for model in models] or [[]]
        results = [self._answer(path, [*words, *model]) for model in asked]
        as_expected = _is_valid if expect == "valid" else _is_violation
        for result in results:
            if not as_expected(result):
                pytest.fail(_unexpected(path, result, expect), pytrace=False)
        return results

    def _file(self, history: History | Path | str) -> Path:
        if isinstance(history, str | Path):
            return Path(history).absolute()
        from dstest.history.jsonl import write_exact

        self._written += 1
        path = self._scratch / f"dstest-check-{self._written}.jsonl"
        write_exact(path, history.header, history.ops)
        return path

    def _answer(self, path: Path, words: Sequence[str]) -> CheckResult:
        __tracebackhide__ = True
        try:
            return check_answer(path, words, self._root)
        except HistoryError as error:
            refused = error.message
        pytest.fail(refused, pytrace=False)


def _is_valid(result: CheckResult) -> bool:
    return result.valid is True and not result.of_a_run_without_a_pass


def _is_violation(result: CheckResult) -> bool:
    """Has the checker that was asked named what is wrong, in operations that it judged?"""
    return result.valid is False and bool(result.kinds - {NAMELESS}) and result.ops.consumed > 0


def _unexpected(path: Path, result: CheckResult, expect: str) -> str:
    said = {True: "valid", False: "a violation", "unknown": "unknown"}[result.valid]
    by = " by ".join(filter(None, [result.checker, result.model]))
    lines = [f"{path}: {said} ({by}), and {expect} was expected"]
    if result.valid is False and expect == "violation":
        lines.append(f"it names no anomaly in the {result.ops.consumed} operations that it judged")
    if result.of_a_run_without_a_pass:
        lines.append(f"its history alone: {path / 'history.jsonl'}")
    lines += [result.reason] if result.reason else []
    for kind, group in result.anomalies.items():
        lines += [f"{kind}: {anomaly.explanation}" for anomaly in group[:3]]
    return "\n".join(lines)
