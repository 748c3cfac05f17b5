"""Invariants that were made weaker are flagged, each way of it; harmless changes are not."""

from __future__ import annotations

import pytest

from dstest.spec.weaker import weakenings

pytestmark = pytest.mark.slow

BEFORE = '''
from dataclasses import dataclass, replace

from dstest.spec import Spec, action, invariant, when

IGNORED = {"ping"}
NAMES = ["a"]
COSTS = {"a": 1}
SKIP = frozenset({"x"})
MODE = "strict"
STRICT = True
LOWEST = -1
LIMIT = 5


def quiet(s):
    return len(s.waiting) <= 3


@dataclass(frozen=True)
class State:
    log: tuple = ()


class Log(Spec):
    ignores = frozenset({"status"})
    clients = (1, 2)

    def initial(self):
        yield State()
        yield State(log=(0,))

    def done(self, s):
        return len(s.log) == 3

    def canonical(self, s):
        return replace(s, log=tuple(sorted(s.log)))

    def caught_up(self, s, node):
        return len(node.log) >= s.committed

    @action(n=lambda self: self.clients)
    @when("room", lambda s, n: len(s.log) < 3)
    def append(self, s, n):
        return replace(s, log=(*s.log, n))

    @action(k=(1, 2))
    def drop(self, s, k):
        return replace(s, log=s.log[k:])

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

    @invariant("L4", "nobody waits for long")
    def waits(self, s):
        return quiet(s) and all(self.caught_up(s, node) for node in s.nodes)

    @invariant("L5", "few hold it")
    def few(self, s):
        return len(s.holders) <= LIMIT and len(s.lost) == 0

    @invariant("L6", "names are known")
    def known(self, s):
        known = set(NAMES) | set(COSTS) | SKIP | IGNORED
        return (MODE == "strict") == STRICT and s.least >= LOWEST and s.names <= known
'''

