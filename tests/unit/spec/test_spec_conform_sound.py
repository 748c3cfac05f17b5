"""`dstest spec conform` reads what `dstest check` would read, comes back, and tells mistakes of a
mapping where they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from notation import op as parsed
from typer.testing import CliRunner, Result

from dstest.cli.app import app
from dstest.core.errors import ConfigError, Exit, HistoryError
from dstest.core.op import FIELDS, Op
from dstest.spec import Record, Spec, Step, maps
from dstest.spec.conform import conform_history
from dstest.spec.conformance import lines
from dstest.spec.model import Watch, model_of
from dstest.spec.shipped.queue import Queue
from dstest.spec.shipped.register import Register


def run(*words: str) -> Result:
    return CliRunner().invoke(app, [*words])


def ops(text: str) -> list[Op]:
    return [parsed(line, n) for n, line in enumerate(text.strip().splitlines())]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    file = tmp_path_factory.mktemp("made") / "h.jsonl"
    words = ("generate", "--workload", "register", "--txns", "60", "--seed", "1", "-o", str(file))
    assert run(*words).exit_code == 0
    return [json.loads(line) for line in file.read_text().splitlines()]


def cut(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows[0] = {**rows[0], "counters": {"ok": 59, "issued": 61}}
    return rows[:-20]


def doubled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*rows, rows[5]]


def backwards(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    at = next(n for n, row in enumerate(rows) if row.get("complete_ts"))
    times = {"invoke_ts": rows[at]["complete_ts"], "complete_ts": rows[at]["invoke_ts"]}
    return [*rows[:at], {**rows[at], **times}, *rows[at + 1 :]]


@pytest.mark.parametrize("spoiled", [cut, doubled, backwards])
def test_what_check_calls_corrupt_is_read_by_no_specification(
    made: list[dict[str, Any]], spoiled: Any, tmp_path: Path
) -> None:
    file = tmp_path / "h.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in spoiled(list(made))))
    checked = run("check", str(file))
    said = run("spec", "conform", "register", str(file))
    assert isinstance(checked.exception, HistoryError) and isinstance(said.exception, HistoryError)
    assert str(said.exception) == str(checked.exception)
    assert "the history is corrupt" in said.exception.message


def test_an_operation_that_completes_before_it_is_invoked_is_no_history() -> None:
    backwards = [Op(op_id=4, process_id=0, op_type="read", invoke_ts=9, complete_ts=3)]
    with pytest.raises(HistoryError, match="operation 4 completes before"):
        conform_history(model_of(Register()), backwards)


def test_what_takes_too_long_is_inconclusive_and_says_what_to_do() -> None:
    told: list[str] = []
    watch = Watch(within_s=0.05, tell=told.append)
    said = conform_history(model_of(Queue()), ops(ENQUEUED), frontier_max=10**9, watch=watch)
    assert said.verdict == "inconclusive" and "within 0.05 s" in said.reason
    for what in ("--within", "too_late", "per_key", "fewer operations"):
        assert what in said.reason


ENQUEUED = "\n".join(
    [f"{n} enqueue {n} -> @{n + 1}-{n + 400}" for n in range(14)] + ["20 dequeue -> 13 @600-601"]
)


def test_what_takes_too_much_memory_is_inconclusive() -> None:
    watch = Watch(memory_mb=1)
    said = conform_history(model_of(Queue()), ops(ENQUEUED), frontier_max=10**9, watch=watch)
    assert said.verdict == "inconclusive" and "1 MB of memory" in said.reason


def test_the_command_comes_back(tmp_path: Path) -> None:
    rows = [{"schema": "dstest.history/1", "workload": "queue", "clock": None, "source": "mine"}]
    rows += [json.loads(json.dumps(_row(op))) for op in ops(ENQUEUED)]
    file = tmp_path / "h.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("--frontier", "100000000", "--within", "0.2", "--json")
    said = run("spec", "conform", "queue", str(file), *words)
    assert said.exit_code == Exit.NOT_PROVEN, said.output
    assert json.loads(said.stdout)["verdict"] == "inconclusive"


def _row(op: Op) -> dict[str, Any]:
    return {name: getattr(op, name) for name in FIELDS}


class OneForAll(Spec):
    """A register that knows of no keys."""

    def initial(self) -> Iterator[Any]:
        return Register().initial()  # type: ignore[return-value]

    write, read = Register.write, Register.read

    @maps("write")
    def of_write(self, record: Record) -> Iterator[Step]:
        yield Step("write", (record.input,))

    @maps("read")
    def of_read(self, record: Record) -> Iterator[Step]:
        yield Step("read", (record.output,))


TWO_KEYS = """
0 write[a] 1 -> @1-2
1 write[b] 2 -> @3-4
0 read[a] -> 1 @5-6
"""


def test_keys_that_nothing_looks_at_are_told() -> None:
    with pytest.raises(ConfigError, match="of 2 keys, and nothing of OneForAll looks at a key"):
        conform_history(model_of(OneForAll()), ops(TWO_KEYS))

    class Said(OneForAll):
        per_key = False

    class Apart(OneForAll):
        per_key = True

    assert conform_history(model_of(Said()), ops(TWO_KEYS)).verdict == "reject"
    assert conform_history(model_of(Apart()), ops(TWO_KEYS)).verdict != "reject"


class Lax(Queue):
    """Compares what was dequeued with the first element alone."""

    @maps("take")
    def of_take(self, record: Record, s: Any) -> Iterator[Step]:
        for oldest in s.waiting[:1]:
            if record.output == 1 or oldest != 1:
                yield Step("dequeue", (oldest,))


def test_most_wrong_outputs_have_to_be_refused() -> None:
    text = "0 enqueue 1 -> @1-2\n0 take -> 1 @3-4"
    text += "".join(
        f"\n0 enqueue {n} -> @{4 * n}-{4 * n + 1}\n0 take -> {n} @{4 * n + 2}-{4 * n + 3}"
        for n in range(2, 8)
    )
    said = conform_history(model_of(Lax()), ops(text))
    (one,) = (one for one in said.altered if one.kind == "take")
    assert 0 < one.nobodys_refused < one.nobodys / 2
    assert said.verdict == "vacuous" and "wrong outputs of take were accepted" in said.weak[0]
    assert any("accepted: " in line for line in lines(said))
    sound = conform_history(model_of(Queue()), ops(text.replace("take", "dequeue")))
    (one,) = (one for one in sound.altered if one.kind == "dequeue")
    assert (sound.verdict, one.nobodys_refused) == ("accept", one.nobodys)


def test_an_output_that_is_wrong_later_is_noticed_there() -> None:
    """Two that wait may come in any order of their concurrent enqueues, and each only once."""
    text = "0 enqueue 1 -> @1-9\n1 enqueue 2 -> @1-9\n0 dequeue -> 1 @10-11\n0 dequeue -> 2 @12-13"
    said = conform_history(model_of(Queue()), ops(text))
    (one,) = (one for one in said.altered if one.kind == "dequeue")
    assert (one.refused, said.verdict) == (one.tried, "accept")


def test_a_dequeue_of_nothing_is_told_with_what_it_returned() -> None:
    said = conform_history(model_of(Queue()), ops("0 enqueue 1 -> @1-2\n0 dequeue -> null @3-4"))
    assert said.verdict == "reject" and said.record == "dequeue process=0 output=None"


def mapped(body: str) -> str:
    return f"""
from dstest.spec import Spec, Step, action, maps

class Taken(Spec):
    def initial(self):
        yield (0,)

    @action(worker=(1, 2))
    def take(self, s, worker):
        return (worker,)

    @maps("take")
    def of_take(self, record):
        {body}
"""


@pytest.mark.parametrize(
    ("body", "said", "remedy"),
    [
        ('yield Step("take", record.input)', "no tuple", "comma"),
        ('yield Step("take", "a")', "no tuple", "comma"),
        ('yield Step("take")', "no action with its arguments of Taken", "worker"),
        ('return Step("take", (1,))', "returns a step", "yield"),
        ("pass", "gives nothing", "yield"),
    ],
)
def test_a_mapping_that_gives_no_step_is_told_at_its_line(
    body: str, said: str, remedy: str, tmp_path: Path
) -> None:
    from dstest.spec.compose import load

    file = tmp_path / "taken.py"
    file.write_text(mapped(body))
    line = 14 if body.startswith("yield") else 12
    with pytest.raises(ConfigError) as caught:
        conform_history(load(str(file)), ops("0 take 1 -> @1-2"))
    assert f"{file}, line {line}" in caught.value.message and said in caught.value.message
    assert remedy in str(caught.value.remedy)
