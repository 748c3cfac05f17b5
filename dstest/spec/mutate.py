"""Mutants of a model: do its invariants notice when a rule is gone or another?

Operators, after DeMillo, Lipton and Sayward, "Hints on Test Data Selection" (1978): a guard is
dropped, a guard is negated, an update is dropped (the action changes nothing), and in the text of
guards and updates, found in the file that they stand in, a number is one larger, a comparison takes
in its limit or no longer does, `all` is `any`, `min` is `max`, and what was sorted is not.

And the first commit under which a command fails, by halves, each in a worktree of its own
(`first_bad`): exit code 0 is good, 125 cannot be told, anything else up to 127 bad.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import linecache
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.explore import explore
from dstest.spec.model import Action, Guard, Model, bound, show

Fate = Literal["killed", "survived", "undecided", "error"]

_LIMITS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}

_CALLS = {"all": "any", "any": "all", "min": "max", "max": "min"}

SKIP = 125
MOST = 127

Answer = Literal["good", "bad", "skipped"]


@lru_cache(maxsize=64)
def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def function_of(function: Callable[..., Any]) -> ast.Lambda | ast.FunctionDef | None:
    """Where it is written; None where no source is at hand."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    tree = _tree("".join(linecache.getlines(code.co_filename)))
    if tree is None:
        return None
    begins = min((at for at in _positions(code)), default=None)
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>":
            inside = (node.body.lineno, node.body.col_offset) == begins
            if node.lineno == code.co_firstlineno and (inside or _alone(tree, node)):
                return node
        elif isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return None


def _positions(code: Any) -> list[tuple[int, int]]:
    return [
        (line, column)
        for line, _, column, end in code.co_positions()
        if line is not None and column is not None and end
    ]


def _alone(tree: ast.Module, wanted: ast.Lambda) -> bool:
    here = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and n.lineno == wanted.lineno]
    return len(here) == 1


def expression_of(function: Callable[..., Any]) -> ast.expr | None:
    """What it returns, where that is all that it does."""
    node = function_of(function)
    if isinstance(node, ast.Lambda):
        return node.body
    body = [] if node is None else [n for n in node.body if not _is_text(n)]
    if len(body) == 1 and isinstance(body[0], ast.Return):
        return body[0].value
    return None


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def text_of(function: Callable[..., Any]) -> str:
    """As it is written, on one line; empty where no source is at hand."""
    found = expression_of(function) or function_of(function)
    return "" if found is None else " ".join(ast.unparse(found).split())


def fields_named(function: Callable[..., Any]) -> set[str]:
    """The attributes that it reads."""
    node = function_of(function)
    found = ast.walk(node) if node is not None else ()
    return {one.attr for one in found if isinstance(one, ast.Attribute)}


def operands(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, str]:
    """What is compared in it and what that is: `{"s.term": "3", "term": "2"}`.

    `given` are the values of its parameters. What cannot be evaluated is left out: it may lie
    behind a condition that does not hold.
    """
    found = expression_of(function)
    if found is None:
        return {}
    names = {**function.__globals__, **_enclosed(function), **given}
    said: dict[str, str] = {}
    for node in _compared(found):
        if isinstance(node, ast.Constant):
            continue
        try:
            value = eval(compile(ast.Expression(node), "operand", "eval"), names)
        except Exception:  # a half that is guarded by the other one
            continue
        said[ast.unparse(node)] = show(value)
    return said


def _enclosed(function: Callable[..., Any]) -> dict[str, Any]:
    return dict(inspect.getclosurevars(function).nonlocals)


def _compared(found: ast.expr) -> list[ast.expr]:
    """The sides of comparisons, and what is true or false by itself; none from inside a
    comprehension, whose names are its own."""
    match found:
        case ast.BoolOp(values=values):
            return [one for value in values for one in _compared(value)]
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _compared(inner)
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case _:
            return [found]


class Mutant(msgspec.Struct, frozen=True):
    """`what` says which place was changed into what, `place` where that is: `LINE:COLUMN` from 1,
    empty for a guard or an update as a whole."""

    operator: str
    action: str
    what: str
    model: Model
    place: str = ""


class MutantResult(msgspec.Struct, frozen=True, kw_only=True):
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
) -> list[MutantResult]:
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


