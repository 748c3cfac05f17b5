"""What can be read once only is judged whole: a pipe, `/dev/stdin`."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from forked import bin_folder, dstest

pytestmark = pytest.mark.slow

WRONG = """\
{:process 0, :type :invoke, :f :write, :value 1, :index 0}
{:process 0, :type :ok, :f :write, :value 1, :index 1}
{:process 0, :type :invoke, :f :read, :value nil, :index 2}
{:process 0, :type :ok, :f :read, :value 77, :index 3}
"""
RIGHT = """\
{:process 0, :type :invoke, :f :write, :value 2, :index 4}
{:process 0, :type :ok, :f :write, :value 2, :index 5}
{:process 0, :type :invoke, :f :read, :value nil, :index 6}
{:process 0, :type :ok, :f :read, :value 2, :index 7}
"""


def check(*parts: str, words: tuple[str, ...] = ()) -> tuple[int, str]:
    """`dstest check /dev/stdin`, of what is written in parts."""
    with subprocess.Popen(
        [bin_folder() / "dstest", "check", "/dev/stdin", *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as child:  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        for part in parts:
            child.stdin.write(part.encode())
            child.stdin.flush()
            time.sleep(0.2)
        child.stdin.close()
        told = child.stdout.read().decode()
        return child.wait(60), told


@pytest.mark.parametrize("form", [(), ("--format", "edn")])
def test_what_comes_first_is_not_lost(form: tuple[str, ...]) -> None:
    words = ("--model", "cas-register", *form)
    comment = ";" * (8191 - len(WRONG)) + "\n"
    for parts in ((WRONG + RIGHT,), (WRONG + comment + RIGHT,), (WRONG, RIGHT)):
        code, told = check(*parts, words=words)
        assert code == 1, told
    assert check(RIGHT, words=words)[0] == 0


def test_transactions_and_their_proof(tmp_path: Path) -> None:
    rows = [[["w", "x", 1]], [["r", "x", 1]], [["w", "x", 2]], [["r", "x", 2]]]
    events = [
        {"process": at, "f": "txn", "type": kind, "value": value}
        for at, value in enumerate(rows)
        for kind in ("invoke", "ok")
    ]
    text = "\n".join(json.dumps({**event, "index": n}) for n, event in enumerate(events))
    order = tmp_path / "order.json"
    words = ("--workload", "rw-register", "--proof", str(order))
    code, told = check(text[:100], text[100:], words=words)
    assert (code, order.exists()) == (0, True), told
    done = dstest("proof", "/dev/stdin", order, input=text)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_has_no_end_is_bounded() -> None:
    done = dstest("check", "/dev/zero", "--budget-mb", "3")
    assert done.returncode == 3, done.stderr
    assert "more than 3 MB came out of /dev/zero" in done.stdout + done.stderr
