"""Histories for a notebook: nothing is lost on the way, and no verdict gets better."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import msgspec
import pandas as pd
import pyarrow.parquet as pq
import pytest
from gate_store import run_at, session_at
from made_runs import recorded, registers
from session_files import old_json, plume, put, random_history

from dstest.core.errors import ConfigError, DstestError, EvidenceError, HistoryError
from dstest.core.extras import install_command
from dstest.core.history import FaultWindow, Header
from dstest.core.op import FIELDS, Op, Outcome
from dstest.history.export import export_lines
from dstest.history.jsonl import read_history, write_ops
from dstest.notebook import History, frames, plot_anomaly, plot_latency, plot_outcomes, plot_rate
from dstest.report import numbers
from dstest.report.numbers import per_second, seconds_of

pytestmark = pytest.mark.slow

mpl.use("Agg")
S = 1_000_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("notebook")
    run_at(store, 1)
    run_at(store, 4, bug=True)
    return store


@pytest.fixture(scope="module")
def passed(store: Path) -> Path:
    return next(store.glob("*/*-1"))


@pytest.fixture(scope="module")
def failed(store: Path) -> Path:
    return next(store.glob("*/*-4"))


def odd_ops() -> list[Op]:
    """Values of every shape that JSON knows, ids that are names, what never ended."""
    values: list[Any] = [
        None, 0, -1, 2**70, 1.0, 0.1, "", "é\u2028\"\\", True, False, [], [[1, None], "x"],
        {"version": 3, "value": None}, {"é": [1.5]}, "null", "1",
    ]  # fmt: skip
    made = []
    for number, value in enumerate(values):
        made.append(
            Op(
                op_id=f"op-{number}" if number % 2 else number,
                process_id=number % 3,
                invoke_ts=number * S,
                complete_ts=None if number % 5 == 4 else number * S + 5,
                op_type="read",
                key=value if not isinstance(value, list | dict) else "k",
                input=value,
                output=value,
                error="gone" if number % 5 == 3 else None,
                timeout_marker=number % 5 == 4,
                node_seen=None if number % 5 == 4 else "n1",
                fault_epoch="f1" if number == 2 else None,
            )
        )
    return made


HEADER = Header(
    workload="register", model="register", seed=7, nodes=["n1"],
    windows=[FaultWindow(epoch="f1", nemesis="partition", start_ns=2 * S, healed_ns=3 * S)],
)  # fmt: skip


def plain(of: Any) -> str:
    """With types: 1, 1.0 and True are equal in Python."""
    return repr(of)


@pytest.mark.parametrize("rows", [1, 3, 50_000])
def test_parquet_gives_the_same_history(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "ROWS", rows)
    made = History.of(HEADER, odd_ops())
    made.to_parquet(tmp_path / "h.parquet")
    again = History.from_parquet(tmp_path / "h.parquet")
    assert plain(again.ops) == plain(odd_ops()) and again.header == HEADER
    assert pq.ParquetFile(tmp_path / "h.parquet").num_row_groups == math.ceil(16 / rows)
    assert [p.name for p in tmp_path.iterdir()] == ["h.parquet"]


def test_a_run_round_trips_and_is_read_without_dstest(passed: Path, tmp_path: Path) -> None:
    history = History.from_run(passed)
    history.to_parquet(tmp_path / "run.parquet")
    again = History.from_parquet(tmp_path / "run.parquet")
    sealed = read_history(passed / "history.jsonl")
    assert again.ops == history.ops == sealed.ops and again.header == sealed.header
    frame = pd.read_parquet(tmp_path / "run.parquet")
    assert list(frame.columns) == [*FIELDS, "outcome", "windows"]
    assert frame["op_id"].dtype == "int64" and frame["invoke_ts"].is_monotonic_increasing
    assert [json.loads(k) for k in frame["key"]] == [op.key for op in sealed.ops]
    with pytest.raises(ConfigError, match="nobody has judged it"):
        _ = again.verdict


def test_what_json_cannot_hold_is_refused(tmp_path: Path) -> None:
    bad = [msgspec.structs.replace(odd_ops()[0], output=math.nan)]
    with pytest.raises(HistoryError, match="JSON"):
        History.of(HEADER, bad).to_parquet(tmp_path / "h.parquet")
    assert list(tmp_path.iterdir()) == []


def test_another_parquet_file_is_none_of_ours(tmp_path: Path) -> None:
    pd.DataFrame({"op_id": [1]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(HistoryError, match="no history that dstest wrote"):
        History.from_parquet(tmp_path / "x.parquet")
    (tmp_path / "y.parquet").write_bytes(b"PAR1")
    with pytest.raises(HistoryError, match="cannot be read"):
        History.from_parquet(tmp_path / "y.parquet")


def test_a_damaged_parquet_file_is_refused_or_the_same(tmp_path: Path, dice: random.Random) -> None:
    """Every fifth byte with a bit flipped, others each day, in a file of few operations."""
    path = tmp_path / "h.parquet"
    made = History.of(HEADER, odd_ops())
    made.to_parquet(path)
    whole = path.read_bytes()
    refused = 0
    places = range(dice.randrange(5), len(whole), 5)
    for at in places:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << dice.randrange(8)
        path.write_bytes(damaged)
        try:
            again = History.from_parquet(path)
            assert plain(again.ops) == plain(odd_ops()) and again.header == HEADER, at
        except HistoryError as error:
            assert error.remedy, at
            refused += 1
    assert refused > len(places) // 3


def test_a_parquet_file_of_other_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    History.of(HEADER, odd_ops()).to_parquet(path)
    table = pq.read_table(path)
    about = {**table.schema.metadata, **pq.ParquetFile(path).metadata.metadata}
    about.pop(b"ARROW:schema", None)
    older = {k: v for k, v in about.items() if k not in (b"dstest.sha256", b"dstest.rows")}
    headless = {k: v for k, v in about.items() if k != b"dstest.header"}
    table = table.replace_schema_metadata(about)
    others = {
        "16 operations were, 5 are there": table.slice(0, 5),
        "16 operations were, 16 are there": table.take(list(range(15, -1, -1))),
        "no digest of its rows": table.replace_schema_metadata(older),
        "dstest.header": table.replace_schema_metadata(headless),
        "the digest of what they say": table.replace_schema_metadata(
            {**about, b"dstest.header": b'{"seed": 8}'}
        ),
        "key": table.drop_columns(["key"]),
        "another": table.replace_schema_metadata({**about, b"dstest.header": b'{"x"'}),
    }
    pq.write_table(table, path)
    assert plain(History.from_parquet(path).ops) == plain(odd_ops())
    for said, other in others.items():
        pq.write_table(other, path)
        with pytest.raises(HistoryError, match=said) as caught:
            History.from_parquet(path)
        assert caught.value.remedy


def test_a_data_frame_has_the_twelve_fields_and_their_times() -> None:
    ops = odd_ops()
    frame = History.of(HEADER, ops).to_pandas()
    assert list(frame.columns[:12]) == list(FIELDS)
    for name in ("key", "input", "output"):
        assert plain(list(frame[name])) == plain([getattr(op, name) for op in ops])
    assert list(frame["op_id"]) == [op.op_id for op in ops]
    assert frame["process_id"].dtype == "int64" and str(frame["complete_ts"].dtype) == "Int64"
    assert str(frame["latency"].dtype) == "timedelta64[ns]"
    assert frame["latency"][0] == pd.Timedelta(5, "ns") and frame["latency"].isna()[4]
    assert list(frame["outcome"]) == [op.outcome.value for op in ops]
    # Operation 2 begins with the window, 3 with its end; 4 comes after it.
    assert list(frame["windows"][:6]) == ["", "", "f1", "f1", "", ""]
    assert list(frame["in_fault"][:5]) == [False, False, True, True, False]
    assert History.of(HEADER, []).to_pandas().empty


def test_a_run_that_passed(passed: Path) -> None:
    history = History.from_run(passed)
    assert history.verdict.verdict.value == "PASS-smoke" and history.passed
    faults = history.faults()
    assert list(faults["landed"]) == ["yes"] and list(faults["heal_verified"]) == [True]
    assert (faults["healed_at"] - faults["injected_at"])[0] == pd.Timedelta(4, "s")
    found = history.anomalies()
    assert found.empty and found.attrs["verdict"] == "PASS-smoke"
    frame = history.to_pandas()
    assert len(frame) == 700 and frame["in_fault"].sum() > 0


def test_a_run_that_failed(failed: Path) -> None:
    history = History.from_run(str(failed))
    assert history.verdict.verdict.failed and not history.passed
    found = history.anomalies()
    assert set(found["type"]) == {"nonlinearizable"}
    ids = {op.op_id for op in history}
    assert set(found["ops"][0]) <= ids and found["culprit"][0] in ids
    assert found.attrs["verdict"] == "FAIL-nondeterministic"
    (result,) = history.check()
    assert result.valid is False


def test_a_pass_that_ended_early_is_none(passed: Path) -> None:
    history = History.from_run(passed)
    checked = history._checked
    assert checked is not None and history.passed
    early = History(history._source, checked._replace(exit_code=3))
    assert not early.passed


def test_what_is_no_run_to_believe_is_refused(passed: Path, tmp_path: Path) -> None:
    edited = Path(shutil.copytree(passed, tmp_path / "edited"))
    verdict = edited / "verdict.json"
    verdict.write_text(verdict.read_text().replace("PASS-smoke", "PASS-hardening"))
    with pytest.raises(EvidenceError, match="verdict"):
        History.from_run(edited)
    killed = recorded(tmp_path / "killed", registers(count=50), "register")
    with pytest.raises(EvidenceError, match="not judged to its end"):
        History.from_run(killed.path)
    with pytest.raises(ConfigError, match="session"):
        History.from_run(session_at(tmp_path / "store", [7]))
    with pytest.raises(DstestError):
        History.from_run(tmp_path)


def test_files_of_every_kind(passed: Path, tmp_path: Path) -> None:
    sealed = read_history(passed / "history.jsonl")
    assert History.from_file(passed / "history.jsonl").ops == sealed.ops
    for fmt in ("edn", "json"):
        path = tmp_path / f"h.{fmt}"
        path.write_text("\n".join(export_lines(sealed, fmt, keyed=True)))
        read = History.from_file(path)
        assert [op.output for op in read] == [op.output for op in sealed.ops]
        assert len(read.to_pandas()) == len(sealed.ops)
    log = "INFO  jepsen.util - 0 :invoke :read nil\nINFO  jepsen.util - 0 :ok :read 1\n"
    (tmp_path / "h.log").write_text(log)
    assert [op.output for op in History.from_file(tmp_path / "h.log")] == [1]


@pytest.mark.parametrize("writer", [old_json, plume])
def test_sessions_of_other_tools(writer: Callable[[Any], str], tmp_path: Path) -> None:
    sessions = random_history(random.Random(3), txns=30, aborts=writer is old_json)
    history = History.from_file(put(tmp_path, writer(sessions)))
    assert len(history.ops) == sum(len(session) for session in sessions)
    for number, session in enumerate(sessions):
        mine = [op for op in history if op.process_id == number]
        assert {op.outcome for op in mine} == {Outcome.OK}
        assert [len(op.input) for op in mine] == [len(mops) for mops, done in session if done]
        assert [op.invoke_ts for op in mine] == sorted(op.invoke_ts for op in mine)
    aborted = [op for op in history if op.outcome is Outcome.FAIL]  # their place is not known
    assert len(aborted) == sum(not done for session in sessions for _, done in session)
    assert {op.process_id for op in aborted} <= {-1}
    (result,) = history.check(models=["read-committed"])
    assert result.model == "read-committed"


def test_a_cut_file_is_refused_wherever_it_is_read(passed: Path, tmp_path: Path) -> None:
    whole = (passed / "history.jsonl").read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(whole[:-20])
    history = History.from_file(tmp_path / "cut.jsonl")
    for use in (history.to_pandas, lambda: history.ops,
                lambda: history.to_parquet(tmp_path / "x.parquet")):  # fmt: skip
        with pytest.raises(HistoryError, match="line 701"):
            use()
    with pytest.raises(HistoryError):
        history.check()
    assert not (tmp_path / "x.parquet").exists()


def test_a_history_of_python_is_checked() -> None:
    def op(number: int, kind: str, asked: Any, answered: Any) -> Op:
        return Op(
            op_id=number, process_id=0, invoke_ts=10 * number, complete_ts=10 * number + 5,
            op_type=kind, key="x", input=asked, output=answered,
        )  # fmt: skip

    header = Header(workload="register", model="register")
    good = [op(0, "write", 1, None), op(1, "read", None, 1)]
    (result,) = History.of(header, good).check(models=["register"])
    assert result.valid is True
    stale = [*good, op(2, "write", 2, None), op(3, "read", None, 1)]
    (result,) = History.of(header, stale).check()
    assert result.valid is False


def test_plots_are_axes(failed: Path) -> None:
    history = History.from_run(failed)
    for plot in (plot_latency, plot_rate, plot_outcomes, plot_anomaly):
        axes = plot(history)
        assert axes.get_title(loc="left") and (axes.patches or axes.collections)
        axes.figure.canvas.draw()
    names = [text.get_text() for text in plot_latency(history).texts]
    assert names == [" f1"]
    labels = [text.get_text() for text in plot_anomaly(history).get_yticklabels()]
    assert len(labels) == len(history.anomalies()["ops"][0])
    with pytest.raises(ConfigError, match="no anomaly 9"):
        plot_anomaly(history, 9)
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.parametrize("apart_s", [1, 10**9])
def test_plots_of_times_of_the_wall_are_bounded(
    apart_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "RATE_SECONDS_MAX", 1_000)
    start, s = 1_700_000_000, 1_000_000_000
    ops = [
        msgspec.structs.replace(odd_ops()[0], op_id=n, invoke_ts=at * s, complete_ts=at * s + 1)
        for n, at in enumerate((start, start + apart_s))
    ]
    history = History.of(Header(), ops)
    for plot in (plot_rate, plot_outcomes):
        left, right = plot(history).get_xlim()
        assert left == start and start + apart_s <= right <= start + 2 * apart_s
    assert seconds_of(ops).parts <= 1_000
    assert sum(map(sum, per_second(ops).values())) == 2


def test_plots_of_a_file_say_that_no_fault_is_proven(failed: Path) -> None:
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    history = History.from_file(failed / "history.jsonl")
    assert plot_rate(history, ax) is ax
    greys = [patch.get_facecolor()[:3] for patch in ax.patches[:1]]
    assert greys == [mpl.colors.to_rgb("#888888")]
    plt.close("all")


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError) as caught:
        History.of(HEADER, odd_ops()).to_pandas()
    assert caught.value.remedy == install_command("notebook")


def test_memory_is_bounded_by_row_groups(tmp_path: Path) -> None:
    """Twice as many operations take no more memory to write."""
    import subprocess
    import sys

    code = (
        "import resource, sys; from pathlib import Path\n"
        "import pyarrow.parquet\n"
        "from dstest.notebook import History\n"
        "History.from_file(sys.argv[1]).to_parquet(sys.argv[1] + '.parquet')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks = []
    for count in (30_000, 90_000):
        path = tmp_path / f"{count}.jsonl"
        ops = (
            Op(op_id=i, process_id=i % 9, invoke_ts=i, complete_ts=i + 1, op_type="write",
               key="k", input="v" * 100)
            for i in range(count)
        )  # fmt: skip
        write_ops(path, Header(workload="register"), ops)
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=110,
            check=True,
        )  # fmt: skip
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] - peaks[0] < 20, peaks  # 60,000 operations in memory are 30 MB
