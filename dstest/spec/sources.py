"""Files of Python, as they are or as a commit has them: a file of specifications taken apart, and
code in one form, whatever its layout: two that have the same form do the same.

Left out are docstrings and annotations of parameters. Local names are numbered, in forms that no
identifier can have; of a comparison, the sides have one order. Code that a new name could mean
something to (`locals`, nested functions, `match`) keeps its names.
"""

from __future__ import annotations

import ast
import copy
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.declare import Kind

_KEEPS: Final = (
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Delete,
    ast.ExceptHandler,
    ast.Global,
    ast.Import,
    ast.ImportFrom,
    ast.Match,
    ast.NamedExpr,
    ast.Nonlocal,
)
_LOOKS: Final = {"dir", "eval", "exec", "globals", "locals", "vars"}
_TURNED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def normal(node: ast.stmt, *, parameters: bool = False) -> ast.stmt:
    """A copy. With `parameters`, those of a function are numbered too: it is called by position."""
    node = copy.deepcopy(node)
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef | ast.ClassDef):
            one.body = bare(one) or [ast.Pass()]
    names: dict[str, str] = {}
    inner = [n for n in ast.walk(node) if n is not node]
    keeps = any(
        isinstance(n, (*_KEEPS, ast.FunctionDef)) or (isinstance(n, ast.Name) and n.id in _LOOKS)
        for n in inner
    )
    if isinstance(node, ast.FunctionDef):
        _without_annotations(node)
        if not keeps:
            names = _locals(node, parameters)
    return _Normal(names, not keeps).visit(node)  # type: ignore[no-any-return]


def text_of(node: ast.AST) -> str:
    """One line of Python."""
    return " ".join(ast.unparse(node).split())


def bare(node: ast.FunctionDef | ast.ClassDef) -> list[ast.stmt]:
    """The body without its docstring."""
    first = node.body[0]
    is_text = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return node.body[1:] if is_text else node.body


