"""`dstest chaos` against a shop with planted defects, in real processes over real sockets."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_once import Once
from polling import wait_for
from shop_run import (
    children_of,
    free_port,
    inventory,
    kill,
    listens,
    settings,
    started,
    working,
)

from dstest.chaos.records import CONFIG, ENTRIES, PASSED, PATTERNS, PROPOSALS, REPORT, RESULTS, SUMS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def stock() -> Iterator[int]:
    with inventory() as port:
        yield port


def run(folder: Path, text: str, out: str = "out") -> tuple[int, dict[str, Any], str]:
    (folder / "chaos.toml").write_text(text)
    process = started(["chaos", "run", "chaos.toml", "--out", out, "--json"], folder)
    told, errors = process.communicate(timeout=120)
    return process.returncode, json.loads(told) if told else {}, errors


@pytest.fixture(scope="module")
def planted(stock: int, tmp_path_factory: pytest.TempPathFactory, once: Once) -> Path:
    def make(folder: Path) -> None:
        code, told, errors = run(folder, settings(stock))
        assert code == 1, (told, errors)

    mine = tmp_path_factory.mktemp("planted") / "mine"
    return Path(shutil.copytree(once("planted", make), mine)) / "out"


def read(directory: Path, name: str) -> Any:
    return json.loads((directory / name).read_bytes())


def test_the_failure_without_a_fault_is_the_first(planted: Path) -> None:
    patterns = read(planted, PATTERNS)["patterns"]
    assert patterns[0]["kind"] == "genuine failure"
    assert patterns[0]["endpoint"] == "GET /reports"
    source = (Path(__file__).parents[1] / "fixtures/chaos/shop.py").read_text().splitlines()
    file, line, function, error = patterns[0]["raised"]
    assert (file, function, error) == ("shop.py", "get", "KeyError: 'month'")
    assert source[line - 1].strip() == 'raise KeyError("month")'
    assert read(planted, PROPOSALS)["proposals"][0]["endpoint"] == "GET /reports"


def test_each_planted_defect_is_named(planted: Path) -> None:
    found = {(one["kind"], one["endpoint"]) for one in read(planted, PATTERNS)["patterns"]}
    assert ("unhandled error", "GET /users") in found
    assert {("hang", "GET /orders"), ("waits", "GET /orders")} & found
    assert not {endpoint for kind, endpoint in found if kind == "genuine failure"} - {
        "GET /reports"
    }


def test_what_has_a_timeout_is_not_told_to_take_one(planted: Path) -> None:
    """/users calls with one of a second, and waits for what comes sooner; /orders has none."""
    changes: dict[str, list[str]] = {}
    for one in read(planted, PROPOSALS)["proposals"]:
        if one["pattern"] in ("waits", "hang"):
            changes.setdefault(one["endpoint"], []).append(one["change"])
    assert all("give calls to inventory" in change for change in changes["GET /orders"])
    assert all("have a timeout already" in change for change in changes.get("GET /users", []))


def test_a_storm_of_retries_is_named_where_an_outage_brings_it(stock: int, tmp_path: Path) -> None:
    text = settings(stock, faults="[proxy.faults]\nerror = 0.7", requests=60)
    code, _, _ = run(tmp_path, text)
    assert code == 1
    found = [
        one for one in read(tmp_path / "out", PATTERNS)["patterns"] if one["kind"] == "retry storm"
    ]
    assert [one["endpoint"] for one in found] == ["GET /prices"]
    proposals = read(tmp_path / "out", PROPOSALS)["proposals"]
    assert any("backoff" in one["change"] for one in proposals if one["endpoint"] == "GET /prices")


def test_faults_are_as_many_as_asked_for_and_land(planted: Path) -> None:
    for one in read(planted, PATTERNS)["injected"]:
        assert one["landed"] == one["injected"] > 0
        assert abs(one["injected"] / one["requests"] - one["asked"]) < 0.03 or not one["off"]


def test_requests_that_a_fault_hit_fail_more_often(planted: Path) -> None:
    by_name = {one["endpoint"]: one for one in read(planted, RESULTS)["endpoints"]}
    for name in ("GET /orders", "GET /users"):
        assert by_name[name]["lift"]["value"] > 5
        assert by_name[name]["lift"]["low"] > 1
    assert by_name["GET /reports"]["lift"] is None


def test_the_run_is_whole_and_its_page_has_all_parts(planted: Path) -> None:
    results = read(planted, RESULTS)
    assert results["data"] == "complete"
    assert results["requests"] >= 100
    hit = [one for one in results["entries"] if one["chaos_id"]]
    assert hit
    assert len({one["n"] for one in results["entries"]}) == results["requests"]
    page = (planted / REPORT).read_text()
    for part in ("What it does wrong", "Faults", "Load", "Patterns", "What to change", "Again"):
        assert f"## {part}" in page


def test_the_same_logs_tell_the_same_again(planted: Path) -> None:
    before = {
        name: (planted / name).read_bytes() for name in (RESULTS, PATTERNS, PROPOSALS, REPORT)
    }
    process = started(["chaos", "report", str(planted)], planted)
    process.communicate(timeout=60)
    assert process.returncode == 1
    assert before == {name: (planted / name).read_bytes() for name in before}


def test_the_mended_shop_is_better_and_has_no_defect(
    planted: Path, stock: int, tmp_path: Path
) -> None:
    code, told, _ = run(tmp_path, settings(stock, environment='MENDED = "1"'))
    slow = [line for line in told["defects"] if "waits while faults hit others" not in line]
    assert slow == []
    assert code in (0, 1, 3)  # on a host with no core to spare nothing is known of latencies
    process = started(["chaos", "diff", str(planted), str(tmp_path / "out"), "--json"], tmp_path)
    out, errors = process.communicate(timeout=120)
    if "no core" in errors:
        pytest.skip("the host had no core for the shop")
    told = json.loads(out)
    assert any("genuine failure: GET /reports" in line for line in told["gone"]), told["gone"]
    assert [line for line in told["new"] if "slow spill-over" not in line] == []
    found = {(row["endpoint"], row["what"]): row for row in told["rows"]}
    for name in ("GET /reports", "GET /users"):
        assert found[name, "failed"]["word"] == "improved"
        assert found[name, "failed"]["high"] < 0
        assert found[name, "failed"]["p"] < 0.05


def test_without_ids_faults_are_put_to_requests_by_time(stock: int, tmp_path: Path) -> None:
    code, _, _ = run(tmp_path, settings(stock, environment='NO_IDS = "1"'))
    assert code == 1
    told = read(tmp_path / "out", PATTERNS)
    assert told["by_time"] == ["inventory"]
    assert told["patterns"][0]["endpoint"] == "GET /reports"
    page = (tmp_path / "out" / REPORT).read_text()
    assert page.index("Hand on `X-Request-Id`") < page.index("## Faults")


def test_a_ramp_ends_at_the_step_that_breaks_it(stock: int, tmp_path: Path) -> None:
    """The shop has 200 connections to the inventory, and /orders keeps one while it waits."""
    text = settings(
        stock,
        rate=60,
        faults="[proxy.faults]\nblackhole = 1.0",
        more="[ramp]\nsteps = [0.02, 0.9]\nstep_s = 5\nrest_s = 4",
        environment='POOL = "12"',
    )
    code, told, errors = run(tmp_path, text)
    assert code == 1, errors
    steps = read(tmp_path / "out", PATTERNS)["steps"]
    assert [step["share"] for step in steps] == [0.02, 0.9]
    assert [bool(step["broken"]) for step in steps] == [False, True], steps
    assert any("breaks when 0.9" in line for line in told["defects"])


def test_a_load_that_is_killed_leaves_a_report_of_what_there_is(stock: int, tmp_path: Path) -> None:
    (tmp_path / "chaos.toml").write_text(settings(stock, requests=400))
    process = started(["chaos", "run", "chaos.toml", "--out", "out"], tmp_path)
    entries = tmp_path / "out" / ENTRIES
    wait_for(lambda: entries.exists() and entries.read_bytes().count(b"\n") > 150, timeout_s=60)
    kill(working(process.pid, "load"))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "process of the load ended" in errors
    results = read(tmp_path / "out", RESULTS)
    assert results["data"] == "partial"
    assert results["requests"] > 100
    assert "## Patterns" in (tmp_path / "out" / REPORT).read_text()


def test_a_run_that_is_killed_takes_all_with_it_and_is_told(stock: int, tmp_path: Path) -> None:
    (tmp_path / "chaos.toml").write_text(settings(stock, requests=400))
    process = started(["chaos", "run", "chaos.toml", "--out", "out"], tmp_path)
    entries = tmp_path / "out" / ENTRIES
    wait_for(lambda: entries.exists() and entries.read_bytes().count(b"\n") > 150, timeout_s=60)
    children = children_of(process.pid)
    assert len(children) == 3
    kill(process.pid)
    process.communicate(timeout=60)
    wait_for(lambda: not any(Path(f"/proc/{child}/exe").exists() for child in children))
    again = started(["chaos", "report", "out", "--json"], tmp_path)
    out, _ = again.communicate(timeout=60)
    told = json.loads(out)
    assert told["data"] == "partial"
    assert told["exit"] in (1, 3)


def test_an_interrupt_ends_all_and_reports(stock: int, tmp_path: Path) -> None:
    (tmp_path / "chaos.toml").write_text(settings(stock, requests=400))
    process = started(["chaos", "run", "chaos.toml", "--out", "out"], tmp_path)
    entries = tmp_path / "out" / ENTRIES
    wait_for(lambda: entries.exists() and entries.read_bytes().count(b"\n") > 100, timeout_s=60)
    children = children_of(process.pid)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert not any(Path(f"/proc/{child}/exe").exists() for child in children)
    assert read(tmp_path / "out", RESULTS)["data"] == "partial"


def test_faults_that_nobody_meets_show_nothing(stock: int, tmp_path: Path) -> None:
    text = settings(stock, environment='MENDED = "1"')
    alone = text.replace('path = "/orders"\njson_keys = ["stock"]\n[[endpoint]]\n', "")
    alone = alone.replace('path = "/users"\n[[endpoint]]\n', "")
    alone = alone.replace('path = "/prices"\n[[endpoint]]\n', "")
    code, told, _ = run(tmp_path, alone)
    assert code == 3
    assert "no delay of inventory landed" in told["unshown"]


def test_without_faults_nothing_is_shown(stock: int, tmp_path: Path) -> None:
    text = settings(stock, faults="", environment='MENDED = "1"')
    code, told, _ = run(tmp_path, text)
    assert code == 3
    assert "no fault was asked for" in told["unshown"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("seed = 1", "sede = 1"), "did you mean 'seed'"),
        (("delay = 0.1", "delay = 1.1"), "<= 1.0"),
        (("error = 0.15", "error = 0.95"), "more than 1"),
        (("http://127.0.0.1", "http://192.0.2.7"), "is not this machine"),
        (('path = "/users"', 'path = "users"'), "begins with /"),
        (('path = "/users"', 'path = "/orders"'), "two endpoints"),
        (("timeout_s = 2", "timeout_s = nan"), "timeout_s"),
        (('name = "inventory"', 'name = "in ventory"'), "name"),
    ],
)
def test_wrong_settings_are_refused(
    stock: int, tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    code, told, errors = run(tmp_path, settings(stock).replace(*change))
    assert code == 2
    assert says in errors
    assert told["exit_code"] == 2
    assert not (tmp_path / "out" / CONFIG).exists()


def test_a_directory_with_something_in_it_is_left_alone(stock: int, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    code, _, errors = run(tmp_path, settings(stock))
    assert code == 2
    assert "is not empty" in errors


def test_a_service_that_ends_at_once_is_told(stock: int, tmp_path: Path) -> None:
    text = settings(stock, environment='INVENTORY_URL_OFF = "1"').replace("shop.py", "no_shop.py")
    code, _, errors = run(tmp_path, text)
    assert code == 2
    assert "the service's command ended" in errors
    code, _, errors = run(tmp_path, settings(stock, requests=5, load="min_entries = 5"))
    assert "is not empty" not in errors and (tmp_path / "out" / REPORT).exists()


def test_runs_of_other_faults_are_not_compared(planted: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for path in planted.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    config = json.loads((other / CONFIG).read_bytes())
    config["settings"]["proxy"][0]["faults"]["error"] = 0.3
    (other / SUMS).unlink()
    (other / CONFIG).write_bytes(msgspec.json.encode(config))
    process = started(["chaos", "diff", str(planted), str(other)], tmp_path)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "other faults" in errors


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.replace(b'"n":3,', b'"n":2,', 1),
        lambda data: data[:200] + b"\n" + data[200:],
    ],
    ids=["twice", "broken"],
)
def test_damaged_logs_are_no_evidence(planted: Path, tmp_path: Path, damage: Any) -> None:
    for path in planted.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / ENTRIES).write_bytes(damage((planted / ENTRIES).read_bytes()))
    process = started(["chaos", "report", str(tmp_path)], tmp_path)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 3, errors


def test_a_directory_without_a_run_is_told(tmp_path: Path) -> None:
    process: subprocess.Popen[str] = started(["chaos", "report", str(tmp_path)], tmp_path)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "holds no chaos run" in errors


def edited(planted: Path, to: Path, name: str, change: Any) -> subprocess.CompletedProcess[str]:
    """A copy of a run with a changed log and without its sums, told again."""
    for path in planted.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    (to / SUMS).unlink()
    lines = [json.loads(line) for line in (planted / name).read_bytes().splitlines()]
    text = "".join(json.dumps(line) + "\n" for line in change(lines))
    (to / name).write_text(text)
    process = started(["chaos", "report", str(to)], to)
    out, errors = process.communicate(timeout=60)
    return subprocess.CompletedProcess([], process.returncode, out, errors)


def _good(lines: list[Any]) -> list[Any]:
    return [{**line, "ok": True} for line in lines]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (ENTRIES, _good),
        (ENTRIES, lambda lines: [{**line, "endpoint": "GET /zzz"} for line in lines]),
        (ENTRIES, lambda lines: [{**line, "end_ns": line["due_ns"] - 5} for line in lines]),
        (ENTRIES, lambda lines: [{**line, "end_ns": 10**18 * 9} for line in lines]),
        (PASSED, lambda lines: lines * 2),
        (PASSED, lambda lines: [{**line, "proxy": "other"} for line in lines]),
    ],
    ids=["all good", "unknown endpoint", "backwards", "for ever", "doubled", "unknown proxy"],
)
def test_edited_logs_contradict_themselves(
    planted: Path, tmp_path: Path, name: str, change: Any
) -> None:
    done = edited(planted, tmp_path, name, change)
    assert done.returncode == 3, done.stderr
    assert "no evidence" in done.stderr


def test_what_was_changed_after_the_end_is_told(planted: Path, tmp_path: Path) -> None:
    for path in planted.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    lines = (planted / ENTRIES).read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if b'"ok":true' in line]
    (tmp_path / ENTRIES).write_bytes(b"".join(kept))
    process = started(["chaos", "report", str(tmp_path)], tmp_path)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "not as at the end of the run" in errors


def test_without_sums_a_run_is_not_whole(planted: Path, tmp_path: Path) -> None:
    edited(planted, tmp_path, ENTRIES, lambda lines: lines)
    assert read(tmp_path, RESULTS)["data"] == "partial"


def test_a_run_is_not_compared_with_itself(planted: Path) -> None:
    process = started(["chaos", "diff", str(planted), str(planted)], planted)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "one run, twice" in errors


ALONE = """
import http.server, itertools, os, sys, urllib.request
COUNT = itertools.count(1)
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        n = next(COUNT)
        if n == int(os.environ.get("ENDS_AT", 0)):
            os._exit(3)
        with urllib.request.urlopen(os.environ["INVENTORY_URL"] + "/stock/a") as answer:
            answer.read()
        body = b'{"stock": 1}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *given):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
