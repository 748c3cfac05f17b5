"""Draws, figures, patterns and comparisons of chaos runs, against what can be counted by hand."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dstest.chaos.diff import Defect, FigureChange, _failed, _slow, weigh
from dstest.chaos.figures import Request, Side, join_logs, lift_of, recoveries_of, side_of
from dstest.chaos.host import WaitSample, starved_seconds
from dstest.chaos.outcome import proposals_of, timeouts_of
from dstest.chaos.patterns import error_in, errors_with_cause, names_path, patterns_of
from dstest.chaos.records import (
    KINDS,
    DrawnFault,
    Entry,
    Faults,
    Kind,
    PhaseBegin,
    Profile,
    ProxyRequest,
)
from dstest.chaos.settings import Endpoint, Load, ProxyAt, Settings

pytestmark = pytest.mark.slow

MS = 1_000_000
SECOND = 1_000 * MS


def entry(
    n: int,
    due_s: float,
    latency_s: float = 0.01,
    status: int | None = 200,
    endpoint: str = "GET /a",
) -> Entry:
    due = int(due_s * SECOND)
    ok = status == 200
    return Entry(
        n=n, endpoint=endpoint, due_ns=due, begin_ns=due, end_ns=due + int(latency_s * SECOND),
        status=status, trouble=None if status else "timeout", ok=ok,
        why="" if ok else f"status {status}",
    )  # fmt: skip


def passed(
    n: int, request: int | None, at_s: float, kind: Kind | None = None, proxy: str = "dep"
) -> ProxyRequest:
    at = int(at_s * SECOND)
    return ProxyRequest(
        proxy=proxy, n=n, endpoint="GET /x", request=request, begin_ns=at, end_ns=at + MS,
        ended="answered", status=500 if kind else 200,
        id=f"{proxy}-{n}" if kind else None, kind=kind,
    )  # fmt: skip


PHASES = (
    PhaseBegin(name="before", share=0.0, at_ns=0),
    PhaseBegin(name="faults", share=None, at_ns=10 * SECOND),
    PhaseBegin(name="after", share=0.0, at_ns=30 * SECOND),
    PhaseBegin(name="end", share=0.0, at_ns=40 * SECOND),
)
SETTINGS = Settings(
    target="http://127.0.0.1:1",
    endpoint=(Endpoint(path="/a"),),
    proxy=(ProxyAt(name="dep", upstream="http://127.0.0.1:2", faults=Profile(error=0.5)),),
    load=Load(),
)


@given(shares=st.lists(st.floats(0, 0.2), min_size=5, max_size=5), seed=st.integers(0, 10**6))
def test_a_seed_draws_the_same_for_each_endpoint_whatever_lies_between(
    shares: list[float], seed: int
) -> None:
    profile = msgspec.convert(dict(zip(KINDS, shares, strict=True)), Profile)
    alone, mixed = Faults(profile, seed, "p"), Faults(profile, seed, "p")
    first = [alone.draw("GET /a") for _ in range(30)]
    second = []
    for _ in range(30):
        mixed.draw("GET /b")
        second.append(mixed.draw("GET /a"))
    assert first == second


def test_draws_come_as_often_as_is_said() -> None:
    profile = Profile(delay=0.2, error=0.1, reset=0.05, drop=0.05, blackhole=0.1)
    faults = Faults(profile, 7, "p")
    drawn = [faults.draw("GET /a") for _ in range(20_000)]
    for kind in KINDS:
        share = sum(one is not None and one.kind == kind for one in drawn) / len(drawn)
        assert abs(share - getattr(profile, kind)) < 0.01
    delays = [one.delay_s for one in drawn if isinstance(one, DrawnFault) and one.kind == "delay"]
    assert 0.1 <= min(delays) < 0.15
    assert 1.9 < max(delays) <= 2.0


def test_faults_are_for_the_endpoints_that_are_named() -> None:
    faults = Faults(Profile(error=1.0, only=("GET /a",)), 1, "p")
    assert faults.draw("GET /b") is None
    assert faults.draw("GET /a") == DrawnFault("error")


def test_a_scaled_profile_keeps_its_mixture() -> None:
    scaled = Profile(error=0.1, reset=0.3).scaled(0.8)
    assert math.isclose(scaled.error, 0.2)
    assert math.isclose(scaled.reset, 0.6)


def side(failed: int, requests: int) -> Side:
    return Side(
        requests=requests, failed=failed, failed_low=0, failed_high=1, p50_s=0, p95_s=0, p99_s=0
    )  # fmt: skip


def test_the_lift_and_its_interval() -> None:
    """Altman 1991, table 10.? style: 10/100 against 2/100: 5.0, about 1.1 to 22.2 (Katz)."""
    lift = lift_of(side(10, 100), side(2, 100))
    assert lift is not None
    assert math.isclose(lift.value, 5.0)
    spread = 1.959964 * math.sqrt(1 / 10 - 1 / 100 + 1 / 2 - 1 / 100)
    assert math.isclose(lift.low, 5 * math.exp(-spread))
    assert lift_of(side(0, 0), side(2, 100)) is None
    nothing = lift_of(side(10, 10), side(0, 100))
    assert nothing is not None
    assert nothing.low > 1


def kinds(entries: list[Entry], passes: list[ProxyRequest] = []) -> list[str]:  # noqa: B006
    found = join_logs(entries, passes, PHASES, None, 5.0)
    return [one.kind for one in patterns_of(found, SETTINGS)]


def test_failures_while_nothing_stands_are_genuine() -> None:
    quiet = [entry(n, n / 20, status=500 if n % 5 == 0 else 200) for n in range(1, 190)]
    stood = [entry(n, 10 + n / 20, status=500 if n % 5 == 0 else 200) for n in range(200, 380)]
    assert kinds(quiet) == ["genuine failure"]
    assert kinds(quiet + stood) == ["genuine failure"]


def test_failures_only_while_faults_hit_others_are_a_spill_over() -> None:
    quiet = [entry(n, n / 20) for n in range(1, 190)]
    stood = [entry(n, 10 + n / 20, status=500 if n % 3 == 0 else 200) for n in range(200, 380)]
    assert "spill-over" in kinds(quiet + stood)
    assert "genuine failure" not in kinds(quiet + stood)


def test_one_failure_that_no_fault_hit_is_not_explained_away() -> None:
    quiet = [entry(n, n / 20) for n in range(1, 190)]
    stood = [entry(200, 12, status=500)]
    assert kinds(quiet + stood) == ["unexplained failure"]


def test_what_a_fault_hit_is_no_failure_of_its_own() -> None:
    entries = [entry(n, n / 20) for n in range(1, 190)] + [entry(200, 12, status=500)]
    assert kinds(entries, [passed(1, 200, 12, "error")]) == ["unhandled error"]
    entries[-1] = entry(200, 12, status=503)
    assert kinds(entries, [passed(1, 200, 12, "error")]) == ["handled"]
    entries[-1] = entry(200, 12, status=None)
    assert kinds(entries, [passed(1, 200, 12, "error")]) == ["hang"]
    entries[-1] = entry(200, 12)
    assert kinds(entries, [passed(1, 200, 12, "error")]) == ["survived"]


def held(
    n: int, request: int | None, at_s: float, for_s: float, kind: Kind, how: str
) -> ProxyRequest:
    made = passed(n, request, at_s, kind)
    return msgspec.structs.replace(
        made, end_ns=made.begin_ns + int(for_s * SECOND), ended=how, status=None, delay_s=for_s
    )


def changes(entries: list[Entry], passes: list[ProxyRequest]) -> dict[str, str]:
    found = join_logs(entries, passes, PHASES, None, 5.0)
    told = proposals_of(patterns_of(found, SETTINGS), timeouts_of(found))
    return {one.pattern: one.change for one in told}


QUIET = [entry(n, n / 20) for n in range(1, 190)]


@pytest.mark.parametrize("request_id", [200, None])
@pytest.mark.parametrize(("kind", "how"), [("blackhole", "held"), ("delay", "client left")])
def test_who_hung_up_by_itself_is_not_told_to_take_a_timeout(
    request_id: int | None, kind: Kind, how: str
) -> None:
    """It waited 0.8 s with success, and gave up another call after 1 s."""
    entries = [*QUIET, entry(200, 12, 1.01, status=503), entry(201, 14, 0.85)]
    other = None if request_id is None else 201
    late = held(2, other, 14, 0.8, "delay", "answered")
    gave_up = held(1, request_id, 12, 1.0, kind, how)
    told = changes(entries, [gave_up, late])["waits"]
    assert "have a timeout already" in told and "after 1.0 s" in told
    assert "give calls" not in told


@pytest.mark.parametrize("request_id", [200, None])
def test_who_was_hung_up_on_has_shown_no_timeout(request_id: int | None) -> None:
    """Its caller left after 5 s, and with it the call; or the call stood until the very end."""
    late = held(2, None if request_id is None else 201, 18, 0.8, "delay", "answered")
    for lasted_s, how in ((5.0, "client left"), (5.0, "held"), (25.0, "held")):
        entries = [*QUIET, entry(200, 12, 5.0, status=None), entry(201, 18, 0.85)]
        told = changes(entries, [held(1, request_id, 12, lasted_s, "blackhole", how), late])
        assert told["waits"].startswith("give calls to dep a timeout, or a shorter one")
        assert told["hang"].startswith("give calls to dep a deadline")


def test_tries_that_end_each_and_not_together() -> None:
    entries = [*QUIET, entry(200, 12, 5.0, status=None)]
    tries = [held(n, 200, 12 + n, 0.9, "blackhole", "held") for n in range(4)]
    told = changes(entries, tries)["hang"]
    assert "after 0.9 s" in told and "all of their tries together" in told


def test_failures_right_after_faults_are_not_taken_for_genuine() -> None:
    entries = [entry(n, n / 20) for n in range(1, 190)] + [entry(200, 31, status=500)]
    assert "genuine failure" not in kinds(entries)


def test_a_slow_second_is_no_spill_over_and_slow_minutes_are() -> None:
    quiet = [entry(n, n / 20) for n in range(1, 190)]
    once = [entry(n, 10 + (n - 200) / 20, 0.5 if 300 <= n < 325 else 0.01) for n in range(200, 590)]
    assert kinds(quiet + once) == ["slow for a while"]
    long = [entry(n, 10 + (n - 200) / 20, 0.5 if n % 4 == 0 else 0.01) for n in range(200, 590)]
    assert kinds(quiet + long) == ["slow spill-over"]


def test_many_requests_behind_one_are_a_storm() -> None:
    entries = [entry(n, 11 + n / 20) for n in range(1, 60)]
    passes = [passed(n, n, 11 + n / 20) for n in range(1, 50)]
    passes += [passed(100 + n, 55, 13.75, "error") for n in range(9)]
    assert "retry storm" in kinds(entries, passes)


def test_more_failures_than_faults_are_an_amplification() -> None:
    quiet = [entry(n, n / 20) for n in range(1, 190)]
    stood = [entry(n, 10 + (n - 200) / 20, status=500) for n in range(200, 300)]
    assert "amplification" in kinds(quiet + stood, [passed(1, 200, 10, "error")])


def test_seconds_in_which_the_host_had_no_core_are_known() -> None:
    samples = [WaitSample(at_ns=n * SECOND // 5, waited_ns=0) for n in range(10)]
    samples += [
        WaitSample(at_ns=2 * SECOND + n * SECOND // 5, waited_ns=n * 100 * MS) for n in range(5)
    ]
    samples += [
        WaitSample(at_ns=3 * SECOND + n * SECOND // 5, waited_ns=400 * MS) for n in range(10)
    ]
    assert starved_seconds(samples) == {2, 3}


def asked(entries: list[Entry]) -> list[Request]:
    return list(join_logs(entries, [], PHASES, None, 5.0).asked)


def test_the_difference_of_two_shares_is_newcombe_s() -> None:
    """Newcombe 1998, table II, (a) 56/70 against 48/80, method 10: 0.0524 to 0.3339."""
    mine = asked([entry(n, 11, status=500 if n <= 48 else 200) for n in range(1, 81)])
    other = asked([entry(n, 11, status=500 if n <= 56 else 200) for n in range(1, 71)])
    row = _failed("x", mine, other, 0.95)
    assert math.isclose(row.low, 0.0524, abs_tol=5e-5)
    assert math.isclose(row.high, 0.3339, abs_tol=5e-5)
    assert row.word == "worse"


def test_two_runs_of_one_service_differ_as_seldom_as_is_said() -> None:
    random_ = random.Random(1)
    wrong = 0
    for _ in range(20):
        sides = [
            asked([entry(n, 10 + n / 20, random_.expovariate(50)) for n in range(1, 390)])
            for _ in range(2)
        ]
        wrong += _slow("x", sides[0], sides[1], 0.95).word != "same"
    assert wrong <= 3


def test_a_traceback_leads_to_the_deepest_own_frame(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("")
    text = (
        "Traceback (most recent call last):\n"
        f'  File "{tmp_path}/app.py", line 3, in serve\n    x\n'
        f'  File "{tmp_path}/app.py", line 7, in inner\n    y\n'
        '  File "/usr/lib/python3/json.py", line 9, in loads\n    z\n'
        "ValueError: no\n"
    )
    for shown in (
        text,
        text.replace('"', "&#34;"),
        '{"trace": "' + text.replace("\n", "\\n").replace('"', '\\"') + '"}',
    ):
        found = error_in(shown, tmp_path)
        assert found is not None
        assert found[:3] == ("app.py", 7, "inner")
        assert found.error.startswith("ValueError: no")
    assert error_in("no traceback", tmp_path) is None
    assert error_in(text, tmp_path / "elsewhere") is None


@pytest.mark.parametrize(
    "given", ["Traceback (most recent call last):", 'File "x", line 1, in y', ""]
)
def test_half_a_traceback_is_none(given: str, tmp_path: Path) -> None:
    assert error_in(given, tmp_path) is None


def test_where_nothing_failed_there_is_no_ratio() -> None:
    asked = join_logs([entry(n, n / 20) for n in range(350)], [], PHASES, None, 5.0).asked
    assert lift_of(side_of(asked[:35]), side_of(asked[35:])) is None


def by_time(*endpoints: str) -> tuple[list[Entry], list[ProxyRequest]]:
    """Requests to these at one time, while a fault came that shows no id."""
    entries = [entry(300 + n, 12, 0.9, endpoint=name) for n, name in enumerate(endpoints)]
    return [*QUIET, *entries], [passed(1, None, 12.1, "error")]


def test_who_may_not_have_met_a_fault_has_not_survived_it() -> None:
    assert "survived" in kinds(*by_time("GET /a", "GET /a"))
    assert "survived" not in kinds(*by_time("GET /a", "POST /users"))


def test_a_timeout_is_told_of_where_it_is_alone() -> None:
    """Two endpoints were in flight; then another call of the same was waited for to the end."""
    entries = [*QUIET, entry(200, 12, 1.01, status=503), entry(201, 12, 1.2, endpoint="GET /b")]
    gave_up = held(1, None, 12, 1.0, "blackhole", "held")
    assert timeouts_of(join_logs(entries, [gave_up], PHASES, None, 5.0)) == {}
    alone = [*QUIET, entry(200, 12, 1.01, status=503), entry(202, 20, 5.0, status=None)]
    own = held(1, 200, 12, 1.0, "blackhole", "held")
    assert timeouts_of(join_logs(alone, [own], PHASES, None, 5.0)) == {("GET /a", "dep"): 1.0}
    to_the_end = held(2, 202, 20, 19.0, "blackhole", "held")
    assert timeouts_of(join_logs(alone, [own, to_the_end], PHASES, None, 5.0)) == {}


def test_the_same_again_at_once_is_a_storm_without_ids() -> None:
    entries = [*QUIET, *(entry(n, 11 + n / 20) for n in range(200, 260))]
    usual = [passed(1000 + n, None, n / 20) for n in range(1, 190)]
    apart = [passed(n, None, 11 + n / 5, "error") for n in range(60)]
    assert "retry storm" not in kinds(entries, usual + apart)
    rows = [
        passed(n * 5 + again, None, 12 + 4 * n + again * 0.003, "error" if again < 4 else None)
        for n in range(4)
        for again in range(5)
    ]
    told = patterns_of(join_logs(entries, usual + rows, PHASES, None, 5.0), SETTINGS)
    assert "up to 5 times in a row: 4 times" in next(p.says for p in told if "storm" in p.kind)


def test_slower_without_a_failure_is_no_defect() -> None:
    quiet = [entry(n, n / 20) for n in range(1, 190)]
    slow = [entry(300 + n, 30 + n / 20, 0.096) for n in range(190)]
    (row,) = recoveries_of(join_logs([*quiet, *slow], [], PHASES, None, 5.0).asked, PHASES)
    assert (row.why, row.slow) == ("", "p95 is 96 ms, 10 ms before")
    failing = [entry(300 + n, 30 + n / 20, 0.01, status=500 if n % 2 else 200) for n in range(190)]
    (row,) = recoveries_of(join_logs([*quiet, *failing], [], PHASES, None, 5.0).asked, PHASES)
    assert "requests failed" in row.why and not row.slow


def test_a_traceback_of_the_log_belongs_to_the_path_before_it(tmp_path: Path) -> None:
    log = [
        "ERROR in app: Exception on /price [GET]",
        "Traceback (most recent call last):",
        f'  File "{tmp_path}/shop.py", line 26, in price',
        "ValueError: x",
    ]
    ((raised, before),) = errors_with_cause(log, tmp_path)
    assert (raised.line, raised.function) == (26, "price")
    assert names_path(before, "GET /price")
    assert not names_path(before, "GET /prices") and not names_path(before, "GET /")


def figure(endpoint: str, what: Any, word: Any) -> FigureChange:
    return FigureChange(
        endpoint=endpoint, what=what, before=0, after=0, low=0, high=0, p=None, word=word
    )


def test_the_difference_of_two_runs_begins_with_their_defects() -> None:
    hang, storm = ("hang", "GET /a", "dep"), ("retry storm", "GET /b", None)
    many, once = Defect("x: 8 of 9", 8), Defect("x: 1 of 9", 1)
    handled = [figure("GET /b", "failed", "worse"), figure("GET /b", "unhandled", "same")]
    mended = weigh({hang: many, storm: once}, {}, handled)
    assert (mended.verdict, len(mended.gone), mended.new) == ("improved", 2, [])
    assert weigh({}, {}, handled).verdict == "worse"
    assert weigh({}, {hang: many}, []).verdict == "worse"
    assert weigh({}, {storm: once}, []).verdict == "same"  # it may be by chance
    assert weigh({hang: many}, {hang: once}, []).left == ["x: 1 of 9"]
    slower = figure("GET /b", "p95_s", "worse")
    assert weigh({storm: once}, {}, [slower]).verdict == "worse"
