"""Invariants that were made weaker are flagged, each way of it; harmless changes are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from dstest.core.errors import ConfigError
from dstest.spec.waivers import Waiver, open_ones, read_waivers
from dstest.spec.weaker import weakenings

BEFORE = '''
IGNORED = {"ping"}
LIMIT_S = 5.0

class Log(Spec):
    ignores = frozenset({"status"})

    @action(n=(1, 2))
    @when("room", lambda s, n: len(s.log) < 3)
    def append(self, s, n):
        return replace(s, log=(*s.log, n))

    @invariant("L1", "all have what is committed")
    def durable(self, s):
        """Of each node."""
        need = s.committed
        return all(len(node.log) >= need for node in s.nodes)

    @invariant("L2", "terms never go back", kind="action")
    def terms(self, before, step, after):
        return after.term > before.term and after.term < 100

    @invariant("L3", "one leader")
    def leader(self, s):
        return len(s.leaders) <= 1
'''

WEAKER = {
    "removed": ('    @invariant("L3", "one leader")\n', ""),
    "renamed": ('"L3"', '"L33"'),
    "always true": ("return len(s.leaders) <= 1", "return True or len(s.leaders) <= 1"),
    "all became any": ("return all(", "return any("),
    "comparison loosened": ("after.term > before.term", "after.term >= before.term"),
    "threshold moved": ("len(s.leaders) <= 1", "len(s.leaders) <= 2"),
    "new or": ("len(s.leaders) <= 1", "len(s.leaders) <= 1 or s.healing"),
    "narrowed": (
        "        need = s.committed\n",
        "        need = s.committed\n        if s.healing:\n            return True\n",
    ),
    "exclusions grown": ('{"status"}', '{"status", "write"}'),
    "kind weakened": ('"one leader")', '"one leader", kind="sometimes")'),
    "guard added": (
        "    def append(",
        '    @when("calm", lambda s: not s.healing)\n    def append(',
    ),
}

MORE = {
    "a name of excuses": ('{"ping"}', '{"ping", "pong"}', "exclusions grown"),
    "a constant": ("LIMIT_S = 5.0", "LIMIT_S = 50.0", "threshold moved"),
    "a filter": ("for node in s.nodes)", "for node in s.nodes if node.up)", "narrowed"),
    "another body": ("return len(s.leaders) <= 1", "return bool(s)", "cannot be compared"),
    "a tautology": ("len(s.leaders) <= 1", "s.leaders == s.leaders", "always true"),
}

HARMLESS = {
    "a local name": ("need", "wanted"),
    "layout": (
        "return all(len(node.log) >= need for node in s.nodes)",
        "return all(\n            len(node.log) >= need for node in s.nodes\n        )",
    ),
    "a docstring": ('"""Of each node."""', '"""Of each of the nodes, always."""'),
    "the state's name": (
        "def leader(self, s):\n        return len(s.leaders)",
        "def leader(self, state):\n        return len(state.leaders)",
    ),
    "the text": ('"one leader"', '"at most one leader"'),
    "the method's name": ("def leader(", "def one_leader("),
    "a new invariant": (
        '    @invariant("L3"',
        (
            '    @invariant("L4", "new")\n    def new(self, s):\n        return s.ok\n\n'
            '    @invariant("L3"'
        ),
    ),
}


def changed(old: str, new: str) -> str:
    assert old in BEFORE
    return BEFORE.replace(old, new)


@pytest.mark.parametrize("how", WEAKER)
def test_a_weakening_is_flagged_for_what_it_is(how: str) -> None:
    found = weakenings(BEFORE, changed(*WEAKER[how]))
    assert [one.how for one in found] == [how]


@pytest.mark.parametrize("what", MORE)
def test_others_are_too(what: str) -> None:
    old, new, how = MORE[what]
    assert how in [one.how for one in weakenings(BEFORE, changed(old, new))]


@pytest.mark.parametrize("what", HARMLESS)
def test_a_harmless_change_is_not(what: str) -> None:
    assert weakenings(BEFORE, changed(*HARMLESS[what])) == []


def test_the_way_back_is_no_weakening() -> None:
    for how in ("all became any", "comparison loosened", "new or", "narrowed", "guard added"):
        found = {one.how for one in weakenings(changed(*WEAKER[how]), BEFORE)}
        assert found <= {"cannot be compared"}, how


def test_a_waiver_quotes_and_names(tmp_path: Path) -> None:
    found = weakenings(BEFORE, changed(*WEAKER["narrowed"]))
    file = tmp_path / "w.toml"
    good = 'id = "L1"\nhow = "narrowed"\nrequirement = "durable when healed"\napprover = "Ada"\n'
    file.write_text(f"[[waiver]]\n{good}")
    waivers = read_waivers(file)
    assert open_ones(found, waivers) == []
    other = Waiver(id="L2", how="narrowed", requirement="x", approver="y")
    assert open_ones(found, [other]) == found
    for bad in (good.replace("durable when healed", " "), good.replace("Ada", "")):
        file.write_text(f"[[waiver]]\n{bad}")
        with pytest.raises(ConfigError, match="quotes no requirement, or names nobody"):
            read_waivers(file)
    file.write_text("[[waivers]]\n")
    with pytest.raises(ConfigError, match="waivers"):
        read_waivers(file)
