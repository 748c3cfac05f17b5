"""A specification by its name, or from a file of a user's own."""

from __future__ import annotations

import ast
import inspect
import pkgutil
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.core.plugin_files import module_at
from dstest.spec import shipped
from dstest.spec.compose import System
from dstest.spec.declare import Spec, constants_of, marked
from dstest.spec.model import Model, model_of
from dstest.spec.wrong import told


def shipped_names() -> list[str]:
    """Those that come with dstest."""
    return sorted(one.name.replace("_", "-") for one in pkgutil.iter_modules(shipped.__path__))


def load(given: str, constants: Iterable[str] = ()) -> Model:
    """`NAME` of one that comes with dstest, `FILE.py`, or `FILE.py:CLASS` where a file has several.
    Constants are `name=value`, as `constants_in` reads them.

    Raises ConfigError where there is none, several, or one that cannot be made ready.
    """
    where, _, wanted = given.partition(":")
    module = _module(where)
    _require_in_classes(where, module)
    found = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, Spec)
        and value not in (Spec, System)
        and value.__module__ == module.__name__
    }
    if wanted and wanted not in found:
        raise ConfigError(f"{where} has no specification {wanted!r}", remedy=meant(wanted, found))
    whole = [n for n, cls in found.items() if issubclass(cls, System)] or list(found)
    if not wanted and len(whole) != 1:
        raise ConfigError(
            f"{where} has {len(whole) or 'no'} specifications",
            remedy=f"{where}:CLASS, one of {', '.join(whole)}" if whole else "class X(Spec): ...",
        )
    cls = found[wanted or whole[0]]
    try:
        return model_of(cls(**constants_in(constants, cls)))
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{cls.__name__} cannot be made: {told(error)}",
            remedy="it must be made without arguments",
        ) from None


def of_logs(model: Model) -> Model:
    """With the constants that logs are held to it with, where none were given for them."""
    spec = model.spec
    others = {name: value for name, value in spec.for_logs.items() if name not in vars(spec)}
    given = {name: getattr(spec, name) for name in constants_of(type(spec)) if name in vars(spec)}
    return model_of(type(spec)(**given, **others)) if others else model


def _require_in_classes(where: str, module: ModuleType) -> None:
    """Raises ConfigError for a function of the file's own that is marked and stands in no class:
    nothing would read it."""
    for name, value in vars(module).items():
        if marked(value) and getattr(value, "__module__", None) == module.__name__:
            raise ConfigError(
                f"{where}: {name} is marked, and stands in no class",
                remedy="indent it, so that it is a method of the specification",
            )


def _module(where: str) -> ModuleType:
    if where.endswith(".py"):
        return module_at(Path(where).absolute())
    if where not in shipped_names():
        raise ConfigError(
            f"no specification called {where!r}",
            remedy=f"FILE.py[:CLASS], or {meant(where, shipped_names())}",
        )
    return import_module(f"{shipped.__name__}.{where.replace('-', '_')}")


def constants_in(given: Iterable[str], model_class: type[Spec]) -> dict[str, Any]:
    """`name=value` each, the value as Python writes it: `n=3`, `values=(1, 2)`, `mode=fast`.

    Raises ConfigError for one without a name or value, or of another type than the class has; where
    the class has None it may be anything.
    """
    known, found = constants_of(model_class), {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals or name not in known:
            raise ConfigError(
                f"no constant {one!r} of {model_class.__name__}",
                remedy=f"NAME=VALUE: {meant(name, known)}",
            )
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        if known[name] is not None and type(value) is not type(known[name]):
            kind = type(known[name]).__name__
            raise ConfigError(f"{name}={text} is no {kind}", remedy=f"as in {name}={known[name]!r}")
        found[name] = value
    return found