WEAKER = {
    "removed": ('    @invariant("L3", "one leader")\n', ""),
    "renamed": ('"L3"', '"L33"'),
    "text changed": ('"one leader"', '"at most some leaders"'),
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

LEADER = '    @invariant("L3", "one leader")\n    def leader(self, s):\n'
END_ = "        return len(s.leaders) <= 1\n"

MORE = {
    "guard false": ("lambda s, n: len(s.log) < 3", "lambda s, n: False"),
    "guard gone": ('    @when("room", lambda s, n: len(s.log) < 3)\n', ""),
    "first guard": ("    def drop(", '    @when("never", lambda s: False)\n    def drop('),
    "action deleted": (
        (
            "    @action(k=(1, 2))\n    def drop(self, s, k):\n"
            "        return replace(s, log=s.log[k:])\n"
        ),
        "",
    ),
    "action undecorated": ("    @action(k=(1, 2))\n", ""),
    "weight": ("@action(k=(1, 2))", "@action(k=(1, 2), weight=0)"),
    "update": ("return replace(s, log=(*s.log, n))", "return s"),
    "domain emptied": ("@action(k=(1, 2))", "@action(k=())"),
    "fewer clients": ("clients = (1, 2)", "clients = (1,)"),
    "fewer initial states": ("        yield State(log=(0,))\n", ""),
    "done": ("return len(s.log) == 3", "return True"),
    "canonical": ("return replace(s, log=tuple(sorted(s.log)))", "return State()"),
    "helper method": ("return len(node.log) >= s.committed", "return True"),
    "helper function": ("return len(s.waiting) <= 3", "return True"),
    "cached": (LEADER, LEADER.replace("    def", "    @cache\n    def")),
    "static": (LEADER, LEADER.replace("    def", "    @staticmethod\n    def")),
    "overridden": (END_, f"{END_}\n    def leader(self, s):\n        return False\n"),
    "aside": (END_, f"{END_}\n    terms = None\n"),
    "no Spec": ("class Log(Spec)", "class Log"),
    "shadowed": ("IGNORED =", "def invariant(*a):\n    return lambda f: f\n\n\nIGNORED ="),
    "shadowed by an import": (
        "import Spec, action, invariant",
        "import Spec, action, when as invariant",
    ),
    "kind by name": ('"one leader")', '"one leader", kind=MODE)'),
    "kind by sum": ('"one leader")', '"one leader", kind="some" + "times")'),
    "list replaced": ('["a"]', '["b", "c"]'),
    "dict grows": ('{"a": 1}', '{"a": 1, "b": 2}'),
    "names added": ('MODE = "strict"', 'SKIP |= {"y"}\nMODE = "strict"'),
    "limit added to": ("LIMIT = 5\n", "LIMIT = 5\nLIMIT += 5\n"),
    "limit infinite": ("LIMIT = 5", 'LIMIT = float("inf")'),
    "limit a sum": ("LIMIT = 5", "LIMIT = 1 + 5"),
    "limit higher": ("LIMIT = 5", "LIMIT = 50"),
    "limit lower, and or": ("LIMIT = 5", "LIMIT = 4\nor_ = print()"),
    "negative": ("LOWEST = -1", "LOWEST = -9"),
    "bool": ("STRICT = True", "STRICT = False"),
    "string": ('MODE = "strict"', 'MODE = "lax"'),
    "name of excuses": ('{"ping"}', '{"ping", "pong"}'),
    "filter": (
        "for node in s.nodes)\n\n    @invariant",
        "for node in s.nodes if node.up)\n\n    @invariant",
    ),
    "another body": ("return len(s.leaders) <= 1", "return bool(s)"),
    "tautology": ("len(s.leaders) <= 1", "s.leaders == s.leaders"),
    "set afterwards": ("class Log(Spec)", "State.ok = True\n\n\nclass Log(Spec)"),
    "set with others": ("STRICT = True", "STRICT = True\nLIMIT, X = 9, 1"),
    "set with another": ("STRICT = True", "STRICT = True\nX = LIMIT = 9"),
    "annotation that acts": (
        "def leader(self, s)",
        "def leader(self, s) -> NAMES.append(1)",
    ),
    "conjunct that binds": (
        "return len(s.leaders) <= 1",
        "return [0 for self.clients in ((),)] and len(s.leaders) <= 1",
    ),
    "new invariant that binds": (
        '    @invariant("L3"',
        (
            '    @invariant("L7", "x")\n    def fresh(self, s):\n        self.clients = ()\n'
            '        return True\n\n    @invariant("L3"'
        ),
    ),
    "new invariant that adds": (
        '    @invariant("L3"',
        (
            '    @invariant("L7", "x")\n    def fresh(self, s):\n        NAMES.append(s)\n'
            '        return True\n\n    @invariant("L3"'
        ),
    ),
    "loop": ("class Log(Spec)", "for one in ():\n    print(one)\n\n\nclass Log(Spec)"),
    "builtin shadowed": ("IGNORED =", "def all(_):\n    return True\n\n\nIGNORED ="),
    "hook added": (
        "    def initial(",
        "    def model(self):\n        return None\n\n    def initial(",
    ),
    "conjunct that acts": (
        "return len(s.leaders) <= 1",
        "return (s := s.but()) and len(s.leaders) <= 1",
    ),
    "conjunct that calls": (
        "return len(s.leaders) <= 1",
        "return s.forget() and len(s.leaders) <= 1",
    ),
    "negated": ("return len(s.leaders) <= 1", "return not (len(s.leaders) < 1 and s.ok)"),
    "method hides another": (
        '    @invariant("L3"',
        '    @invariant("L7", "x")\n    def few(self, s):\n        return 1\n\n    @invariant("L3"',
    ),
    "field of the state": ("    log: tuple = ()", "    log: tuple = ()\n    seen: int = 0"),
    "equality": (
        "log: tuple = ()",
        "log: tuple = ()\n\n    def __eq__(self, other):\n        return True",
    ),
}

HARMLESS = {
    "a local name": ("need", "wanted"),
    "layout": (
        "return all(len(node.log) >= need for node in s.nodes)",
        "return all(\n            len(node.log) >= need for node in s.nodes\n        )",
    ),
    "a docstring": ('"""Of each node."""', '"""Of each of the nodes, always."""'),
    "a comment": ("return len(s.leaders) <= 1", "return len(s.leaders) <= 1  # always"),
    "the state's name": (
        "def leader(self, s):\n        return len(s.leaders)",
        "def leader(self, state):\n        return len(state.leaders)",
    ),
    "a comprehension's name": (
        "len(node.log) >= need for node in s.nodes",
        "len(one.log) >= need for one in s.nodes",
    ),
    "the method's name": ("def leader(", "def one_leader("),
    "a new invariant": (
        '    @invariant("L3"',
        (
            '    @invariant("L7", "new")\n    def fresh(self, s):\n        '
            "return all(self.caught_up(s, n) for n in s.nodes)\n\n"
            '    @invariant("L3"'
        ),
    ),
    "a new import and constant": (
        "IGNORED =",
        "import math\n\nMOST = math.pi\nLEAST = 3\n\nIGNORED =",
    ),
    "annotations": ("def leader(self, s):", "def leader(self, s: State) -> bool:"),
    "order": ("LOWEST = -1\nLIMIT = 5\n", "LIMIT = 5\nLOWEST = -1\n"),
    "sides swapped": ("len(s.leaders) <= 1", "1 >= len(s.leaders)"),
    "sides of a guard swapped": ("lambda s, n: len(s.log) < 3", "lambda s, n: 3 > len(s.log)"),
    "equal sides swapped": ("len(s.lost) == 0", "0 == len(s.lost)"),
    "another import": ("from dataclasses", "import math\nfrom dataclasses"),
}

STRONGER = {
    "a conjunct": ("return len(s.leaders) <= 1", "return len(s.leaders) <= 1 and s.term > 0"),
    "a conjunct before": (
        "return len(s.leaders) <= 1",
        "return s.term > 0 and len(s.leaders) <= 1",
    ),
    "a stricter comparison": ("len(s.leaders) <= 1", "len(s.leaders) < 1"),
    "equality": ("len(s.leaders) <= 1", "len(s.leaders) == 1"),
    "a lower threshold": ("len(s.leaders) <= 1", "len(s.leaders) <= 0"),
    "a lower limit": ("LIMIT = 5", "LIMIT = 4"),
    "more clients": ("clients = (1, 2)", "clients = (1, 2, 3)"),
    "a wider domain": ("@action(k=(1, 2))", "@action(k=(1, 2, 3))"),
    "inside of all": ("all(len(node.log) >= need for", "all(len(node.log) >= need and node.ok for"),
    "said in full": ('"one leader")', 'text="one leader", kind="state")'),
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
    assert weakenings(BEFORE, changed(*MORE[what])) != []


@pytest.mark.parametrize("what", HARMLESS)
def test_a_harmless_change_is_not(what: str) -> None:
    assert weakenings(BEFORE, changed(*HARMLESS[what])) == []


@pytest.mark.parametrize("what", STRONGER)
def test_a_stronger_one_is_not(what: str) -> None:
    assert weakenings(BEFORE, changed(*STRONGER[what])) == []


@pytest.mark.parametrize("what", sorted(set(STRONGER) - {"said in full"}))
def test_the_way_back_is(what: str) -> None:
    assert weakenings(changed(*STRONGER[what]), BEFORE) != []


def test_a_domain_that_grows_is_flagged_where_more_steps_can_make_something_true() -> None:
    asked = BEFORE.replace('"one leader")', '"one leader", kind="liveness")')
    assert weakenings(asked, asked.replace("clients = (1, 2)", "clients = (1, 2, 3)")) != []


def test_a_kind_may_only_ask_more() -> None:
    kinds = ("sometimes", "liveness", "state")
    texts = [BEFORE.replace('"one leader")', f'"one leader", kind="{k}")') for k in kinds]
    for more, less in ((1, 0), (2, 1), (2, 0)):
        assert weakenings(texts[less], texts[more]) == []
        assert [one.how for one in weakenings(texts[more], texts[less])] == ["kind weakened"]


def test_what_a_predicate_depends_on_is_flagged_with_its_id() -> None:
    [found] = weakenings(BEFORE, changed("return len(s.waiting) <= 3", "return True"))
    assert (found.id, found.how, found.reaches) == ("quiet", "always true", ("L4",))
    [found] = weakenings(BEFORE, changed('MODE = "strict"', 'MODE = "lax"'))
    assert (found.id, found.how, found.reaches) == ("MODE", "changed", ("L6",))


def test_a_method_that_calls_what_is_unknown_may_be_renamed() -> None:
    old = BEFORE.replace("return len(s.leaders) <= 1", "return s.leaders.fit()")
    assert weakenings(old, old.replace("def leader(", "def one_leader(")) == []


def test_what_could_be_read_once_is_not_read_before() -> None:
    old = BEFORE.replace(
        "return len(s.leaders) <= 1", "each = (n for n in s.x)\n        return all(each)"
    )
    new = old.replace("return all(each)", "return sum(each) >= 0 and all(each)")
    assert [one.id for one in weakenings(old, new)] == ["L3"]


def test_the_digest_is_of_this_change() -> None:
    one, other = (
        weakenings(BEFORE, changed("len(s.leaders) <= 1", f"len(s.leaders) <= {n}"))[0]
        for n in (2, 3)
    )
    assert (one.id, one.how) == (other.id, other.how)
    assert one.change != other.change
