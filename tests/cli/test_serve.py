"""`dstest serve` as a command: it says where it is, ends when told to, and refuses what is no
store."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from failing_runs import passing
from typer.testing import CliRunner

from dstest.cli.app import app

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[2] / "docs" / "store.md"
REF = "a/20260101T000000Z-7"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "store"
    passing(folder / REF)
    return folder


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_and_ends_when_told_to(
    store: Path, tmp_path: Path, number: signal.Signals
) -> None:
    before = sorted((p, p.stat().st_mtime_ns) for p in store.rglob("*"))
    argv = [sys.executable, "-m", "dstest", "serve", str(store), "--port", "0", "--json"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            assert told["url"] == f"http://127.0.0.1:{told['port']}/"
            with urllib.request.urlopen(told["url"], timeout=60) as answer:
                assert b"Runs" in answer.read()
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "", "")
    assert before == sorted((p, p.stat().st_mtime_ns) for p in store.rglob("*"))
    assert list(tmp_path.rglob("serve-*.sqlite"))


def test_a_port_that_is_taken_is_refused(store: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(app, ["serve", str(store), "--no-cache", "--port", port])
    assert "cannot listen" in str(done.exception)
    assert getattr(done.exception, "exit_code", None) == 2


def test_another_host_is_said(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dstest.serve import http

    asked: list[str] = []
    monkeypatch.setattr(http, "serve", lambda index, host, port, ready: asked.append(host))
    for host, warned in (("0.0.0.0", True), ("127.0.0.1", False), ("::1", False)):
        done = CliRunner().invoke(app, ["serve", str(store), "--no-cache", "--host", host])
        assert done.exit_code == 0
        assert ("whoever reaches it reads everything" in done.stderr.replace("\n", " ")) is warned
    assert asked == ["0.0.0.0", "127.0.0.1", "::1"]


def test_pages_as_files(store: Path, tmp_path: Path) -> None:
    to = tmp_path / "pages"
    words = ["serve", str(store), "--no-cache", "--export", str(to)]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told == {"pages": 7, "runs": 1, "index": str(to / "index.html")}
    assert (to / "index.html").is_file()
    again = CliRunner().invoke(app, words)
    assert getattr(again.exception, "exit_code", None) == 2


@pytest.mark.parametrize(
    ("name", "said"), [("none", "is not there"), ("empty", "holds no run"), (REF, "single run")]
)
def test_what_is_no_store_is_refused(store: Path, tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "empty").mkdir()
    place = store / name if name == REF else tmp_path / name
    done = CliRunner().invoke(app, ["serve", str(place), "--no-cache"])
    assert said in str(done.exception)
    assert getattr(done.exception, "exit_code", None) == 2


def test_the_page_about_it_names_every_option() -> None:
    text = DOCS.read_text()
    shown = CliRunner().invoke(app, ["serve", "--help"], terminal_width=200).output
    options = set(re.findall(r"--[a-z-]+", shown)) - {"--help", "--cache"}
    assert options == {"--host", "--port", "--export", "--no-cache", "--json"}
    assert [one for one in options if one not in text] == []


@pytest.mark.parametrize("port", ["99999", "-1"])
def test_a_port_that_is_none_is_refused_in_our_words(store: Path, port: str) -> None:
    done = CliRunner().invoke(app, ["serve", str(store), "--no-cache", "--port", port])
    assert getattr(done.exception, "exit_code", None) == 2
    assert str(done.exception).startswith(f"--port {port}: ")
