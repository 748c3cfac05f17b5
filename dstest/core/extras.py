"""Packages that only some uses of dstest need: extras of the distribution."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from dstest.core.errors import ConfigError


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
