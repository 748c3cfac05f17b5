"""Mutants of our own code: one line each, changed as a tired hand would change it.

A mutant is kept as text, the line before and after, so that it stays the same mutant while the file
around it moves; one whose line is gone is told, and `mutants.py make` draws another in its place.
"""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
KEPT: Final = Path(__file__).with_name("mutants.jsonl")

AREAS: Final[dict[str, tuple[int, tuple[str, ...]]]] = {
    "verdict": (36, ("dstest/judge/decide.py", "dstest/judge/lints.py",
                     "dstest/judge/facts.py", "dstest/judge/evidence.py",
                     "dstest/judge/audit_rows.py", "dstest/judge/audit.py",
                     "dstest/judge/session.py")),
    "plan lints": (16, ("dstest/plans/lint/*.py",)),
    "reconciliation": (16, ("dstest/runner/judgement.py", "dstest/runner/judgement.py")),
    "landing": (36, ("nemeses/base/*.py", "dstest/core/evidence.py",
                     "dstest/runner/nemesis_loop.py")),
    "checkers": (24, ("checkers/*.py", "checkers/lin/*.py", "checkers/txn/*.py")),
    "C core": (44, ("checkers/csrc/txn/*.c", "checkers/csrc/iso/*.c", "checkers/csrc/ord/*.c",
                    "checkers/csrc/lin/*.c", "checkers/csrc/mon/*.c", "checkers/csrc/aut/*.c",
                    "checkers/csrc/ingest/*.c", "checkers/csrc/ops/*.c",
                    "checkers/csrc/stream/*.c")),
    "readers": (20, ("dstest/history/*.py",)),
    "gate": (24, ("dstest/gate/*.py",)),
}  # fmt: skip
"""Area -> so many mutants, in these files."""

