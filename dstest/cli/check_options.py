"""`-o key=value` of `dstest check`: what is assumed of the order of versions, as in Elle."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.formats import AUTO, FORMATS
from dstest.core.near import meant
from dstest.core.protocols import Option
from dstest.core.registry import parse_options

TRANSACTION_OPTIONS: Final = {
    "wfr-keys": Option(
        type=bool,
        default=False,
        help="rw-register: a transaction's write follows the version that it read",
    ),
    "sequential-keys": Option(
        type=bool, default=False, help="rw-register: each session sees a key's versions in order"
    ),
    "linearizable-keys": Option(
        type=bool, default=False, help="rw-register: each key's versions follow real time"
    ),
    "session-order": Option(
        type=bool,
        default=False,
        help="count the order of each session: the strong-session form of each model",
    ),
    "decide": Option(
        type=bool,
        default=True,
        help="rw-register: no leaves it at what follows from known versions, as in Elle",
    ),
    "transaction-order": Option(
        type=str,
        default="",
        help="rw-register: a JSON file, {index of the completion: rank}, the order of all writes",
    ),
    "anomalies": Option(
        type=str, default="", help="names with commas: report these also where the model does not"
    ),
}


def _ranks(path: str) -> dict[str, int]:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=dict[str, int])
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"-o transaction-order={path}: {error}",
            remedy='give a JSON file of one object, {"7": 0, "3": 1}',
        ) from None


def require_no_tuples(independent: bool | None) -> None:
    """Raises ConfigError where transactions are to be read as tuples of a key and a value."""
    if independent:
        raise ConfigError(
            "transactions name the keys of their micro-operations: --independent would be passed "
            "over",
            remedy="leave it out",
        )


def require_format(name: str) -> None:
    """Raises ConfigError for what no history is in."""
    if name not in (AUTO, *FORMATS):
        raise ConfigError(f"no format called {name!r}", remedy=meant(name, [AUTO, *FORMATS]))


def transaction_options(pairs: list[str]) -> dict[str, Any]:
    """Options of `checkers.txn.api.check`. A key may end in `?`, as Elle spells it.

    Raises ConfigError for what is unknown or unreadable.
    """
    plain = [pair.replace("?=", "=", 1) for pair in pairs]
    given = parse_options(plain, TRANSACTION_OPTIONS, of="checking transactions")
    options: dict[str, Any] = {
        f"{name}?": True for name in given if name.endswith("-keys") and given[name]
    }
    options |= {"session-order?": True} if given["session-order"] else {}
    options |= {} if given["decide"] else {"decide?": False}
    if given["transaction-order"]:
        options["transaction-order"] = _ranks(given["transaction-order"])
    if given["anomalies"]:
        options["anomalies"] = [name.strip() for name in given["anomalies"].split(",")]
    return options