def callee_name(node: ast.expr) -> str:
    """The last name of what is called, or of what stands there uncalled."""
    function = node.func if isinstance(node, ast.Call) else node
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def identifiers(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Each name that is said in them, also as text, as often as it is said."""
    for top in nodes:
        for node in ast.walk(top):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                    yield name
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield name
                case ast.ClassDef(name=name) | ast.MatchAs(name=str(name)):
                    yield name
                case ast.keyword(arg=str(name)):
                    yield name
                case ast.alias(name=name, asname=other):
                    yield other or name.partition(".")[0]
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    yield from names
                case ast.Constant(value=str(text)) if text.isidentifier():
                    yield text


def _without_annotations(node: ast.FunctionDef) -> None:
    """But for those that do something when the function is defined."""
    if _only_names(node.returns):
        node.returns = None
    for one in ast.walk(node.args):
        if isinstance(one, ast.arg) and _only_names(one.annotation):
            one.annotation = None


def _only_names(annotation: ast.expr | None) -> bool:
    acts = (ast.Call, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.comprehension)
    return annotation is None or not any(isinstance(n, acts) for n in ast.walk(annotation))


def _locals(node: ast.FunctionDef, parameters: bool) -> dict[str, str]:
    given = [one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)]
    names = dict.fromkeys(given) if parameters else {}
    for part in node.body:
        names.update(dict.fromkeys(_stored(part)))
    return {
        name: f"%{number}"
        for number, name in enumerate(n for n in names if parameters or n not in given)
    }


def _stored(node: ast.AST) -> Iterator[str]:
    """Outside of comprehensions and lambdas, which have names of their own."""
    if isinstance(node, ast.comprehension | ast.Lambda):
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from _stored(child)


class _Normal(ast.NodeTransformer):
    def __init__(self, names: dict[str, str], renames: bool) -> None:
        self.scopes = [names]
        self.renames = renames

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """What stands outside of the body has no local names."""
        names, self.scopes[0] = self.scopes[0], {}
        node.decorator_list = [self.visit(one) for one in node.decorator_list]
        for one in ast.walk(node.args):
            if isinstance(one, ast.arg):
                one.arg = names.get(one.arg, one.arg)
        node.args.defaults = [self.visit(one) for one in node.args.defaults]
        self.scopes[0] = names
        node.body = [self.visit(one) for one in node.body]
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = next((s[node.id] for s in reversed(self.scopes) if node.id in s), node.id)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.args.defaults = [self.visit(one) for one in node.args.defaults]
        node.args.kw_defaults = [one and self.visit(one) for one in node.args.kw_defaults]
        given = [one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)]
        self.scopes.append({name: name for name in given})
        node.body = self.visit(node.body)
        self.scopes.pop()
        return node

    def _comprehension(self, node: Any) -> ast.AST:
        first = node.generators[0]
        first.iter = self.visit(first.iter)
        targets = [n for g in node.generators for n in ast.walk(g.target)]
        bound = dict.fromkeys(
            n.id for n in targets if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
        depth = len(self.scopes)
        names = {name: f"%{depth}.{number}" for number, name in enumerate(bound)}
        self.scopes.append(names if self.renames else {})
        for each in node.generators:
            each.target = self.visit(each.target)
            if each is not first:
                each.iter = self.visit(each.iter)
            each.ifs = [self.visit(one) for one in each.ifs]
        for field in ("elt", "key", "value"):
            if hasattr(node, field):
                setattr(node, field, self.visit(getattr(node, field)))
        self.scopes.pop()
        return node  # type: ignore[no-any-return]

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        return self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        return self._comprehension(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        if any(isinstance(n, ast.Call | ast.Await) for s in sides[1:-1] for n in ast.walk(s)):
            return node
        pairs = [
            _turned(op, left, right)
            for op, left, right in zip(node.ops, sides, sides[1:], strict=False)
        ]
        return pairs[0] if len(pairs) == 1 else ast.BoolOp(ast.And(), list(pairs))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        values: list[ast.expr] = []
        for one in node.values:
            same = isinstance(one, ast.BoolOp) and type(one.op) is type(node.op)
            values += one.values if same and isinstance(one, ast.BoolOp) else [one]
        node.values = values
        return node


def _turned(op: ast.cmpop, left: ast.expr, right: ast.expr) -> ast.Compare:
    if type(op) in _TURNED:
        op, left, right = _TURNED[type(op)](), right, left
    elif isinstance(op, ast.Eq | ast.NotEq) and ast.dump(right) < ast.dump(left):
        left, right = right, left
    return ast.Compare(left, [op], [right])


Sort = Literal["function", "constant", "class", "import", "statement"]

STATEMENTS = "other statements"


class Binding(msgspec.Struct, frozen=True):
    """`name` is `word` or `Class.word`; `nodes` are all that bind it, in their order."""

    name: str
    sort: Sort
    nodes: tuple[ast.stmt, ...]

    @property
    def word(self) -> str:
        """As code says it."""
        return self.name.rpartition(".")[2]

    @property
    def owner(self) -> str:
        """The class, or nothing."""
        return self.name.rpartition(".")[0]

    @property
    def text(self) -> str:
        return "; ".join(text_of(one) for one in self.nodes)

    @property
    def form(self) -> str:
        """The same for two that do the same."""
        return "\n".join(ast.dump(normal(one)) for one in self.nodes)


class InvariantSource(msgspec.Struct, frozen=True):
    """An invariant as it is written; `body` in its normal form."""

    id: str
    kind: str
    says: str
    place: Binding
    body: tuple[ast.stmt, ...]
    text: str

    @property
    def form(self) -> str:
        return "\n".join(ast.dump(one) for one in self.body)


class File(msgspec.Struct, frozen=True):
    """`said` is how often each name is said; `order` the places of all statements."""

    places: Mapping[str, Binding]
    stated: Mapping[tuple[str, str], InvariantSource]
    said: Counter[str]
    order: tuple[str, ...]
    bases: Mapping[str, tuple[str, ...]]


def taken_apart(text: str) -> File:
    """Raises SyntaxError where it is no Python.

    What stands at the top of it and in its classes is by name, every statement in one place, so
    that what differs between two files differs in a place.
    """
    tree = ast.parse(text)
    named = list(_named(tree.body, ""))
    found: dict[str, Binding] = {}
    for name, sort, node in named:
        before = found[name].nodes if name in found else ()
        found[name] = Binding(name, sort, (*before, node))
    bases = {
        one.name: tuple(map(callee_name, one.bases))
        for one in tree.body
        if isinstance(one, ast.ClassDef)
    }
    return File(
        found,
        _invariants(found.values()),
        Counter(identifiers([tree])),
        tuple(name for name, _, _ in named),
        bases,
    )


def _named(body: Iterable[ast.stmt], owner: str) -> Iterator[tuple[str, Sort, ast.stmt]]:
    inside = f"{owner}." if owner else ""
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield f"{inside}{name}", "function", node
            case ast.ClassDef(name=name) if not owner:
                yield name, "class", _header(node)
                yield from _named(node.body, name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield f"{inside}{name}", "constant", node
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
                yield f"{inside}{name}", "constant", node
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                for one in names:
                    alone = type(node)(**{**vars(node), "names": [one]})
                    name = one.asname or one.name.partition(".")[0]
                    yield f"{inside}{name}", "import", alone
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                continue
            case _:
                yield f"{inside}{STATEMENTS}", "statement", node


def _header(node: ast.ClassDef) -> ast.stmt:
    alone = copy.copy(node)
    alone.body = [ast.Pass()]
    return alone


def _invariants(places: Iterable[Binding]) -> dict[tuple[str, str], InvariantSource]:
    """Those that are ones for certain: methods bound once, with `invariant` alone above them, and
    words for what is said of them. An id that is there twice is none."""
    every = [one for place in places if (one := _stated(place)) is not None]
    keys = Counter((one.place.owner, one.id) for one in every)
    return {key: one for one in every if keys[key := (one.place.owner, one.id)] == 1}


def _stated(place: Binding) -> InvariantSource | None:
    if not place.owner or len(place.nodes) != 1 or not isinstance(place.nodes[0], ast.FunctionDef):
        return None
    node = place.nodes[0]
    if len(node.decorator_list) != 1 or node.args.defaults or node.args.kw_defaults:
        return None
    mark = node.decorator_list[0]
    if not isinstance(mark, ast.Call) or callee_name(mark) != "invariant":
        return None
    given: dict[str | None, ast.expr] = dict(zip(("id", "text", "kind"), mark.args, strict=False))
    given.update({one.arg: one.value for one in mark.keywords})
    words = {name: one.value for name, one in given.items() if isinstance(one, ast.Constant)}
    kind = words.get("kind", "state") if "kind" in words or "kind" not in given else ""
    if set(given) - {"id", "text", "kind"} or not isinstance(words.get("id"), str):
        return None
    if not isinstance(words.get("text"), str) or kind not in get_args(Kind):
        return None
    plain = normal(node, parameters=True)
    assert isinstance(plain, ast.FunctionDef)
    around = [mark.func, plain.args, *filter(None, [plain.returns])]
    shape = ast.Expr(ast.Constant("".join(map(ast.dump, around))))
    text = "; ".join(map(text_of, bare(node)))
    return InvariantSource(
        str(words["id"]), str(kind), str(words["text"]), place, (shape, *plain.body), text
    )


def head_of(place: Path) -> str:
    """The commit that is checked out there, 12 digits. Raises ConfigError where there is none."""
    found = _git(place, "rev-parse", "--verify", "--quiet", "HEAD")
    if found.returncode:
        raise ConfigError(f"{place} is in no repository with a commit", remedy="--commit COMMIT")
    return found.stdout.strip()[:12]


def text_now(path: Path) -> str:
    """Raises ConfigError where it cannot be read, or is no Python."""
    try:
        return _python(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}", remedy="a file of Python") from None


def text_at(path: Path, commit: str) -> str | None:
    """None where the commit has it neither under this name nor, as far as git can tell, another.

    Raises ConfigError where there is no such commit, or no repository around the file.
    """
    place = path.absolute()
    known = _git(place.parent, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if known.returncode:
        raise ConfigError(f"{commit!r} is no commit around {path}", remedy="--since COMMIT")
    sha = known.stdout.strip()
    shown = _git(place.parent, "show", f"{sha}:./{place.name}")
    if shown.returncode:
        former = _former_name(place, sha)
        if former is None:
            return None
        shown = _git(place.parent, "show", f"{sha}:{former}")
    return _python(shown.stdout, f"{commit}:{path}")


def _former_name(place: Path, commit: str) -> str | None:
    """From the top of the repository. Git knows files that are added to its index."""
    prefix = _git(place.parent, "rev-parse", "--show-prefix").stdout.strip()
    asked = ("--name-status", "--diff-filter=R", "--find-renames=20%", "--no-relative")
    listed = _git(place.parent, "diff", "-z", *asked, commit).stdout.split("\0")
    pairs = zip(listed[1::3], listed[2::3], strict=False)
    return next((old for old, new in pairs if new == f"{prefix}{place.name}"), None)


def _git(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", str(where), *words], capture_output=True, text=True, check=False
    )


def _python(text: str, name: str) -> str:
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise ConfigError(f"{name}: {error}", remedy="a file of Python") from None
    return text