def _judge(model: Model, mutant: Mutant, max_states: int, deadlock: bool) -> MutantResult:
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
    return MutantResult(
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


def _limit(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _LIMITS:
        ops = [_LIMITS[type(node.ops[0])](), *node.ops[1:]]
        return ast.Compare(node.left, ops, node.comparators)
    return None


def _number(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.Constant(node.value + 1)
    return None


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


class Trial(msgspec.Struct, frozen=True):
    """One run of the command."""

    commit: str
    answer: Answer
    code: int


class Bisection(msgspec.Struct, frozen=True, kw_only=True):
    """`suspects` is the first bad commit alone, or with those before it that could not be told.
    `tried` begins with the two ends."""

    suspects: tuple[str, ...]
    tried: tuple[Trial, ...]


def first_bad(
    repository: Path,
    good: str,
    bad: str,
    command: Sequence[str],
    *,
    timeout_s: float = 600.0,
    on_tried: Callable[[Trial], None] = lambda _: None,
) -> Bisection:
    """`good` is before `bad`; merges are followed as `git bisect` follows them.

    Raises ConfigError where they are no commits in this order, or are not good and bad, or the
    command cannot be run.
    """
    names = [_git(repository, "rev-parse", "--verify", f"{one}^{{commit}}") for one in (good, bad)]
    good, bad = (one.strip() for one in names)
    if not _git(repository, "rev-list", "--ancestry-path", f"{good}..{bad}").split():
        raise ConfigError(
            f"{bad[:12]} does not come after {good[:12]}",
            remedy="the good commit first, then the bad one",
        )
    tried = list[Trial]()
    ends: tuple[tuple[str, Answer], ...] = ((good, "good"), (bad, "bad"))
    for commit, wanted in ends:
        tried.append(_end(repository, commit, wanted, command, timeout_s))
        on_tried(tried[-1])
    goods, skipped = [good], set[str]()
    while True:
        rows = _git(repository, "rev-list", "--bisect-all", bad, *(f"^{one}" for one in goods))
        open_ = [row.split()[0] for row in rows.splitlines()]
        left = [one for one in open_ if one != bad and one not in skipped]
        if not left:
            return Bisection(suspects=tuple(reversed(open_)), tried=tuple(tried))
        one = _try(repository, left[0], command, timeout_s)
        tried.append(one)
        on_tried(one)
        if one.answer == "good":
            goods.append(one.commit)
        elif one.answer == "bad":
            bad = one.commit
        else:
            skipped.add(one.commit)


def _end(
    repository: Path, commit: str, wanted: Answer, command: Sequence[str], timeout_s: float
) -> Trial:
    """What is said to be good or bad is asked first. Raises ConfigError where it is not."""
    one = _try(repository, commit, command, timeout_s)
    if one.answer != wanted:
        raise ConfigError(
            f"{commit[:12]} is {one.answer} (the command ended with {one.code}), not {wanted}",
            remedy="a commit under which the command passes, and one under which it fails",
        )
    return one


def _git(repository: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(repository), *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ConfigError(
            f"git {words[0]}: {done.stderr.strip().splitlines()[-1:]}",
            remedy="names of commits of this repository",
        )
    return done.stdout


def _ended(command: Sequence[str], tree: Path, timeout_s: float) -> int:
    """Its exit code; with all that it has started it is ended where it takes too long."""
    process = subprocess.Popen(
        list(command),
        cwd=tree,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return SKIP
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _try(repository: Path, commit: str, command: Sequence[str], timeout_s: float) -> Trial:
    with tempfile.TemporaryDirectory(prefix="dstest-bisect-") as place:
        tree = Path(place) / "tree"
        _git(repository, "worktree", "add", "--detach", "--quiet", str(tree), commit)
        try:
            code = _ended(command, tree, timeout_s)
        except OSError as error:
            raise ConfigError(
                f"{command[0]}: {error.strerror}", remedy="a command that can be run in the tree"
            ) from None
        finally:
            _git(repository, "worktree", "remove", "--force", str(tree))
    if code < 0 or code > MOST:
        raise ConfigError(
            f"{command[0]} ended with {code} at {commit[:12]}",
            remedy="0 for good, 125 where it cannot be told, anything else up to 127 for bad",
        )
    answer: Answer = "good" if code == 0 else "skipped" if code == SKIP else "bad"
    return Trial(commit, answer, code)
