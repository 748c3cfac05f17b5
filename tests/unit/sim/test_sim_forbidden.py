"""What no simulation can see is found in the text of a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from dstest.core.errors import ConfigError
from dstest.core.protocols import SystemTraits
from dstest.sim import simulate
from dstest.sim.forbidden import forbidden_in

GOOD = """
import asyncio, random, socket
async def main(numbers: random.Random):
    await asyncio.sleep(numbers.random())
    made = random.Random(3)
    opened.open("log")
    time = asyncio.get_running_loop().time()
    socket.TCP_NODELAY
"""

BAD = {
    "import time\ntime.time()": "time.time",
    "import time as t\nt.monotonic_ns()": "time.monotonic_ns",
    "from time import sleep\nsleep(1)": "time.sleep",
    "import random\nrandom.random()": "random.random",
    "from random import choice as pick\npick([1])": "random.choice",
    "import os\nos.urandom(4)": "os.urandom",
    "import socket\nsocket.create_connection(('a', 1))": "socket.create_connection",
    "import threading\nthreading.Thread(target=print)": "threading.Thread",
    "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor()": (
        "concurrent.futures.ThreadPoolExecutor"
    ),
    "from datetime import datetime\ndatetime.now()": "datetime.datetime.now",
    "import datetime as d\nd.date.today()": "datetime.date.today",
    "with open('x') as f:\n    pass": "open",
    "import subprocess\nsubprocess.run([])": "subprocess.run",
}


def test_what_may_be_called(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(GOOD)
    assert forbidden_in(file) == []


@pytest.mark.parametrize("text", BAD, ids=list(BAD.values()))
def test_what_may_not(text: str, tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(f"{GOOD}\n{text}\n")
    assert [one.call for one in forbidden_in(file)] == [BAD[text]]
    line = f"{GOOD}\n{text}".count("\n") + (0 if "with" in text else 1)
    assert forbidden_in(file)[0].line == line


def test_a_system_with_such_a_call_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "planted_server.py"
    file.write_text("import time\n\ndef stamp():\n    return time.time()\n")
    monkeypatch.syspath_prepend(tmp_path)
    system = simulate.registry.load("systems", "toykv")
    simulable = SystemTraits.of(system).simulable
    assert simulable is not None
    simulate.wanted_of("toykv", "register", [])
    monkeypatch.setattr(simulable, "modules", (*simulable.modules, "planted_server"))
    with pytest.raises(ConfigError, match=r"planted_server.py, line 4: time.time\(\)"):
        simulate.wanted_of("toykv", "register", [])
