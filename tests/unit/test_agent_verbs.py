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
from pathlib import Path
from typing import Any

import pytest

from clusters.remote import bundle
from clusters.remote.agent_client import AgentClient
from clusters.remote.local_agent import end_janitors, local_agent
from dstest.core import limits
from dstest.core.errors import LabError, NotALabNode, RemoteError, RemoteLost, RemoteTimeout

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
    return await client.call("exec", {"argv": list(argv), **args}, 10.0)


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

        async def alive(pid: str) -> bool:
            return bool((await client.call("procinfo", {"pid": int(pid)}, 5.0))["alive"])

        for pid in pids.read_text().split():
            # A killed process that nobody has waited for may need a moment on a busy host.
            for _ in range(100):
                if not await alive(pid):
                    break
                await asyncio.sleep(0.02)
            assert not await alive(pid)
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


def test_a_slow_program_delays_nothing_else(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        slow = asyncio.create_task(exec_(client, "sleep", "0.5"))
        await asyncio.sleep(0.05)
        for _turn in range(20):
            await client.call("ping", {}, 5.0)
        assert not slow.done()
        assert (await slow)["status"] == 0

    with_agent(body)


def test_a_missed_deadline_leaves_the_connection_usable(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        with pytest.raises(RemoteTimeout):
            await client.call("exec", {"argv": ["sleep", "0.3"]}, 0.05)
        await client.call("ping", {}, 5.0)
        await asyncio.sleep(0.6)
        assert client.late_answers == 1

    with_agent(body)


def test_a_killed_agent_fails_all_open_calls(with_agent: Any) -> None:
    async def body(client: AgentClient, pid: int) -> None:
        await client.call("lease_arm", {"id": "x", "heal": [["true"]], "ttl_s": 60}, 10.0)
        calls = [asyncio.create_task(exec_(client, "sleep", "2")) for _ in range(3)]
        await asyncio.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
        for call in calls:
            with pytest.raises(RemoteLost):
                await call
        with pytest.raises(RemoteLost):
            await client.call("ping", {}, 5.0)

    with_agent(body)


def test_programs_under_way_end_with_the_connection(with_agent: Any, tmp_path: Path) -> None:
    pids = tmp_path / "pid"

    async def body(client: AgentClient, _: int) -> None:
        script = f"echo $$ > {pids}; exec sleep 60"
        call = asyncio.create_task(exec_(client, "sh", "-c", script, timeout_s=60))
        for _turn in range(500):
            if pids.exists() and pids.read_text():
                break
            await asyncio.sleep(0.01)
        call.cancel()

    with_agent(body)
    assert _state(int(pids.read_text())) in "ZX"


def test_a_daemon_outlives_the_agent_and_is_known_by_its_start_time(
    with_agent: Any, tmp_path: Path
) -> None:
    log, pidfile = tmp_path / "logs" / "d.log", tmp_path / "d.pid"
    facts: dict[str, int] = {}

    async def start(client: AgentClient, _: int) -> None:
        argv = ["sh", "-c", "echo started; exec sleep 60"]
        args = {"argv": argv, "log": str(log), "pidfile": str(pidfile), "cwd": str(tmp_path)}
        facts.update(await client.call("spawn", args, 5.0))

    async def look_and_kill(client: AgentClient, _: int) -> None:
        seen = await client.call("procinfo", {"pid": facts["pid"]}, 5.0)
        assert seen["alive"]
        assert seen["start_time"] == facts["start_time"]
        other = {**facts, "start_time": facts["start_time"] - 1, "signum": 9}
        with pytest.raises(LabError, match="another one"):
            await client.call("signal", other, 5.0)
        await client.call("signal", {**facts, "signum": 9}, 5.0)
        for _turn in range(500):
            if not (await client.call("procinfo", {"pid": facts["pid"]}, 5.0))["alive"]:
                break
            await asyncio.sleep(0.01)
        with pytest.raises(LabError, match="is gone"):
            await client.call("signal", {**facts, "pid": 2**22 - 1, "signum": 9}, 5.0)

    with_agent(start)
    assert int(pidfile.read_text()) == facts["pid"]
    with_agent(look_and_kill)
    assert log.read_text() == "started\n"


def test_a_daemon_that_cannot_start_is_an_error(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        with pytest.raises(RemoteError) as caught:
            await client.call("spawn", {"argv": ["/no/such"], "log": "/dev/null"}, 5.0)
        assert caught.value.status == 2

    with_agent(body)


def test_files_are_written_whole_and_read_from_either_end(with_agent: Any, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"

    async def body(client: AgentClient, _: int) -> None:
        data = base64.b64encode(b"0123456789").decode()
        await client.call("write", {"path": str(path), "data": data, "mode": 0o600}, 5.0)
        assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"0123456789", 0o600)
        assert [entry.name for entry in path.parent.iterdir()] == ["file"]
        tail = await client.call("read", {"path": str(path), "offset": -3}, 5.0)
        assert (base64.b64decode(tail["data"]), tail["size"]) == (b"789", 10)
        part = await client.call("read", {"path": str(path), "offset": 2, "bytes_max": 4}, 5.0)
        assert base64.b64decode(part["data"]) == b"2345"
        assert (await client.call("stat", {"path": str(path)}, 5.0))["size"] == 10
        assert not (await client.call("stat", {"path": "/no/such"}, 5.0))["exists"]
        assert (await client.call("statvfs", {"path": str(tmp_path)}, 5.0))["free"] > 0
        with pytest.raises(RemoteError):
            await client.call("read", {"path": "/no/such"}, 5.0)

    with_agent(body)


def test_unknown_verbs_and_wrong_arguments_are_answered(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        with pytest.raises(LabError, match="no verb 'reboot'"):
            await client.call("reboot", {}, 5.0)
        with pytest.raises(LabError, match="TypeError"):
            await client.call("exec", {"command": "true"}, 5.0)
        await client.call("ping", {}, 5.0)

    with_agent(body)


def test_probes_count_by_token_and_source_in_both_families(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        port = 17071
        heard = await client.call("probe_listen", {"port": port}, 5.0)
        assert heard == await client.call("probe_listen", {"port": port}, 5.0)
        args = {"targets": ["127.0.0.1", "::1"], "port": port, "token": "t1", "count": 4}
        sent = await client.call("probe_send", {**args, "spacing_ms": 1}, 5.0)
        assert {target: row["sent"] for target, row in sent.items()} == {"127.0.0.1": 4, "::1": 4}
        await asyncio.sleep(0.05)
        counts = await client.call("probe_counts", {"token": "t1"}, 5.0)
        assert counts == {"127.0.0.1": 4, "::1": 4}
        assert await client.call("probe_counts", {"token": "t2"}, 5.0) == {}
        udp = (await client.call("counters", {}, 5.0))["Udp"]
        assert udp["InDatagrams"] >= 0

    with_agent(body)


def test_connections_are_opened_refused_or_not_answered(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        port = 17075
        both = ["127.0.0.1", "::1"]
        await client.call("probe_listen", {"port": port}, 5.0)
        asked = {"targets": both, "port": port}
        assert await client.call("probe_connect", asked, 5.0) == dict.fromkeys(both, "")
        asked = {"targets": both, "port": port + 1}
        found = await client.call("probe_connect", asked, 5.0)
        assert found == dict.fromkeys(both, "ECONNREFUSED")
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            asked = {"targets": ["127.0.0.1"], "port": full.getsockname()[1], "wait_s": 0.2}
            said = [await client.call("probe_connect", asked, 5.0) for _ in range(3)]
        assert said[-1] == {"127.0.0.1": "ETIMEDOUT"}

    with_agent(body)


def test_a_request_that_fits_no_frame_is_never_sent(with_agent: Any) -> None:
    async def body(client: AgentClient, _: int) -> None:
        with pytest.raises(LabError, match="does not fit"):
            await exec_(client, "cat", stdin="x" * (limits.AGENT_FRAME_BYTES_MAX + 1))
        await client.call("ping", {}, 5.0)

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
        await client.call("probe_listen", {"port": port}, 5.0)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for number in (0, 2, 1, 1, 5, 3, 3, 6):
                sock.sendto(b"dstest-probe:t#%d" % number, ("127.0.0.1", port))
            for junk in (b"dstest-probe:t", b"dstest-probe:t#x", b"dstest-probe:t#99999999"):
                sock.sendto(junk, ("127.0.0.1", port))
        await asyncio.sleep(0.05)
        found = await client.call("probe_arrivals", {"token": "t"}, 5.0)
        assert found == {"127.0.0.1": {"came": 8, "different": 6, "late": 2}}
        args = {"targets": ["127.0.0.1", "::1"], "port": port, "token": "e", "count": 5}
        times = await client.call("probe_round_trips", {**args, "wait_s": 1.0}, 5.0)
        assert {target: len(row) for target, row in times.items()} == {"127.0.0.1": 5, "::1": 5}
        assert all(0 <= us < 1_000_000 for row in times.values() for us in row)
        nobody = {**args, "port": 17074, "spacing_ms": 1, "wait_s": 0.05}
        mute = await client.call("probe_round_trips", nobody, 5.0)
        assert mute == {"127.0.0.1": [], "::1": []}

    with_agent(body)
