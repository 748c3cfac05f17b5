"""Packages that only some uses of dstest need: extras of the distribution."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution, distributions, requires
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Final
from urllib.parse import unquote, urlsplit

from dstest.core.errors import ConfigError

_CALLED: Final = MappingProxyType(
    {"markdown_it": "markdown-it-py", "nats": "nats-py", "yaml": "pyyaml"}
)
"""Distributions that are called otherwise than their module."""


def need(module: str, extra: str, what: str) -> ModuleType:
    """The module. Raises ConfigError, naming the extra, where its package is not installed.

    `what` is what cannot be done without it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # it is there, and lacks something itself
        raise ConfigError(
            f"{what} needs {error.name}, which is not installed",
            remedy=install_command(extra),
        ) from None


def install_command(extra: str) -> str:
    """The command that brings an extra to this Python: of the wheel or the directory that dstest
    was installed from. Where that is gone, the packages of the extra by their names."""
    source, editable = _installed_from()
    if source is None:
        return pip_install(f"dstest[{extra}]")
    if source.exists():
        return pip_install(*["-e"] * editable, f"{source}[{extra}]")
    return pip_install(*(_packages_of(extra) or [f"dstest[{extra}]"]))


def pip_install(*words: str) -> str:
    """A command of this very Python: `pip` alone may be another one's."""
    return shlex.join([sys.executable or "python3", "-m", "pip", "install", *words])


def _installed_from() -> tuple[Path | None, bool]:
    """(wheel file or directory that dstest was installed from, whether it is used in place); None
    where it came from an index, or nobody wrote it down."""
    try:
        # Beside what pip wrote there may be what the build has left in a source tree.
        texts = (one.read_text("direct_url.json") for one in distributions(name="dstest"))
        told = json.loads(next(filter(None, texts), "{}"))
        parts = urlsplit(str(told.get("url", "")))
        editable = bool((told.get("dir_info") or {}).get("editable"))
    except (ValueError, AttributeError):
        return None, False
    if parts.scheme != "file":
        return None, False
    return Path(unquote(parts.path)), editable


def _packages_of(extra: str) -> list[str]:
    """What an extra asks for, as pip reads it."""
    asked = re.compile(rf"([^;]+);.*extra == ['\"]{re.escape(extra)}['\"]")
    try:
        rows = requires("dstest") or ()
    except PackageNotFoundError:
        return []
    return [match[1].strip() for row in rows if (match := asked.match(row))]


def extra_with(package: str) -> str:
    """The extra of ours that brings a distribution; empty where none does."""
    wanted = re.compile(rf"{re.escape(package)}\b(?!-).*extra == ['\"]([\w-]+)['\"]", re.IGNORECASE)
    try:
        rows = requires("dstest") or ()
    except PackageNotFoundError:  # its files lie somewhere, without their metadata
        return ""
    found = [match[1] for row in rows if (match := wanted.match(row))]
    return next((extra for extra in found if extra not in ("all", "dev")), "")


def lacking(error: BaseException) -> ConfigError | None:
    """What is said of an import that fails since its package comes with an extra of ours; None of
    any other error."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    module = error.name.partition(".")[0]
    package = _CALLED.get(module, module.replace("_", "-"))
    if not (extra := extra_with(package)):
        return None
    return ConfigError(
        f"this needs {package}, which is not installed", remedy=install_command(extra)
    )


def require_packages(packages: Sequence[str], of: str) -> None:
    """Raises ConfigError where one of these distributions, of the clients `of` a system, is not
    installed."""
    for package in packages:
        try:
            distribution(package)
        except PackageNotFoundError:
            extra = extra_with(package)
            raise ConfigError(
                f"{of} needs {package}, which is not installed",
                remedy=install_command(extra) if extra else pip_install(package),
            ) from None
