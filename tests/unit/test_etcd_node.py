"""Scripts that run on an etcd node, and tokens: joining anew survives its own death."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import shlex
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.systems.etcd import on_node
from clusters.systems.etcd.agents.rejoin import main
from clusters.systems.etcd.on_node import AUTH_REVISION, token

pytestmark = pytest.mark.slow


def test_a_token_is_one_of_rfc_7519() -> None:
    header, body, signature = token("secret").split(".")
    wanted = hmac.new(b"secret", f"{header}.{body}".encode(), hashlib.sha256).digest()
    assert base64.urlsafe_b64decode(signature + "=") == wanted
    said = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert said == {"revision": AUTH_REVISION, "username": "root"}
    assert token("other") != token("secret")


def test_scripts_are_shell() -> None:
    texts = [
        on_node.rejoin_script(["http://a:1"], "http://b:2", "token"),
        on_node.BACK_UP,
        on_node.RESTORE_IF_DONE,
    ]
    for text in texts:
        subprocess.run(["sh", "-n"], input=text, text=True, check=True, timeout=60)
    config = json.loads(shlex.split(texts[0].splitlines()[1])[3])
    assert config["headers"] == {"Authorization": "token"}


class Cluster:
    """The members as a peer's gateway tells them."""

    def __init__(self) -> None:
        self.members: list[dict[str, Any]] = [{"ID": "7", "peerURLs": ["http://mine"]}]
        self.asked: list[str] = []

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.asked.append(path.rpartition("/")[2])
        known = [m["ID"] for m in self.members]
        if path.endswith("list"):
            return 200, {"members": self.members}
        if path.endswith("remove"):
            if body["ID"] not in known:
                return 404, {"error": "etcdserver: member not found"}
            self.members = [m for m in self.members if m["ID"] != body["ID"]]
        if path.endswith("add"):
            if self.members:
                return 400, {"error": "etcdserver: Peer URLs already exists"}
            self.members = [{"ID": "8", **body}]
        if path.endswith("promote"):
            self.members[0]["isLearner"] = False
        return 200, {}


@pytest.fixture
def cluster() -> Iterator[tuple[Cluster, str]]:
    known = Cluster()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            status, answer = known.answer(self.path, json.loads(self.rfile.read(size)))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: Any) -> None:
            return None

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket.settimeout(1.0)  # whoever went before it was accepted would be waited for
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield known, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def config(cluster: tuple[Cluster, str], tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "data" / "member").mkdir(parents=True)
    for name in ("start", "stop"):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\necho {name} >>{tmp_path}/log\n")
        script.chmod(0o755)
    paths: dict[str, Any] = {n: str(tmp_path / n) for n in ("data", "removed")}
    paths |= {n: [str(tmp_path / n)] for n in ("start", "stop")}
    dead = "http://127.0.0.1:9"
    return {"peers": [dead, cluster[1]], "mine": "http://mine", "headers": {}, **paths}


@pytest.mark.parametrize("words", [[], ["learner"]], ids=["voter", "learner"])
def test_a_doomed_member_joins_as_another(
    cluster: tuple[Cluster, str], config: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    known, _ = cluster
    Path(config["removed"]).write_text("7")
    main([json.dumps(config), *words])
    assert [m["ID"] for m in known.members] == ["8"]
    assert not known.members[0]["isLearner"]
    assert ("promote" in known.asked) == bool(words)
    assert list(Path(config["data"]).iterdir()) == []
    assert not Path(config["removed"]).exists()
    assert (tmp_path / "log").read_text().split() == ["stop", "start"]


def test_what_died_after_the_removal_or_after_the_adding_goes_on(
    cluster: tuple[Cluster, str], config: dict[str, Any]
) -> None:
    known, _ = cluster
    for members in ([], [{"ID": "8", "peerURLs": ["http://mine"]}]):
        known.members = list(members)
        Path(config["removed"]).write_text("7")
        main([json.dumps(config)])
        assert [m["ID"] for m in known.members] == ["8"]


def test_a_member_that_is_not_doomed_is_only_started(
    cluster: tuple[Cluster, str], config: dict[str, Any], tmp_path: Path
) -> None:
    main([json.dumps(config)])
    assert cluster[0].asked == ["list"]
    assert (Path(config["data"]) / "member").exists()
    assert (tmp_path / "log").read_text().split() == ["start"]
