"""What `dstest new` can write, and writes: a kind is a skeleton and its test, two files of
`templates`, with a word for it, and commands. The name is checked and filled in, and nothing that
is there is touched."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.near import meant

__all__ = [
    "KINDS",
    "Kind",
]


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of plug-in. Its templates are `my_<name>.py` and `test_my_<name>.py`.

    `group` is its group in the registry. `commands` are what one would do next with the file,
    `{file}` in them.
    """

    name: str
    group: str
    commands: tuple[str, ...]


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind(
            name="system",
            group="systems",
            commands=(
                "dstest run --system {file} --workload register --nemesis none",
                "dstest run --system {file} --workload register --nemesis kill",
            ),
        ),
        Kind(
            name="workload",
            group="workloads",
            commands=("dstest run --workload {file} --nemesis none",),
        ),
        Kind(
            name="nemesis",
            group="nemeses",
            commands=("dstest run --workload register --nemesis {file}",),
        ),
        Kind(
            name="checker",
            group="checkers",
            commands=(
                "dstest generate --workload register -o history.jsonl",
                "dstest check --checker {file} history.jsonl",
            ),
        ),
    )
}


NAME_CHARS_MAX: Final = 30
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def kind_called(name: str) -> Kind:
    """The kind of this name. Raises ConfigError with those there are."""
    if name not in KINDS:
        raise ConfigError(f"dstest new knows no {name!r}", remedy=meant(name, KINDS))
    return KINDS[name]


def module_of(name: str) -> str:
    """`slow-link` -> `slow_link`."""
    return name.replace("-", "_")


def render(kind: Kind, name: str) -> dict[str, str]:
    """File name -> text, of the skeleton and of its test."""
    module, placeholder = module_of(name), f"my_{kind.name}"
    names = {
        placeholder: module,
        f"my-{kind.name}": name,
        f"My{kind.name.title()}": _class_of(name),
    }
    texts = {}
    for prefix in ("", "test_"):
        text = (files("dstest.extend.scaffold.templates") / f"{prefix}{placeholder}.py").read_text()
        for old, new in names.items():
            text = text.replace(old, new)
        texts[f"{prefix}{module}.py"] = text
    return texts


def write(kind: Kind, name: str, folder: Path) -> list[Path]:
    """The files that were written. Raises ConfigError, and writes none, where one is there."""
    _check_spelling(name)
    texts = {folder / file: text for file, text in render(kind, name).items()}
    there = [str(path) for path in texts if path.exists() or path.is_symlink()]
    if there:
        raise ConfigError(
            f"{' and '.join(there)} would be overwritten", remedy="another NAME, or another --dir"
        )
    _check_free(kind, name)
    written: list[Path] = []
    try:
        for path, text in texts.items():
            with path.open("x") as file:
                written.append(path)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise ConfigError(
            f"cannot write to {folder}: {error.strerror}", remedy="choose another --dir"
        ) from None
    return written


def _class_of(name: str) -> str:
    return "".join(part.title() for part in name.split("-"))


def _check_spelling(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > NAME_CHARS_MAX:
        raise ConfigError(
            f"{name!r} is no name of a plug-in",
            remedy=f"a to z, 0 to 9 and single dashes, from a letter on, {NAME_CHARS_MAX} at most",
        )
    if keyword.iskeyword(_class_of(name)) or keyword.iskeyword(name):
        raise ConfigError(f"{name!r} is a word of Python", remedy="another NAME")


def _check_free(kind: Kind, name: str) -> None:
    """Raises ConfigError where the name is taken: by a plug-in, or by a module that it would hide.

    pytest puts the folder of a test before all others on the path of imports.
    """
    if name in registry.names(kind.group):
        raise ConfigError(f"there is a {kind.name} called {name!r} already", remedy="another NAME")
    module = module_of(name)
    if module in sys.stdlib_module_names or _importable(module):
        raise ConfigError(
            f"{module}.py would hide the module {module} from its tests", remedy="another NAME"
        )


def _importable(module: str) -> bool:
    """Is there such a module, other than in the folder where we are?"""
    spec = importlib.util.find_spec(module)
    if spec is None:
        return False
    return spec.origin is None or Path(spec.origin).parent != Path.cwd()
