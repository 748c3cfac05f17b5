"""Mutants of a model: do its invariants notice when a rule is gone or another?

Operators, after DeMillo, Lipton and Sayward, "Hints on Test Data Selection" (1978): a guard is
dropped, a guard is negated, an update is dropped (the action changes nothing), and in the text of
guards and updates a number is one larger, a comparison takes in its limit or no longer does, `all`
is `any`, `min` is `max`, and what was sorted is not.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.explore import explore
from dstest.spec.expressions import expression_of, fields_named, function_of
from dstest.spec.model import Action, Guard, Model, bound

Fate = Literal["killed", "survived", "undecided", "error"]


class Mutant(msgspec.Struct, frozen=True):
    """`what` says which place was changed into what, `place` where that is: `LINE:COLUMN` from 1,
    empty for a guard or an update as a whole."""

    operator: str
    action: str
    what: str
    model: Model
    place: str = ""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """`by` is the invariant that noticed, or `deadlock`.

    `undecided`: the bound ended the search. `error`: the mutant goes wrong, for which no invariant
    is needed; nobody knows whether one would have noticed. `nearest` are invariants that read the
    fields which the place reads too, for a mutant that survived. `never_taken`: no step of the
    model itself is one of this action, so that nothing can be noticed of it.
    """

    operator: str
    action: str
    what: str
    fate: Fate
    by: str | None = None
    nearest: tuple[str, ...] = ()
    place: str = ""
    never_taken: bool = False


def mutants(model: Model) -> Iterator[Mutant]:
    """All of them, in the order of the actions."""
    for action in model.actions:
        for guard in action.guards:
            others = tuple(g for g in action.guards if g is not guard)
            yield _with(model, action, "drop-guard", guard.label, guards=others)
            negated = msgspec.structs.replace(guard, holds=_negated(guard))
            guards = tuple(negated if g is guard else g for g in action.guards)
            yield _with(model, action, "negate-guard", guard.label, guards=guards)
            yield from _of_guard(model, action, guard)
        if not all(map(_changes_nothing, action.sources)):
            yield _with(model, action, "drop-update", action.name, update=lambda s, a: s)
        yield from _of_update(model, action)


def campaign(
    model: Model,
    *,
    max_states: int = 100_000,
    deadlock: bool = True,
) -> list[Judged]:
    """Each mutant explored. Raises ConfigError where the model itself does not hold: then nothing
    is learned from its mutants."""
    itself = explore(model, max_states=max_states, deadlock=deadlock)
    if itself.outcome not in ("holds", "bounded"):
        raise ConfigError(
            f"{model.name} is {itself.outcome} as it is, so a mutant proves nothing",
            remedy="dstest spec explore, first",
        )
    untaken = set(itself.never_taken)
    return [
        msgspec.structs.replace(
            _judge(model, mutant, max_states, deadlock),
            place=mutant.place,
            never_taken=mutant.action in untaken,
        )
        for mutant in mutants(model)
    ]


def _changes_nothing(update: Callable[..., Any]) -> bool:
    """Does it return the state that it was given?"""
    said = expression_of(update)
    return isinstance(said, ast.Name) and said.id == "s"


def _judge(model: Model, mutant: Mutant, max_states: int, deadlock: bool) -> Judged:
    fate: Fate = "survived"
    by = None
    try:
        seen = explore(mutant.model, max_states=max_states, deadlock=deadlock)
    except ConfigError as error:
        fate, by = "error", error.message
    else:
        if seen.violations:
            fate, by = "killed", seen.violations[0].id
        elif not seen.complete:
            fate = "undecided"
    return Judged(
        operator=mutant.operator,
        action=mutant.action,
        what=mutant.what,
        fate=fate,
        by=by,
        nearest=_nearest(model, mutant.action) if fate == "survived" else (),
    )


def _nearest(model: Model, name: str) -> tuple[str, ...]:
    """Invariants by how many fields they share with the action, the most first."""
    action = model.action(name)
    mine: set[str] = set()
    for function in (*action.sources, *(g.source for g in action.guards)):
        mine |= fields_named(function)
    shared = [(len(mine & fields_named(one.source)), one.id) for one in model.invariants]
    return tuple(id_ for common, id_ in sorted(shared, key=lambda row: -row[0]) if common)


def _with(
    model: Model, action: Action, operator: str, what: str, place: str = "", **changes: Any
) -> Mutant:
    new = msgspec.structs.replace(action, **changes)
    actions = tuple(new if one is action else one for one in model.actions)
    changed = msgspec.structs.replace(model, actions=actions)
    return Mutant(operator, action.name, what, changed, place)


def _negated(guard: Guard) -> Callable[[Any, Any], bool]:
    return lambda s, a: not guard.asked(s, a)


def _of_guard(model: Model, action: Action, guard: Guard) -> Iterator[Mutant]:
    if guard.level != "system":
        return  # a part's function sees the part: it is a mutant of that part's own model
    for operator, what, place, function in _rewritten(guard.source):
        holds = bound(model.spec, function, action.params, f"a mutant of {guard.label}")
        changed = msgspec.structs.replace(guard, holds=holds)
        guards = tuple(changed if g is guard else g for g in action.guards)
        yield _with(model, action, operator, f"{guard.label}: {what}", place, guards=guards)


def _of_update(model: Model, action: Action) -> Iterator[Mutant]:
    if len(action.sources) != 1 or getattr(model.spec, "parts", None):
        return
    for operator, what, place, function in _rewritten(action.sources[0]):
        update = bound(model.spec, function, action.params, f"a mutant of {action.name}")
        yield _with(model, action, operator, what, place, update=update)


def _rewritten(
    function: Callable[..., Any],
) -> Iterator[tuple[str, str, str, Callable[..., Any]]]:
    """(operator, what, where, function) for each place of its text."""
    node = copy.deepcopy(function_of(function))
    if node is None:
        return
    if isinstance(node, ast.FunctionDef):
        node.decorator_list = []  # its guards are mutants of their own
    for number, place in enumerate(list(ast.walk(node))):
        for operator, change in _CHANGES:
            if change(copy.deepcopy(place)) is None:
                continue
            tree = copy.deepcopy(node)
            old = list(ast.walk(tree))[number]
            before = ast.unparse(old)
            new = change(old)
            assert new is not None
            text = f"{before} -> {ast.unparse(new)}"
            where = f"{old.lineno}:{old.col_offset + 1}" if isinstance(old, ast.expr) else ""
            yield operator, text, where, _compiled(_Swap(old, new).visit(tree), function)


class _Swap(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else super().generic_visit(node)


def _compiled(tree: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """As it would be in its class: with what it has from there, `super()` and names of the class's
    own included."""
    owner = function.__qualname__.rpartition(".")[0].rpartition(".")[2]
    tree = _Mangled(owner).visit(copy.deepcopy(tree))
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    enclosed = {name: cell.cell_contents for name, cell in cells}
    body: list[ast.stmt] = [ast.Return(tree)]
    if isinstance(tree, ast.FunctionDef):
        body = [tree, ast.Return(ast.Name(tree.name, ast.Load()))]
    args = ast.arguments([], [ast.arg(name) for name in enclosed], None, [], [], None, [])
    maker = ast.FunctionDef("make", args, body, [])
    names = dict(function.__globals__)
    exec(compile(ast.fix_missing_locations(ast.Module([maker], [])), "mutant", "exec"), names)
    return names["make"](**enclosed)  # type: ignore[no-any-return]


class _Mangled(ast.NodeTransformer):
    """Names with two underscores in front, as a class has them."""

    def __init__(self, owner: str) -> None:
        self._owner = owner.lstrip("_")

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr.startswith("__") and not node.attr.endswith("__"):
            node.attr = f"_{self._owner}{node.attr}"
        return node


_LIMITS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}


def _limit(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _LIMITS:
        ops = [_LIMITS[type(node.ops[0])](), *node.ops[1:]]
        return ast.Compare(node.left, ops, node.comparators)
    return None


def _number(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.Constant(node.value + 1)
    return None


_CALLS = {"all": "any", "any": "all", "min": "max", "max": "min"}


def _call(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        return ast.Call(ast.Name(_CALLS[node.func.id], ast.Load()), node.args, node.keywords)
    return None


def _unsorted(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sorted":
        return ast.Call(ast.Name("list", ast.Load()), node.args[:1], [])
    return None


_CHANGES: tuple[tuple[str, Callable[[Any], ast.AST | None]], ...] = (
    ("limit", _limit),
    ("off-by-one", _number),
    ("quantifier", _call),
    ("skip-sort", _unsorted),
)