_COMPARE: Final = {
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Is: ("is", "is not"), ast.In: ("in", "not in"),
    ast.IsNot: ("is not", "is"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
_CALLS: Final = {"any": "all", "all": "any", "min": "max", "max": "min"}
_C: Final = (
    (r"(?<=[\w)\]]) == (?=[\w(!])", " != "), (r"(?<=[\w)\]]) != (?=[\w(!])", " == "),
    (r"(?<=[\w)\]]) < (?=[\w(])", " <= "), (r"(?<=[\w)\]]) <= (?=[\w(])", " < "),
    (r"(?<=[\w)\]]) > (?=[\w(])", " >= "), (r"(?<=[\w)\]]) >= (?=[\w(])", " > "),
    (r" && ", " || "), (r" \|\| ", " && "), (r"(?<=[\w)\]]) \+ 1\b", " + 0"),
    (r"\breturn 0;", "return 1;"), (r"\breturn true;", "return false;"),
    (r"\breturn false;", "return true;"), (r"\bcontinue;", "break;"), (r"if \(!", "if ("),
)  # fmt: skip
_PER_LINE: Final = 1


@dataclass(frozen=True)
class Mutant:
    """`nth` is which of the lines with this text, from 0; `kind` says what was changed."""

    area: str
    path: str
    kind: str
    before: str
    after: str
    nth: int = 0

    @property
    def name(self) -> str:
        return f"{self.path}: {self.before.strip()}  =>  {self.after.strip()}"

    def line(self, text: str) -> int | None:
        """Its line in the file, from 1; None where it is there no longer."""
        lines = [n for n, line in enumerate(text.split("\n"), 1) if line == self.before]
        return lines[self.nth] if self.nth < len(lines) else None

    def applied(self, text: str) -> str:
        """The file with it. Raises LookupError where its line is gone."""
        if (number := self.line(text)) is None:
            raise LookupError(self.name)
        lines = text.split("\n")
        lines[number - 1] = self.after
        return "\n".join(lines)


def kept() -> list[Mutant]:
    """Those that are kept, in their order."""
    return [Mutant(**json.loads(line)) for line in KEPT.read_text().splitlines()]


def keep(mutants: list[Mutant]) -> None:
    KEPT.write_text("".join(json.dumps(asdict(one), sort_keys=True) + "\n" for one in mutants))


def filled(earlier: list[Mutant], seed: int) -> list[Mutant]:
    """The earlier ones whose lines are still there, and new ones until each area has its number, no
    file more than its share."""
    dice = random.Random(seed)
    found = []
    for area, (count, patterns) in AREAS.items():
        stay = [one for one in earlier if one.area == area and _there(one)]
        paths = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
        dice.shuffle(paths)
        possible = {path: _shuffled(dice, area, path) for path in paths}
        while len(stay) < count and any(possible.values()):
            for path in paths:
                if len(stay) < count and possible[path]:
                    new = possible[path].pop()
                    stay += [] if new in stay else [new]
        found += stay
    return found


def _there(mutant: Mutant) -> bool:
    path = ROOT / mutant.path
    return path.is_file() and mutant.line(path.read_text()) is not None


def _shuffled(dice: random.Random, area: str, path: Path) -> list[Mutant]:
    text = path.read_text()
    make = _of_c if path.suffix == ".c" else _of_python
    by_line: dict[int, list[tuple[str, str]]] = {}
    for number, kind, line in make(text):
        by_line.setdefault(number, []).append((kind, line))
    lines, name = text.split("\n"), path.relative_to(ROOT).as_posix()
    found = []
    for number, ways in sorted(by_line.items()):
        before = lines[number - 1]
        nth = lines[: number - 1].count(before)
        for kind, after in dice.sample(ways, min(_PER_LINE, len(ways))):
            found.append(Mutant(area, name, kind, before, after, nth))
    dice.shuffle(found)
    return found


def _of_c(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, kind, the line changed) of code in C; comments and lines of the preprocessor stay."""
    comment = False
    for number, line in enumerate(text.split("\n"), 1):
        comment = comment or line.lstrip().startswith("/*")
        if not comment and line.startswith("    ") and '"' not in line:
            for pattern, to in _C:
                for hit in re.finditer(pattern, line.split(" /*")[0]):
                    yield number, hit[0].strip(), line[: hit.start()] + to + line[hit.end() :]
        if "*/" in line:
            comment = False


def _of_python(text: str) -> Iterator[tuple[int, str, str]]:
    lines = text.split("\n")
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in function.body:
                for node in ast.walk(statement):
                    yield from _of_node(node, lines)


def _of_node(node: ast.AST, lines: list[str]) -> Iterator[tuple[int, str, str]]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            yield from _between(lines, left, right, *_COMPARE[type(op)])
        case ast.BoolOp(op=op, values=[first, second, *_]):
            words = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
            yield from _between(lines, first, second, *words)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _replaced(lines, node, ast.unparse(operand))
        case ast.Constant(value=bool(value)):
            yield from _replaced(lines, node, str(not value))
        case ast.Constant(value=int(value)) if value > 1:
            yield from _replaced(lines, node, str(value + 1))
        case ast.Call(func=ast.Name(id=name) as func) if name in _CALLS:
            yield from _replaced(lines, func, _CALLS[name])
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield from _replaced(lines, node, "pass")
        case ast.Continue():
            yield from _replaced(lines, node, "break")
        case ast.Return(value=ast.Tuple() | ast.Name() | ast.Attribute() as value):
            yield from _replaced(lines, value, "None")
        case ast.IfExp(test=test, body=body, orelse=orelse):
            swapped = f"{ast.unparse(orelse)} if {ast.unparse(test)} else {ast.unparse(body)}"
            yield from _replaced(lines, node, swapped)


def _between(
    lines: list[str], left: ast.expr, right: ast.expr, old: str, new: str
) -> Iterator[tuple[int, str, str]]:
    if left.end_lineno != right.lineno:
        return
    line = lines[right.lineno - 1].encode()
    begin, end = left.end_col_offset or 0, right.col_offset
    middle = line[begin:end].decode()
    if middle.count(old) == 1:
        changed = line[:begin] + middle.replace(old, new).encode() + line[end:]
        yield right.lineno, old, changed.decode()


def _replaced(
    lines: list[str], node: ast.expr | ast.stmt, to: str
) -> Iterator[tuple[int, str, str]]:
    if node.lineno != node.end_lineno:
        return
    line = lines[node.lineno - 1].encode()
    old = line[node.col_offset : node.end_col_offset].decode()
    changed = line[: node.col_offset] + to.encode() + line[node.end_col_offset :]
    try:
        ast.parse(old)
    except SyntaxError:
        return  # within an f-string, whose places are not the line's before Python 3.12
    yield node.lineno, type(node).__name__, changed.decode()
