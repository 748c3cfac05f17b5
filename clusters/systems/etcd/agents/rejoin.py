"""Runs on a node: joins an etcd cluster anew after a removal, with empty data, and starts etcd.

    python3 rejoin.py CONFIG [learner]

CONFIG is JSON: `peers` (the other members' client URLs), `mine` (our peer URL), `headers` of each
request, the paths `data` and `removed`, and the commands `start` and `stop`. Where the file
`removed` exists, it holds the id of a member that is to go for good: the server is stopped, the
member removed unless it is, the data wiped, a new member added, and the file deleted. Each step may
be repeated after a death in between. Then etcd is started and becomes a voter, with `learner` as a
learner first.
Exits 0 when it votes; 1 when eight and a half seconds were not enough, to be called again.
Standard library only.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

PATIENCE_S = 8.5
"""A janitor gives a command ten seconds."""

ASK_TIMEOUT_S = 2.0
POLL_S = 0.3


class Rejoin:
    """One go."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.deadline = time.monotonic() + PATIENCE_S

    def ask(self, path: str, body: dict[str, Any]) -> Any:
        """The first good answer of a peer; LookupError with the last reason."""
        why = "no peer"
        for base in self.config["peers"]:
            data = json.dumps(body).encode()
            request = urllib.request.Request(base + path, data, self.config["headers"])
            try:
                with urllib.request.urlopen(request, timeout=ASK_TIMEOUT_S) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                why = error.read().decode("utf-8", "replace")
            except OSError as error:
                why = str(error)
        raise LookupError(f"{path}: {why}")

    def insist(self, path: str, body: dict[str, Any], *fine: str) -> Any:
        """Ask until it is done, or refused for a reason in `fine`: then None."""
        while True:
            try:
                return self.ask(path, body)
            except LookupError as error:
                if any(text in str(error) for text in fine):
                    return None
                self.wait(str(error))

    def wait(self, why: str) -> None:
        if time.monotonic() > self.deadline:
            sys.exit(why)
        time.sleep(POLL_S)

    def leave(self, marker: Path, as_learner: bool) -> None:
        """The old member goes, a new one is added in its place."""
        subprocess.run(self.config["stop"], check=True)
        gone = ("member not found", "permanently removed")
        self.insist("/v3/cluster/member/remove", {"ID": marker.read_text().strip()}, *gone)
        for entry in os.scandir(self.config["data"]):
            shutil.rmtree(entry.path) if entry.is_dir() else os.unlink(entry.path)
        added = {"peerURLs": [self.config["mine"]], "isLearner": as_learner}
        self.insist("/v3/cluster/member/add", added, "Peer URLs already exists")
        marker.unlink()

    def run(self, as_learner: bool) -> None:
        marker = Path(self.config["removed"])
        if marker.exists():
            self.leave(marker, as_learner)
        subprocess.run(self.config["start"], check=True)
        while True:
            listed = self.insist("/v3/cluster/member/list", {})["members"]
            mine = [m for m in listed if self.config["mine"] in m["peerURLs"]]
            if mine and not mine[0].get("isLearner"):
                return
            if mine:
                self.insist("/v3/cluster/member/promote", {"ID": mine[0]["ID"]}, "not a learner")
            self.wait("not a voting member")


def main(argv: list[str]) -> None:
    Rejoin(json.loads(argv[0])).run(argv[1:] == ["learner"])


if __name__ == "__main__":
    main(sys.argv[1:])
