"""The agent's verbs, against the real agent as a child process over pipes."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from polling import until, wait_for

from clusters.remote import bundle
from clusters.remote.agent_client import AgentClient
from clusters.remote.connection import end_janitors, local_agent
from dstest.core import limits
from dstest.core.errors import LabError, NotALabNode, RemoteError, RemoteLost, RemoteTimeout

pytestmark = pytest.mark.slow

ANSWER_S = 60.0
"""Long enough for an answer of an agent that has nothing else to do."""

Body = Callable[[AgentClient, int], Awaitable[None]]


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    path = tmp_path / "marker"
    path.write_text("lab-7\n")
    return path


@pytest.fixture
def with_agent(tmp_path: Path, marker: Path) -> Any:
    """Run a coroutine function with a client and the agent's pid."""
    run = tmp_path / "run"

    def go(body: Body) -> None:
        async def main() -> None:
            async with local_agent("lab-7", run=run, marker=marker) as (client, pid):
                await body(client, pid)

        asyncio.run(main())

    yield go
    end_janitors(run)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "X"


async def exec_(client: AgentClient, *argv: str, **args: Any) -> Any:
    return await client.call("exec", {"argv": list(argv), **args}, 60.0)


def test_a_host_without_the_marker_is_left_untouched(tmp_path: Path) -> None:
    run = tmp_path / "run"

    async def main() -> None:
        async with local_agent("lab-7", run=run, marker=tmp_path / "none"):
            pass

    with pytest.raises(NotALabNode, match="carries no lab marker"):
        asyncio.run(main())
    assert not run.exists()


def test_a_node_of_another_lab_is_left_untouched(tmp_path: Path, marker: Path) -> None:
    run = tmp_path / "run"

    async def main() -> None:
        async with local_agent("lab-8", run=run, marker=marker):
            pass

    with pytest.raises(NotALabNode, match="belongs to lab 'lab-7'"):
        asyncio.run(main())
    assert not run.exists()


