"""A specification as a module of TLA+ (Lamport, "Specifying Systems", 2002), and what TLC wants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dstest.spec.export.language import free_word
from dstest.spec.export.module import DONE, Exported, ExportedAction, exported
from dstest.spec.model import Model


class Tla:
    """How TLA+ writes it. Sequences begin at 1 there."""

    def word(self, name: str) -> str:
        return f"{name}_" if name in ("s", "st") else name

    def literal(self, value: Any) -> str:
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        return json.dumps(value) if isinstance(value, str) else str(value)

    def both(self, parts: list[str]) -> str:
        return "(" + " /\\ ".join(parts) + ")" if parts else "TRUE"

    def either(self, parts: list[str]) -> str:
        return "(" + " \\/ ".join(parts) + ")" if parts else "FALSE"

    def negation(self, one: str) -> str:
        return f"~({one})"

    def arithmetic(self, sign: str, left: str, right: str) -> str:
        return f"({left} {sign} {right})"

    def rest(self, one: str, divisor: str) -> str:
        """No less than 0 for a divisor above 0, as in Python."""
        return f"({one} % {divisor})"

    def quotient(self, one: str, divisor: str) -> str:
        """Rounded down for a divisor above 0, as in Python."""
        return f"({one} \\div {divisor})"

    def compare(self, sign: str, left: str, right: str) -> str:
        return f"({left} { {'==': '=', '!=': '#', '<=': '=<'}.get(sign, sign) } {right})"

    def choice(self, condition: str, yes: str, no: str) -> str:
        return f"(IF {condition} THEN {yes} ELSE {no})"

    def let(self, name: str, value: str, body: str) -> str:
        return f"(LET {name} == {value} IN {body})"

    def field(self, state: str, name: str) -> str:
        return f"{state}.{name}"

    def record(self, fields: Mapping[str, str]) -> str:
        return "[" + ", ".join(f"{name} |-> {value}" for name, value in fields.items()) + "]"

    def changed(self, state: str, fields: Mapping[str, str]) -> str:
        rows = ", ".join(f"!.{name} = {value}" for name, value in fields.items())
        return f"[{state} EXCEPT {rows}]"

    def a_list(self, parts: list[str]) -> str:
        return f"<<{', '.join(parts)}>>"

    def a_set(self, parts: list[str]) -> str:
        return "{" + ", ".join(parts) + "}"

    def at(self, row: str, index: str) -> str:
        return f"{row}[{index} + 1]"

    def part(self, row: str, start: str, end: str) -> str:
        return f"SubSeq({row}, {start} + 1, {end})"

    def joined(self, parts: list[str]) -> str:
        return "(" + " \\o ".join(parts) + ")"

    def length(self, row: str) -> str:
        return f"Len({row})"

    def size(self, group: str) -> str:
        return f"Cardinality({group})"

    def in_list(self, one: str, row: str) -> str:
        return f"({one} \\in {self.members(row)})"

    def in_set(self, one: str, group: str) -> str:
        return f"({one} \\in {group})"

    def of_sets(self, sign: str, left: str, right: str) -> str:
        called = {"|": "\\cup", "&": "\\cap", "-": "\\", "<=": "\\subseteq"}[sign]
        return f"({left} {called} {right})"

    def upto(self, start: str, end: str) -> str:
        return f"({start}..({end} - 1))"

    def members(self, row: str) -> str:
        at = free_word("at", row)
        return f"{{{row}[{at}] : {at} \\in DOMAIN {row}}}"

    def every(self, name: str, group: str, body: str) -> str:
        return f"(\\A {name} \\in {group} : {body})"

    def some(self, name: str, group: str, body: str) -> str:
        return f"(\\E {name} \\in {group} : {body})"

    def each(self, name: str, group: str, body: str) -> str:
        return f"{{{body} : {name} \\in {group}}}"

    def only(self, name: str, group: str, condition: str) -> str:
        return f"{{{name} \\in {group} : {condition}}}"

    def the(self, name: str, group: str, condition: str) -> str:
        return f"(CHOOSE {name} \\in {group} : {condition})"

    def a_tuple(self, parts: list[str]) -> str:
        return self.a_list(parts)

    def item(self, row: str, number: int) -> str:
        return f"{row}[{number}]"

    def a_map(self, pairs: list[tuple[str, str]], name: str) -> str:
        keys = self.a_set([key for key, _ in pairs])
        cases = " [] ".join(f"{name} = {key} -> {value}" for key, value in pairs)
        return f"[{name} \\in {keys} |-> {f'CASE {cases}' if pairs else name}]"

    def keys(self, of: str) -> str:
        return f"DOMAIN {of}"

    def looked(self, of: str, key: str) -> str:
        return f"{of}[{key}]"

    def mapped(self, name: str, keys: str, body: str) -> str:
        return f"[{name} \\in {keys} |-> {body}]"


def as_tla(model: Model) -> str:
    """The module. Raises ConfigError for what it has no word for.

    Invariants of steps are of a variable, `broken`: those that the last step did not satisfy."""
    whole = exported(model, Tla())
    variables = ["st", "broken"] if whole.steps else ["st"]
    lines = [f"---- MODULE {whole.name} ----", "EXTENDS Integers, Sequences, FiniteSets"]
    lines += [f"\\* {line}".rstrip() for line in whole.doc.splitlines()]
    lines += [f"\\* not exported: {', '.join(whole.left_out)}"] if whole.left_out else []
    lines += [f"VARIABLE{'S' if whole.steps else ''} {', '.join(variables)}", ""]
    for one in whole.actions:
        lines += _definitions(one)
    starts = " \\/ ".join(f"st = {state}" for state in whole.initial)
    if whole.steps:
        starts = f"({starts}) /\\ broken = {{}}"
    lines += [f"Init == {starts}", "Next =="]
    lines += [f"  \\/ {_taken(one, whole)}" for one in whole.actions]
    subscript = "<<st, broken>>" if whole.steps else "st"
    lines += [f"Spec == Init /\\ [][Next]_{subscript}", ""]
    for id_, text in whole.invariants.items():
        lines += [f"{_word(id_)} == LET s == st IN {text}"]
    for id_ in whole.steps:
        lines += [f'{_word(id_)} == "{id_}" \\notin broken']
    return "\n".join([*lines, "=" * 20, ""])


def _word(id_: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in id_)


def _definitions(one: ExportedAction) -> list[str]:
    given = _given(one, "s")
    said = ", ".join(f"{name}={value!r}" for name, value in one.fixed.items())
    lines = [f"\\* {one.of}: {said}"] if said else []
    lines += [f"Can_{one.name}{given} =="]
    lines += [f"  /\\ {text} \\* {name}" for name, text in one.can.items()] or ["  TRUE"]
    lines += [f"Do_{one.name}{given} ==", f"  {one.do}"]
    for id_, text in one.holds.items():
        lines += [f"Holds_{_word(id_)}_{one.name}({', '.join(['s', *one.domains, 't'])}) ==",
                  f"  {text}"]  # fmt: skip
    return [*lines, ""]


def as_cfg(model: Model) -> str:
    """What TLC is told beside the module. Raises ConfigError where there can be no module.

    In which states it may stay is not exported: then TLC is not to call any a deadlock."""
    whole = exported(model, Tla())
    ids = [*whole.invariants, *whole.steps]
    lines = ["SPECIFICATION Spec", *(f"INVARIANT {_word(id_)}" for id_ in ids)]
    if DONE in whole.left_out:
        lines += [f"\\* not exported: {DONE}, so that no state is a deadlock here"]
        lines += ["CHECK_DEADLOCK FALSE"]
    return "\n".join([*lines, ""])


def _given(one: ExportedAction, state: str) -> str:
    return f"({', '.join([state, *one.domains])})"


def _taken(one: ExportedAction, whole: Exported) -> str:
    over = ", ".join(f"{name} \\in (LET s == st IN {of.text})" for name, of in one.domains.items())
    given = _given(one, "st")
    taken = f"Can_{one.name}{given} /\\ st' = Do_{one.name}{given}"
    if whole.steps:
        ways = [
            f"(IF Holds_{_word(id_)}_{one.name}({', '.join(['st', *one.domains, 'st' + chr(39)])})"
            f' THEN {{}} ELSE {{"{id_}"}})'
            for id_ in one.holds
        ]
        union = " \\cup "
        taken += f" /\\ broken' = {union.join(ways) or '{}'}"
    return f"\\E {over} : {taken}" if over else taken
