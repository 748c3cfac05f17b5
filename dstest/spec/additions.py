"""Names that are new in a file of specifications: which can change nothing of what was there?"""

from __future__ import annotations

import ast
import builtins
import sys
from typing import Final

from dstest.spec.compose import System
from dstest.spec.places import File, Place
from dstest.spec.stronger import keeps_all, pure

_LOOKS: Final = frozenset(
    {
        "__dict__", "__getattr__", "__getattribute__", "__init_subclass__", "delattr",
        "dir", "eval", "exec", "getattr", "globals", "hasattr", "inspect", "locals",
        "setattr", "sys", "vars",
    }
)  # fmt: skip
"""With one of these code may mean a name that it does not say."""

_ROOTS: Final = {"Spec", "System"}


def is_harmless(place: Place, old: File, new: File) -> bool:
    """Nothing old says the name, and to bind it does nothing else."""
    word = place.word
    looks = any(file.said[one] for file in (old, new) for one in _LOOKS)
    taken = word.startswith("__") or word in dir(builtins) or hasattr(System, word)
    if (
        place.sort == "statement"
        or looks
        or taken
        or word in ("*", "state")
        or old.said[word]
        or len(place.nodes) != 1
    ):
        return False
    if place.owner and not _is_known(place.owner, old):
        return False
    node = place.nodes[0]
    own = frozenset(one.word for one in new.places.values())
    match node:
        case ast.FunctionDef():
            keys = [k for k, one in new.stated.items() if one.place.name == place.name]
            defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
            plain = (keys or not node.decorator_list) and not defaults and not _annotated(node)
            compared = any(key in old.stated for key in keys)
            return bool(plain) and (compared or keeps_all(node, _defined(old, new)))
        case ast.Assign(value=value):
            return _takes_constants(place, old) and pure(value, own)
        case ast.AnnAssign(value=ast.expr() as value, annotation=annotation):
            both = pure(value, own) and pure(annotation, own)
            return _takes_constants(place, old) and both
        case ast.Import(names=[one]):
            return one.name.partition(".")[0] in sys.stdlib_module_names
        case ast.ImportFrom(module=str(module), level=0):
            return module.partition(".")[0] in sys.stdlib_module_names
    return False


def _defined(old: File, new: File) -> frozenset[str]:
    """Functions and classes of the file, and what it imported before."""
    return frozenset(
        one.word
        for file in (old, new)
        for one in file.places.values()
        if one.sort in ("function", "class") or (one.sort == "import" and file is old)
    )


def _annotated(node: ast.FunctionDef) -> bool:
    """With code that is executed."""
    given = [one.annotation for one in ast.walk(node.args) if isinstance(one, ast.arg)]
    return any(
        isinstance(part, ast.Call | ast.NamedExpr)
        for one in (*given, node.returns)
        if one is not None
        for part in ast.walk(one)
    )


def _is_known(owner: str, file: File) -> bool:
    """A class all of whose bases are in the file, or ours: nothing that is inherited is hidden."""
    seen, todo = set[str](), [owner]
    while todo:
        name = todo.pop()
        if name in file.bases:
            if name not in seen:
                todo += file.bases[name]
            seen.add(name)
        elif not _is_ours(name, file):
            return False
    return owner in file.bases


def _is_ours(name: str, file: File) -> bool:
    if name == "object":
        return True
    if name not in _ROOTS or "*" in file.places:
        return False
    node = file.places[name].nodes[-1] if name in file.places else None
    return node is None or (
        isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dstest.spec")
    )


def _takes_constants(place: Place, file: File) -> bool:
    """At the top of the file, or in a specification: in another class it is a field."""
    return not place.owner or any(one.place.owner == place.owner for one in file.stated.values())
