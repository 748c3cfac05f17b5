"""`dstest serve` over HTTP: who may ask, what is answered; what lies in runs is never a page."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from served_http import Asker
from served_store import (
    FAILING,
    INCONCLUSIVE,
    PASSING,
    copy_of,
    made_store,
    sealed,
    still_running,
    telling,
)

from dstest.serve.http import is_loopback

pytestmark = pytest.mark.slow

TOUCHED = "other/20260401T000000Z-9"
ODD = "other/20260402T000000Z-9"
RUNNING = "other/20260403T000000Z-9"
EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    folder = tmp_path_factory.mktemp("served")
    store = made_store(folder / "store")
    (folder / "secret.txt").write_text("secret")
    touched = copy_of(store, INCONCLUSIVE, TOUCHED)
    page = (touched / "report.html").read_text()
    (touched / "report.html").write_text(page.replace("INCONCLUSIVE", "PASS"))
    odd = copy_of(store, PASSING, ODD)
    (odd / "nodes" / "n1" / "evil.html").write_text(EVIL)
    (odd / "nodes" / "n1" / "core").write_bytes(b"\x7fELF\0")
    (odd / ".hidden").write_text("x")
    facts = msgspec.json.decode((odd / "run.json").read_bytes())
    sealed(odd, spec={**facts["spec"], "system": EVIL, "workload": EVIL})
    (store / "link").symlink_to(folder)
    still_running(store, RUNNING)
    made = Asker(store)
    yield made
    made.close()


PAGES = (
    "/", "/index.html", "/triage.html", "/trends.html", "/live.html", "/groups.html",
    f"/run/{PASSING}/index.html", f"/run/{PASSING}/index.html?hash=all",
    f"/run/{ODD}/index.html", f"/run/{TOUCHED}/index.html", f"/run/{RUNNING}/index.html",
    f"/pair.html?run={PASSING}&run={FAILING}", f"/pair.html?run={TOUCHED}&run={RUNNING}",
    f"/?words={EVIL}&fingerprint={EVIL}&since={EVIL}",
)  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_whole_strict_and_take_nothing_for_markup(server: Asker, path: str) -> None:
    got = server.ask(path)
    assert got.status == 200
    assert got.body.rstrip().endswith("</html>")
    assert EVIL not in got.body
    policy = got.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    assert got.headers["Referrer-Policy"] == "no-referrer"
    assert not any(name.lower().startswith("access-control") for name in got.headers)
    assert " style=" not in got.body
    report = re.sub(r'<iframe class="report" src="[./\w-]+/report\.html"', "", got.body)
    for far in ("http://", "https://", 'src="'):
        assert far not in report.replace("http://www.w3.org/", "")


def test_what_is_touched_is_shown_as_such(server: Asker) -> None:
    page = server.ask(f"/run/{TOUCHED}/index.html").body
    assert 'class="verdict pass"' not in page
    assert "not shown" in page or "damaged" in page
    got = server.ask(f"/run/{TOUCHED}/report.html")
    assert got.status == 409
    assert "report.html" in got.body
    assert "PASS-fault-not-proven" not in got.body
    whole = server.ask(f"/run/{PASSING}/report.html")
    assert whole.status == 200
    assert "PASS-smoke" in whole.body
    policy = whole.headers["Content-Security-Policy"]
    assert "sandbox allow-scripts" in policy
    assert "allow-same-origin" not in policy
    assert "connect-src" not in policy


def test_a_report_that_is_touched_while_we_look_is_not_shown(
    server: Asker,
) -> None:
    path = server.store / INCONCLUSIVE / "report.html"
    kept = path.read_bytes()
    try:
        assert server.ask(f"/run/{INCONCLUSIVE}/report.html").status == 200
        path.write_bytes(kept.replace(b"INCONCLUSIVE", b"PASS"))
        assert server.ask(f"/run/{INCONCLUSIVE}/report.html").status == 409
    finally:
        path.write_bytes(kept)


def test_hashing_every_file_finds_what_a_look_does_not(server: Asker) -> None:
    path = server.store / FAILING / "history.jsonl"
    kept = path.read_bytes()
    try:
        path.write_bytes(kept + b"\n" * 400_000)  # no small file any more
        usual = server.ask(f"/run/{FAILING}/index.html").body
        assert "hash every file now" in usual
        got = server.ask(f"/run/{FAILING}/index.html?hash=all").body
        assert "files are not as sha256sums has them" in got
        assert "changed: history.jsonl" in got
    finally:
        path.write_bytes(kept)
    again = server.ask(f"/run/{FAILING}/index.html?hash=all").body
    assert "Every file was hashed just now" in again


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", f"/run/{PASSING}/index.html", "/live.json", "/none"])
def test_nothing_but_get_and_head(server: Asker, method: str, path: str) -> None:
    assert server.ask(path, method).status == 405


def test_head_has_no_body(server: Asker) -> None:
    for path in ("/", f"/run/{PASSING}/verdict.json", f"/run/{PASSING}/report.html"):
        got = server.ask(path, "HEAD")
        assert (got.status, got.body) == (200, "")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil", "", "x@y"])
def test_a_name_that_was_made_to_point_here_is_refused(server: Asker, host: str) -> None:
    for path in ("/", f"/run/{PASSING}/verdict.json", "/live.json"):
        got = server.ask(path, host=host)
        assert got.status in (400, 421)
        assert "PASS" not in got.body


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:80", "[::1]:80", "[::1]"])
def test_our_own_names_are_not(server: Asker, host: str) -> None:
    assert server.ask("/", host=host).status == 200


@pytest.mark.parametrize(
    "path",
    [
        f"/run/{PASSING}/../../../secret.txt",
        f"/run/{PASSING}/%2e%2e/%2e%2e/%2e%2e/secret.txt",
        f"/run/{PASSING}/..%2f..%2f..%2fsecret.txt",
        f"/run/{PASSING}/nodes/../../../../secret.txt",
        "/run/link/secret.txt",
        "/run/../secret.txt",
        f"/run/{ODD}/.hidden",
        f"/run/{PASSING}/nodes",
        f"/run/{PASSING}/",
        f"/run/{PASSING}/no%00such",
        f"/run/{PASSING}.shrink/repro.sh",
        "/run/etcd-register-partition/index.html",
        "/run//etc/passwd",
        "/trends/../index.html",
        "/etc/passwd",
    ],
)
def test_nothing_outside_of_runs_is_read(server: Asker, path: str) -> None:
    got = server.ask(path)
    assert got.status == 404
    assert "secret" not in got.body.replace("secret.txt", "")


def test_a_link_in_a_run_is_not_followed(server: Asker) -> None:
    link = server.store / PASSING / "nodes" / "n1" / "secret.log"
    link.symlink_to(server.store.parent / "secret.txt")
    folder = server.store / PASSING / "outside"
    folder.symlink_to(server.store.parent)
    try:
        assert server.ask(f"/run/{PASSING}/nodes/n1/secret.log").status == 404
        assert server.ask(f"/run/{PASSING}/outside/secret.txt").status == 404
        page = server.ask(f"/run/{PASSING}/index.html").body
        assert "not summed up: nodes/n1/secret.log" in page
        assert 'class="verdict pass"' not in page
    finally:
        link.unlink()
        folder.unlink()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("verdict.json", "text/plain; charset=utf-8"),
        ("nodes/n1/evil.html", "text/plain; charset=utf-8"),
        ("plots/rate.svg", "text/plain; charset=utf-8"),
        ("nodes/n1/core", "application/octet-stream"),
    ],
)
def test_files_of_a_run_are_no_pages(server: Asker, name: str, kind: str) -> None:
    got = server.ask(f"/run/{ODD}/{name}")
    assert got.status == 200
    assert got.headers["Content-Type"] == kind
    assert got.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert got.body.encode() == (server.store / ODD / name).read_bytes()


def test_what_is_kept_beside_a_run_can_be_had(server: Asker) -> None:
    aside = server.store / f"{FAILING}.shrink"
    aside.mkdir()
    (aside / "reproducer.json").write_text("{}")
    (aside / "repro.sh").write_text("#!/bin/sh\n")
    try:
        server.index.refresh()
        assert server.ask(f"/run/{FAILING}.shrink/repro.sh").body == "#!/bin/sh\n"
        seen = server.ask("/triage.html").body
        assert f'href="run/{FAILING}.shrink/repro.sh"' in seen
    finally:
        shutil.rmtree(aside)
        server.index.refresh()


def test_two_runs_need_two(server: Asker) -> None:
    assert server.ask(f"/pair.html?run={PASSING}").status == 400
    assert server.ask(f"/pair.html?run={PASSING}&run=none").status == 404
    page = server.ask(f"/pair.html?run={PASSING}&run={FAILING}").body
    assert "no pass" in page
    assert "ok_per_s" in page
    assert "linearizable/nonlinearizable/#-#/register" in page
    damaged = server.ask(f"/pair.html?run={PASSING}&run={ODD}").body
    assert "<strong>No.</strong>" in damaged


def live(server: Asker) -> dict[str, Any]:
    got = server.ask(f"/live.json?run={RUNNING}")
    assert got.status == 200
    assert got.headers["Content-Type"] == "application/json"
    found: dict[str, Any] = msgspec.json.decode(got.body)
    return found


def test_a_run_that_goes_on_is_told(server: Asker) -> None:
    from dstest.history.layout import RunDir

    run = RunDir(server.store / RUNNING)
    told = live(server)
    assert (told["life"], told["figures"]) == ("running", None)
    assert told["log"] == ["20260201T000001Z    1.0s  [load] register for 30 s"]
    telling(run)
    told = live(server)
    assert told["life"] == "running"
    assert told["figures"]["faults"][0]["counter"]["now"] == 107
    telling(run, age_s=30)
    told = live(server)
    assert told["life"] == "silent"
    assert "dstest recover" in told["told"]
    for odd in ('{"schema": "dstest.live/1", "at_ns": "x"}', "[1, 2]", "{", '{"at_ns": 1}'):
        run.write("live.json", odd)
        assert live(server)["life"] in ("running", "silent")
    facts = run.read_json("run.json")
    try:
        run.write_json("run.json", {**facts, "pid_start_time": 1})
        assert live(server)["life"] == "died"
    finally:
        run.write_json("run.json", facts)
        (run.path / "live.json").unlink()
    assert server.ask("/live.json?run=none").status == 404
    assert server.ask("/live.json").status == 404


def test_whose_addresses_are_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.org", "")))
