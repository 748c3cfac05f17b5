"""`dstest check --model fifo-queue` and the like: objects that no workload of ours drives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.history import INITIAL
from dstest.core.protocols import CheckerTraits
from dstest.core.registry import parse_options
from dstest.judge.checker_answers import asked, of_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dstest.core.check import Budget, CheckResult
    from dstest.core.history import History
    from dstest.core.protocols import Option


def _declared() -> dict[str, Option]:
    """What checkers may be told of a history."""
    found: dict[str, Option] = {}
    for name in registry.names("checkers"):
        found |= CheckerTraits.of(registry.load("checkers", name)).options
    return found


def _require_typed(options: dict[str, Any], declared: Mapping[str, Option]) -> None:
    """Raises ConfigError where the header has an option that `-o` would not take so."""
    for name, value in options.items():
        if name not in declared or value is None:
            continue
        wanted = declared[name].type
        fits = type(value) is wanted or (wanted is float and type(value) is int)
        if not fits:
            raise ConfigError(
                f"the header's option {name} is {value!r}, not a {wanted.__name__}",
                remedy=f"write a {wanted.__name__} there; {name}: {declared[name].help}",
            )
        parse_options([f"{name}={value}"], declared, of="checking operations")


def with_options(history: History, pairs: list[str], initial: str | None = None) -> History:
    """The history, its header's options overridden by `-o`, and by the JSON of `--initial`. Raises
    ConfigError for an unknown one, and for one of the header that has another type."""
    from msgspec.structs import replace

    if initial is not None:
        started = {**history.header.options, INITIAL: json_of(initial)}
        history = replace(history, header=replace(history.header, options=started))
    if not pairs and not history.header.options:
        return history
    declared = _declared()
    _require_typed(history.header.options, declared)
    if not pairs:
        return history
    typed = parse_options(pairs, declared, of="checking operations")
    given = {k: v for k, v in typed.items() if v is not None}
    header = replace(history.header, options={**history.header.options, **given})
    return replace(history, header=header)


def json_of(text: str) -> Any:
    """The value of `--initial`. Raises ConfigError for what is no JSON."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(
            f"--initial {text[:40]}: {error}",
            remedy="""JSON: 0, '"a"', '[1, 2]', or a value by key: '{"x": 0, "y": 1}'""",
        ) from None


def _of(option: str) -> str:
    """Names of the checkers that have an option, or take an initial state."""
    having = []
    for name in registry.names("checkers"):
        traits = CheckerTraits.of(registry.load("checkers", name))
        if option in traits.options or (option == INITIAL and traits.initial):
            having.append(name)
    return ", ".join(having)


def require_asked(
    judges: Iterable[tuple[Any, str]], history: History, pairs: Iterable[str]
) -> None:
    """Raises ConfigError for an option of `-o`, and for an initial state, that one of the `judges`
    (checkers, each with its model) would pass over."""
    traits = [(checker.name, model, CheckerTraits.of(checker)) for checker, model in judges]
    known = {option for _, _, trait in traits for option in trait.options}
    for option in (pair.partition("=")[0] for pair in pairs):
        if option not in known:
            raise ConfigError(
                f"-o {option}: {' and '.join(name for name, _, _ in traits)} would pass it over",
                remedy=f"known here: {', '.join(sorted(known)) or 'no option'}; {option} is for "
                f"{_of(option)}",
            )
    for name, model, trait in traits if INITIAL in history.header.options else ():
        if model not in trait.initial:
            raise ConfigError(
                f"checker {name} has no initial state under {model}: it would be passed over",
                remedy=f"leave --initial out, or ask {_of(INITIAL)}: `dstest models --objects` "
                "says which --model starts as what",
            )


def judge_objects(
    history: History, model: str | None, budget: Budget, pairs: Iterable[str] = ()
) -> CheckResult | None:
    """The answer of the linearizability checker; None where it does not know the model, or where
    the model is one of registers, which workloads have."""
    from checkers.lin.catalogue import MODELS, REGISTERS
    from checkers.linearizable import CHECKER

    if model is None or model in REGISTERS or model not in MODELS:
        return None
    require_asked([(CHECKER, model)], history, pairs)
    return of_all(asked(CHECKER, history, model, budget))