def test_exec_gives_status_and_both_streams(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        done = await exec_(client, "sh", "-c", "cat; echo oops >&2; exit 3", stdin="in\u00fc")
        assert (done["status"], done["stdout"], done["stderr"]) == (3, "in\u00fc", "oops\n")
        assert done["duration_ns"] > 0

    with_agent(body)


def test_exec_needs_no_shell_and_says_127_for_no_such_program(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        assert (await exec_(client, "echo", "$HOME; *"))["stdout"] == "$HOME; *\n"
        done = await exec_(client, "no-such-program")
        assert done["status"] == 127
        assert "no-such-program" in done["stderr"]

    with_agent(body)


def test_exec_feeds_large_input_while_it_reads_large_output(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        text = "x" * 3_000_000
        assert (await exec_(client, "cat", stdin=text))["stdout"] == text
        ignored = await exec_(client, "true", stdin=text)
        assert ignored["status"] == 0

    with_agent(body)


def test_output_beyond_the_bound_is_dropped_and_counted(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        done = await exec_(client, "head", "-c", "9000000", "/dev/zero")
        assert done["dropped"] == 9_000_000 - (4 << 20)
        assert done["status"] == 0

    # The zero bytes that are kept need six characters each in JSON: too large for one frame.
    async def refused(client: AgentClient, pid: int) -> None:
        with pytest.raises(LabError, match="larger than a frame"):
            await body(client, pid)
        done = await exec_(client, "sh", "-c", "yes | head -c 9000000")
        assert done["dropped"] == 9_000_000 - (4 << 20)

    with_agent(refused)


def test_a_deadline_kills_the_whole_group_and_leaves_the_connection(
    with_agent: Any, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"

    async def body(client: AgentClient, _: int) -> None:
        script = f"sleep 60 & echo $! $$ > {pids}; wait"
        with pytest.raises(RemoteTimeout, match="was killed"):
            await exec_(client, "sh", "-c", script, timeout_s=0.5)

        async def gone(pid: str) -> bool:
            return not (await client.call("procinfo", {"pid": int(pid)}, ANSWER_S))["alive"]

        for pid in pids.read_text().split():
            # A killed process that nobody has waited for may need a moment on a busy host.
            await until(partial(gone, pid))
        assert (await exec_(client, "true"))["status"] == 0

    with_agent(body)


def test_a_grandchild_that_keeps_the_output_open_does_not_hold_up_the_answer(
    with_agent: Any,
) -> None:
    async def body(client: AgentClient, _: int) -> None:
        started = time.monotonic()
        done = await exec_(client, "sh", "-c", "setsid sleep 5 & echo done")
        assert done["stdout"] == "done\n"
        assert time.monotonic() - started < 3

    with_agent(body)


def test_a_slow_program_delays_nothing_else(with_agent: Any, tmp_path: Path) -> None:
    async def body(client: AgentClient, _: int) -> None:
        script = f"touch {tmp_path}/began; until [ -e {tmp_path}/enough ]; do sleep 0.05; done"
        slow = asyncio.create_task(exec_(client, "sh", "-c", script))
        await until((tmp_path / "began").exists)
        for _turn in range(20):
            await client.call("ping", {}, ANSWER_S)
        assert not slow.done()
        (tmp_path / "enough").touch()
        assert (await slow)["status"] == 0

    with_agent(body)


def test_a_missed_deadline_leaves_the_connection_usable(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        with pytest.raises(RemoteTimeout):
            await client.call("exec", {"argv": ["sleep", "0.3"]}, 0.05)
        await client.call("ping", {}, ANSWER_S)
        await until(lambda: client.late_answers == 1)

    with_agent(body)


def test_a_killed_agent_fails_all_open_calls(with_agent: Any, tmp_path: Path) -> None:
    async def body(client: AgentClient, pid: int) -> None:
        await client.call("lease_arm", {"id": "x", "heal": [["true"]], "ttl_s": 60}, 60.0)
        began = [tmp_path / name for name in "abc"]
        scripts = [f"touch {path}; exec sleep 2" for path in began]
        calls = [asyncio.create_task(exec_(client, "sh", "-c", script)) for script in scripts]
        await until(lambda: all(path.exists() for path in began))
        os.kill(pid, signal.SIGKILL)
        for call in calls:
            with pytest.raises(RemoteLost):
                await call
        with pytest.raises(RemoteLost):
            await client.call("ping", {}, ANSWER_S)

    with_agent(body)


def test_programs_under_way_end_with_the_connection(with_agent: Any, tmp_path: Path) -> None:
    pids = tmp_path / "pid"

    async def body(client: AgentClient, _: int) -> None:
        script = f"echo $$ > {pids}; exec sleep 60"
        call = asyncio.create_task(exec_(client, "sh", "-c", script, timeout_s=60))
        await until(lambda: pids.exists() and pids.read_text())
        call.cancel()

    with_agent(body)
    wait_for(lambda: _state(int(pids.read_text())) in "ZX")


def test_a_daemon_outlives_the_agent_and_is_known_by_its_start_time(
    with_agent: Any, tmp_path: Path
) -> None:
    log, pidfile = tmp_path / "logs" / "d.log", tmp_path / "d.pid"
    facts: dict[str, int] = {}

    async def start(client: AgentClient, _: int) -> None:
        argv = ["sh", "-c", "echo started; exec sleep 60"]
        args = {"argv": argv, "log": str(log), "pidfile": str(pidfile), "cwd": str(tmp_path)}
        facts.update(await client.call("spawn", args, ANSWER_S))

    async def look_and_kill(client: AgentClient, _: int) -> None:
        seen = await client.call("procinfo", {"pid": facts["pid"]}, ANSWER_S)
        assert seen["alive"]
        assert seen["start_time"] == facts["start_time"]
        other = {**facts, "start_time": facts["start_time"] - 1, "signum": 9}
        with pytest.raises(LabError, match="another one"):
            await client.call("signal", other, ANSWER_S)
        await client.call("signal", {**facts, "signum": 9}, ANSWER_S)

        async def gone() -> bool:
            return not (await client.call("procinfo", {"pid": facts["pid"]}, ANSWER_S))["alive"]

        await until(gone)
        with pytest.raises(LabError, match="is gone"):
            await client.call("signal", {**facts, "pid": 2**22 - 1, "signum": 9}, ANSWER_S)

    with_agent(start)
    assert int(pidfile.read_text()) == facts["pid"]
    with_agent(look_and_kill)
    assert log.read_text() == "started\n"


def test_a_daemon_that_cannot_start_is_an_error(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        with pytest.raises(RemoteError) as caught:
            await client.call("spawn", {"argv": ["/no/such"], "log": "/dev/null"}, ANSWER_S)
        assert caught.value.status == 2

    with_agent(body)


def test_files_are_written_whole_and_read_from_either_end(with_agent: Any, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"

    async def body(client: AgentClient, _: int) -> None:
        data = base64.b64encode(b"0123456789").decode()
        await client.call("write", {"path": str(path), "data": data, "mode": 0o600}, ANSWER_S)
        assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"0123456789", 0o600)
        assert [entry.name for entry in path.parent.iterdir()] == ["file"]
        tail = await client.call("read", {"path": str(path), "offset": -3}, ANSWER_S)
        assert (base64.b64decode(tail["data"]), tail["size"]) == (b"789", 10)
        part = await client.call("read", {"path": str(path), "offset": 2, "bytes_max": 4}, ANSWER_S)
        assert base64.b64decode(part["data"]) == b"2345"
        assert (await client.call("stat", {"path": str(path)}, ANSWER_S))["size"] == 10
        assert not (await client.call("stat", {"path": "/no/such"}, ANSWER_S))["exists"]
        assert (await client.call("statvfs", {"path": str(tmp_path)}, ANSWER_S))["free"] > 0
        with pytest.raises(RemoteError):
            await client.call("read", {"path": "/no/such"}, ANSWER_S)

    with_agent(body)


def test_unknown_verbs_and_wrong_arguments_are_answered(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        with pytest.raises(LabError, match="no verb 'reboot'"):
            await client.call("reboot", {}, ANSWER_S)
        with pytest.raises(LabError, match="TypeError"):
            await client.call("exec", {"command": "true"}, ANSWER_S)
        await client.call("ping", {}, ANSWER_S)

    with_agent(body)


def test_probes_count_by_token_and_source_in_both_families(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        port = 17071
        heard = await client.call("probe_listen", {"port": port}, ANSWER_S)
        assert heard == await client.call("probe_listen", {"port": port}, ANSWER_S)
        args = {"targets": ["127.0.0.1", "::1"], "port": port, "token": "t1", "count": 4}
        sent = await client.call("probe_send", {**args, "spacing_ms": 1}, ANSWER_S)
        assert {target: row["sent"] for target, row in sent.items()} == {"127.0.0.1": 4, "::1": 4}

        async def all_counted() -> bool:
            counts = await client.call("probe_counts", {"token": "t1"}, ANSWER_S)
            assert all(n <= 4 for n in counts.values())
            return bool(counts == {"127.0.0.1": 4, "::1": 4})

        await until(all_counted)
        assert await client.call("probe_counts", {"token": "t2"}, ANSWER_S) == {}
        udp = (await client.call("counters", {}, ANSWER_S))["Udp"]
        assert udp["InDatagrams"] >= 0

    with_agent(body)


def test_connections_are_opened_refused_or_not_answered(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        port = 17075
        both = ["127.0.0.1", "::1"]
        await client.call("probe_listen", {"port": port}, ANSWER_S)
        asked = {"targets": both, "port": port}
        assert await client.call("probe_connect", asked, ANSWER_S) == dict.fromkeys(both, "")
        asked = {"targets": both, "port": port + 1}
        found = await client.call("probe_connect", asked, ANSWER_S)
        assert found == dict.fromkeys(both, "ECONNREFUSED")
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            asked = {"targets": ["127.0.0.1"], "port": full.getsockname()[1], "wait_s": 0.2}
            said = [await client.call("probe_connect", asked, ANSWER_S) for _ in range(3)]
        assert said[-1] == {"127.0.0.1": "ETIMEDOUT"}

    with_agent(body)


def test_a_request_that_fits_no_frame_is_never_sent(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        with pytest.raises(LabError, match="does not fit"):
            await exec_(client, "cat", stdin="x" * (limits.AGENT_FRAME_BYTES_MAX + 1))
        await client.call("ping", {}, ANSWER_S)

    with_agent(body)


@pytest.mark.parametrize(
    ("bytes_in", "said"),
    [
        (struct.pack(">I", 3) + b"}{!", "Expecting"),
        (struct.pack(">I", 2) + b"[]", "must be an object"),
        (struct.pack(">I", 5) + b"\xff\xfe\xfd\xfc\xfb", "decode"),
        (struct.pack(">I", limits.AGENT_FRAME_BYTES_MAX + 1) + b"x", "larger than"),
    ],
)
def test_what_is_no_frame_ends_the_agent_with_a_word(
    bytes_in: bytes, said: str, tmp_path: Path, marker: Path
) -> None:
    run = tmp_path / "run"
    first = bundle.first_frame("lab-7", run=str(run), marker=str(marker))
    try:
        done = subprocess.run(
            bundle.start_argv(), input=first + bytes_in, capture_output=True, timeout=20
        )
        assert done.returncode == 2
        assert said in done.stdout.decode(errors="replace")
    finally:
        end_janitors(run)


def test_probes_tell_what_came_twice_and_late_and_how_long_echoes_take(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        port = 17073
        await client.call("probe_listen", {"port": port}, ANSWER_S)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for number in (0, 2, 1, 1, 5, 3, 3, 6):
                sock.sendto(b"dstest-probe:t#%d" % number, ("127.0.0.1", port))
            for junk in (b"dstest-probe:t", b"dstest-probe:t#x", b"dstest-probe:t#99999999"):
                sock.sendto(junk, ("127.0.0.1", port))
        found: dict[str, Any] = {}

        async def all_came() -> bool:
            found.update(await client.call("probe_arrivals", {"token": "t"}, ANSWER_S))
            return bool(found and found["127.0.0.1"]["came"] >= 8)

        await until(all_came)
        assert found == {"127.0.0.1": {"came": 8, "different": 6, "late": 2}}
        args = {"targets": ["127.0.0.1", "::1"], "port": port, "token": "e", "count": 5}
        times = await client.call("probe_round_trips", {**args, "wait_s": 1.0}, ANSWER_S)
        assert {target: len(row) for target, row in times.items()} == {"127.0.0.1": 5, "::1": 5}
        assert all(0 <= us < 1_000_000 for row in times.values() for us in row)
        nobody = {**args, "port": 17074, "spacing_ms": 1, "wait_s": 0.05}
        mute = await client.call("probe_round_trips", nobody, ANSWER_S)
        assert mute == {"127.0.0.1": [], "::1": []}

    with_agent(body)


def test_services_are_asked_for_by_the_names_that_a_deployment_uses(with_agent: Any) -> None:
    """This host is no member: each verb is there, and refuses."""

    async def body(client: AgentClient, pid: int) -> None:
        for verb, given in (
            ("signal_services", {"number": int(signal.SIGSTOP), "services": []}),
            ("strike", {"act": "kill", "services": []}),
        ):
            with pytest.raises(LabError, match="no member was deployed on this node"):
                await client.call(verb, given, ANSWER_S)
        with pytest.raises(LabError, match="SIGKILL is sent by `kill`"):
            await client.call("signal_services", {"number": 9, "services": []}, ANSWER_S)

    with_agent(body)
