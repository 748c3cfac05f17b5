"""What no simulation can see is found in the text of a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.sim import simulate
from dstest.sim.forbidden import forbidden_in

GOOD = """
import asyncio, os, random, socket, uuid
import time as moments
async def main(numbers: random.Random):
    await asyncio.sleep(numbers.random())
    made = random.Random(3)
    opened.open("log")
    time = asyncio.get_running_loop().time()
    socket.TCP_NODELAY, socket.htons(80), socket.ntohs(80), socket.inet_aton("1.1.1.1")
    uuid.UUID("0" * 32), uuid.uuid5(uuid.NAMESPACE_DNS, "n1")
    moments.strftime("%Y", (2026, 1, 1, 0, 0, 0, 0, 1, 0))
    os.path.join("a", "b")
    self.id(), self.hash(3), name.replace("a", "b"), text.exit()
    name.replace("a", "b") / 2
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
    "from pathlib import Path\nPath('x').read_bytes()": "pathlib.Path.read_bytes",
    "import pathlib as p\np.Path('x').write_text('')": "pathlib.Path.write_text",
    "from pathlib import Path as P\n(P('x') / 'y').open()": "pathlib.Path.open",
    "from pathlib import Path\nhere = Path('x')\nhere.parent.read_text()": "pathlib.Path.read_text",
    "from pathlib import Path\ndef f(at: Path): at.write_bytes(b'')": "pathlib.Path.write_bytes",
    "import io\nio.open('x')": "io.open",
    "import os\nos.getrandom(4)": "os.getrandom",
    "import os\nos.kill(1, 9)": "os.kill",
    "import os\nos.system('x')": "os.system",
    "from datetime import datetime\ndatetime.today()": "datetime.datetime.today",
    "import numpy as np\nnp.random.rand()": "numpy.random.rand",
    "import tempfile\ntempfile.mkdtemp()": "tempfile.mkdtemp",
    "import sys\nsys.exit(0)": "sys.exit",
    "exit(0)": "exit",
    "hash('x')": "hash",
    "id(object())": "id",
    "import random\nrandom.Random()": "random.Random",
    "import time\ntime.strftime('%Y')": "time.strftime",
    "import uuid\nuuid.uuid4()": "uuid.uuid4",
    "from time import *": "from time import *",
    "from os import *": "from os import *",
    "from datetime import *": "from datetime import *",
}


def test_what_may_be_called(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(GOOD)
    assert forbidden_in(file) == ()


@pytest.mark.parametrize("text", BAD, ids=list(BAD.values()))
def test_what_may_not(text: str, tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(f"{GOOD}\n{text}\n")
    assert [one.call for one in forbidden_in(file)] == [BAD[text]]
    line = f"{GOOD}\n{text}".count("\n") + (0 if "with" in text else 1)
    assert "()()" not in str(forbidden_in(file)[0]) and "*()" not in str(forbidden_in(file)[0])
    assert forbidden_in(file)[0].line == line


def test_a_system_with_such_a_call_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "planted_server.py"
    file.write_text("import time\n\ndef stamp():\n    return time.time()\n")
    monkeypatch.syspath_prepend(tmp_path)
    system = registry.load("systems", "toykv")
    simulable = system.simulable
    assert simulable is not None
    simulate.sim_spec_of("toykv", "register", [])
    monkeypatch.setattr(simulable, "modules", (*simulable.modules, "planted_server"))
    with pytest.raises(ConfigError, match=r"planted_server.py, line 4: time.time\(\)"):
        simulate.sim_spec_of("toykv", "register", [])


def test_a_system_that_names_no_modules_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    simulable = registry.load("systems", "toykv").simulable
    monkeypatch.setattr(simulable, "modules", ())
    with pytest.raises(ConfigError, match="does not name the modules"):
        simulate.sim_spec_of("toykv", "register", [])
