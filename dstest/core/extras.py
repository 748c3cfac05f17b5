"""Packages that only some uses of dstest need: extras of the distribution."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution, requires
from types import MappingProxyType, ModuleType
from typing import Final

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
            remedy=f'pip install "dstest[{extra}]"',
        ) from None


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
        f"this needs {package}, which is not installed", remedy=f'pip install "dstest[{extra}]"'
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
                remedy=f'pip install "dstest[{extra}]"' if extra else f"pip install {package}",
            ) from None
