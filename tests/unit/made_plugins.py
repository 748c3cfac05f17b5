"""Files of plug-ins for tests: whole ones, of which a test changes a line."""

from __future__ import annotations

from typing import Any, TypeVar

P = TypeVar("P")

OPTIONED = "from dstest.core.protocols import Option\n"

WORKLOAD = '''\
"""A workload that fits etcd."""

from dstest.core.check import Fields
from dstest.core.protocols import Option, Workload
from workloads.register import REGISTER

REGISTER_OPTIONS = {key: option.default for key, option in REGISTER.options.items()}


class Mine(Workload):
    name, doc, capability, model = "mine", "a test", "register", "register"
    op_types = frozenset({"read", "write"})
    checkers = ("linearizable",)
    claims = frozenset({"safety"})
    fields = Fields()
    minimum = {"read": 30}
    options = {}

    def generator(self, seed, worker, processes, options):
        return REGISTER.generator(seed, worker, processes, {**REGISTER_OPTIONS, **options})


WORKLOAD = Mine()
'''

NEMESIS = """\
from dstest.core.protocols import Option, When
from nemeses.none import NoNemesis


class Mine(NoNemesis):
    name = "mine"


NEMESIS = Mine()
"""

CHECKER = """\
from dstest.core.protocols import Checker, Option


class Mine(Checker):
    name, kind, models = "mine", "model", ("strict",)

    def check(self, history, model, budget): ...


CHECKER = Mine()
"""


def declaring(base: type[P], **said: Any) -> P:
    """A plug-in of this kind that says these things, and no more."""
    made: P = type(base.__name__, (base,), said)()
    return made


def with_line(text: str, line: str) -> str:
    """The file with one more line at the end of its class `Mine` or `Toy`."""
    before, word, after = text.rpartition("\n\n\n")
    return f"{before}\n    {line}{word}{after}"
