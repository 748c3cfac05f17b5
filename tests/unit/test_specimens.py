"""The checkers of dstest tell the specimens apart that they are tried on."""

from __future__ import annotations

import pytest

from dstest.core import registry
from dstest.core.check import Budget
from dstest.history.generator.true_histories import KINDS
from dstest.judge.checker_answers import ask_checker
from dstest.runner.blame_probes import specimens

pytestmark = pytest.mark.slow

MODELS = [("linearizable", model, "") for model in registry.load("checkers", "linearizable").models]
MODELS += [
    (workload, model, workload)
    for workload in ("list-append", "rw-register")
    for model in registry.load("checkers", workload).models
]
MODELS += sorted({(kind.checker, kind.model, "") for kind in KINDS.values()})


@pytest.mark.parametrize(("name", "model", "workload"), MODELS)
@pytest.mark.sampled(12)
def test_no_checker_of_ours_is_to_blame(name: str, model: str, workload: str) -> None:
    checker = registry.load("checkers", name)
    made = specimens(checker, model, workload, 7)
    assert made.right
    for history in made.right:
        assert ask_checker(checker, history, model, Budget()).valid in (True, "unknown")
    for what, history in made.wrong:
        assert ask_checker(checker, history, model, Budget()).valid in (False, "unknown"), what


def test_of_what_nobody_knows_there_are_none() -> None:
    checker = registry.load("checkers", "bank")
    assert specimens(checker, "my-own", "mine", 1) == ([], [])


def test_a_workload_that_shares_its_name_with_one_of_transactions() -> None:
    """A missed service level of single registers was tried on transactions, and crashed."""
    checker = registry.load("checkers", "slo")
    made = specimens(checker, "slo", "register", 1)
    for history in made.right:
        assert ask_checker(checker, history, "slo", Budget()).valid in (True, "unknown")
    for what, history in made.wrong:
        assert ask_checker(checker, history, "slo", Budget()).valid in (False, "unknown"), what