"""


def of_one(stock: int, tmp_path: Path, environment: str = "") -> str:
    """Settings of a service with one page, which a shell starts."""
    (tmp_path / "alone.py").write_text(ALONE)
    port = free_port()
    return f"""
target = "http://127.0.0.1:{port}"
[[endpoint]]
path = "/a"
[[proxy]]
name = "inventory"
upstream = "http://127.0.0.1:{stock}"
[proxy.faults]
delay = 0.3
delay_low_s = 0.01
delay_high_s = 0.02
[load]
rate = 40
requests = 80
[service]
command = ["sh", "-c", "{sys.executable} alone.py {port}; true"]
[service.environment]
INVENTORY_URL = "{{proxy.inventory}}"
{environment}
"""


def test_a_service_that_ends_under_load_does_not_hold(stock: int, tmp_path: Path) -> None:
    code, told, _ = run(tmp_path, of_one(stock, tmp_path, 'ENDS_AT = "250"'))
    assert code == 1
    assert any("ended under load" in line for line in told["defects"]), told


def test_what_a_shell_has_started_ends_with_a_killed_run(stock: int, tmp_path: Path) -> None:
    text = of_one(stock, tmp_path)
    (tmp_path / "chaos.toml").write_text(text)
    process = started(["chaos", "run", "chaos.toml", "--out", "out"], tmp_path)
    entries = tmp_path / "out" / ENTRIES
    wait_for(lambda: entries.exists() and entries.read_bytes().count(b"\n") > 20, timeout_s=60)
    port = int(text.partition("127.0.0.1:")[2].partition('"')[0])
    assert listens(port)
    kill(process.pid)
    process.communicate(timeout=60)
    wait_for(lambda: not listens(port), timeout_s=20)


def test_a_service_that_runs_already_is_not_taken_for_ours(stock: int, tmp_path: Path) -> None:
    text = of_one(stock, tmp_path)
    port = int(text.partition("127.0.0.1:")[2].partition('"')[0])
    words = [sys.executable, str(tmp_path / "alone.py"), str(port)]
    other = subprocess.Popen(words, env={**os.environ, "INVENTORY_URL": "http://127.0.0.1:1"})
    try:
        wait_for(lambda: listens(port), timeout_s=20)
        code, _, errors = run(tmp_path, text)
    finally:
        other.kill()
        other.wait()
    assert code == 2
    assert "before the service was started" in errors


def test_faults_that_hit_somebody_else_have_not_landed(stock: int, tmp_path: Path) -> None:
    """The page of the load asks nothing of the inventory; another client does."""
    proxy = free_port()
    text = of_one(stock, tmp_path).replace(
        'name = "inventory"', f'name = "inventory"\nlisten = "127.0.0.1:{proxy}"'
    )
    page = ALONE.replace('os.environ["INVENTORY_URL"]', f'"http://127.0.0.1:{stock}"')
    (tmp_path / "alone.py").write_text(page)
    (tmp_path / "chaos.toml").write_text(text)
    process = started(["chaos", "run", "chaos.toml", "--out", "out", "--json"], tmp_path)
    while process.poll() is None:
        with contextlib.suppress(OSError):
            headers = {"X-Request-Id": "dstest-900000"}
            asked = urllib.request.Request(f"http://127.0.0.1:{proxy}/stock/a", headers=headers)
            urllib.request.urlopen(asked, timeout=2).read()
        time.sleep(0.05)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 3, errors
    assert "no delay of inventory landed" in json.loads(out)["unshown"]


def test_a_deadline_that_cuts_the_load_short_is_told(stock: int, tmp_path: Path) -> None:
    text = of_one(stock, tmp_path).replace("requests = 80", "requests = 8000\ndeadline_s = 1")
    code, told, _ = run(tmp_path, text)
    assert code in (1, 3)
    assert told["data"] == "partial"
    assert "deadline_s" in told["why_partial"]
