"""How lines are read: forms, systems' own readers, clocks, and what cannot be read."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_files import CHECKS_NAMES, ORIGIN, SECOND, at, found, looked, looked_at
from typer.testing import CliRunner

from clusters.supervise import log_lines
from clusters.supervise.log_lines import REDIS_LINES
from clusters.systems.etcd.system import READER as ETCD
from clusters.systems.toykv.system import READER as TOYKV
from dstest.cli.app import app
from dstest.core import registry
from dstest.core.errors import ConfigError, HistoryError
from dstest.core.log_lines import wall_time_ns
from dstest.core.protocols import LogReader
from dstest.core.run_record import RunMeta
from dstest.debug.logs import run_logs
from dstest.debug.logs.analysis import checks_named
from dstest.debug.logs.formats import plain_record
from dstest.debug.logs.lines import Source, each_line, sources_of
from dstest.debug.logs.scene import clocks_of_run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("text", "form", "level", "message"),
    [
        (
            '{"timestamp":"2026-11-28T12:00:00Z","level":"ERROR","message":"x"}',
            "json",
            "error",
            "x",
        ),
        ('{"ts":1,"severity":"warn","msg":"x","err":"y"}', "json", "warning", "x: y"),
        ("2026-11-28T12:00:00Z [CRITICAL]: it broke", "stamped", "critical", "it broke"),
        ("2026-11-28T12:00:00.123Z [info] fine", "stamped", "info", "fine"),
        ("panic: at the disco", "plain", "", "panic: at the disco"),
        ('{"cut":', "plain", "", '{"cut":'),
        ("[" * 4000, "plain", "", "[" * 4000),
    ],
)
def test_forms(text: str, form: str, level: str, message: str) -> None:
    record, read_as = plain_record(text)
    assert (read_as, record.level, record.message) == (form, level, message)


@given(st.text(max_size=300))
def test_any_text_is_a_line(text: str) -> None:
    plain_record(text)
    for reader in (ETCD, TOYKV, log_lines.POSTGRESQL_LINES):
        reader.record_of(text)


FIELDS = [
    *("message", "level", "operation", "duration", "vote", "messageId", "spanId", "appliedIndex"),
    *("stateHash", "vectorClock", "error", "status", "term"),
]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(FIELDS),
                inner,
                max_size=8,
            )
        ),
        max_leaves=20,
    )
)
def test_any_object_is_a_line(value: object) -> None:
    text = json.dumps(value)
    plain_record(text)
    ETCD.record_of('{"level":"info","msg":' + text + "}")


READ = [
    (log_lines.POSTGRESQL_LINES, "2026-11-28 12:00:00.123 UTC [7] FATAL:  the end", "error"),
    (log_lines.POSTGRESQL_LINES, "2026-11-28 12:00:00.1 UTC [7] a@b LOG:  checkpoint", "info"),
    (log_lines.MARIADB_LINES, "2026-11-28 12:00:00 0 [Warning] InnoDB: slow", "warning"),
    (log_lines.MARIADB_LINES, "2026-11-28  9:00:00 12 [ERROR] Aborted", "error"),
    (REDIS_LINES, "7:M 28 Nov 2026 12:00:00.123 # Cluster state changed", "warning"),
    (log_lines.NATS_LINES, "[7] 2026/11/28 12:00:00.123456 [ERR] no route", "error"),
    (log_lines.RABBITMQ_LINES, "2026-11-28 12:00:00.1+00:00 [warning] <0.2.0> hm", "warning"),
    (log_lines.TARANTOOL_LINES, "2026-11-28 12:00:00.123 [7] main/103/x.lua E> bad", "error"),
    (log_lines.ZOOKEEPER_LINES, "2026-11-28 12:00:00,123 [myid:1] - WARN  [x:Y@1] - z", "warning"),
    (log_lines.PATRONI_LINES, "2026-11-28 12:00:00,123 ERROR: failed", "error"),
    (ETCD, '{"level":"warn","ts":"2026-11-28T12:00:00.0Z","msg":"slow"}', "warning"),
    (TOYKV, "toykv: the disk refuses: [Errno 5]", "error"),
]


@pytest.mark.parametrize(("reader", "text", "level"), READ)
def test_lines_of_systems(reader: LogReader, text: str, level: str) -> None:
    record = reader.record_of(text)
    assert record is not None and record.level == level and record.message
    assert reader.record_of("Traceback (most recent call last):") is None


def test_each_system_reads_its_logs_or_says_that_it_does_not() -> None:
    without = {
        name
        for name in registry.names("systems", ours=True)
        if registry.load("systems", name).logs.reader is None
    }
    assert without == {"memcached"}, "it writes no lines of a form"


def etcd(second: float, message: str, **more: object) -> str:
    fields = {"level": "info", "ts": at(second), "msg": message, **more}
    return json.dumps(fields, separators=(",", ":"))


def test_etcd_tells_of_votes_and_of_peers_by_their_ids(tmp_path: Path) -> None:
    ids = [
        etcd(1, "added remote peer", **{"remote-peer-id": i, "remote-peer-urls": [f"http://{a}:1"]})
        for i, a in (("aa", "10.0.0.1"), ("bb", "10.0.0.2"), ("cc", "10.0.0.3"))
    ]
    lost = json.loads(etcd(9, "lost TCP streaming connection", **{"remote-peer-id": "bb"}))
    lost = json.dumps({**lost, "level": "warn", "error": "i/o timeout"}, separators=(",", ":"))
    logs = {
        "n1": [*ids, *(etcd(2, f"aa became candidate at term {n}") for n in range(2, 10)), lost],
        "n2": [
            etcd(2, f"bb [logterm: 1, index: 5, vote: 0] cast MsgVote for aa [x] at term {n}")
            for n in range(2, 10)
        ],
        "n3": [etcd(2, "cc is here")],
    }
    where = {f"10.0.0.{n}": f"n{n}" for n in (1, 2, 3)}
    made = looked(tmp_path, logs, list(logs), reader=ETCD, addresses=where)
    assert [one.nodes for one in found(made, "silent_failures")] == [["n3"]]
    assert [one.nodes for one in found(made, "network_partition_detected")] == [["n1", "n2"]]
    assert made.forms == {"etcd's JSON": 21}


def test_times_are_those_of_the_run_by_what_was_measured_of_the_clock() -> None:
    meta = RunMeta.of(
        {
            "spec": {},
            "model": "",
            "checkers": [],
            "nodes": ["n1", "n2"],
            "faults_planned": 0,
            "clock": {},
            "origin_ns": 5 * SECOND,
            "clock_start_ns": ORIGIN - 5 * SECOND,
            "node_offsets_start_ns": {"n1": [ORIGIN - 5 * SECOND + 2_000_000, 300]},
            "node_offsets_end_ns": {"n1": [ORIGIN - 5 * SECOND + 4_000_000, 200]},
        }
    )
    clocks = clocks_of_run(meta)
    assert clocks.aligned("n1", ORIGIN + SECOND) == (SECOND - 3_000_000, 1_000_300)
    assert clocks.aligned("n2", ORIGIN + SECOND) == (SECOND, 0)
    assert any("n2: not measured" in one for one in clocks.describe(["n1", "n2"]))


def test_a_line_that_follows_a_line_is_of_its_time_and_one_of_its_own_is_not(
    tmp_path: Path,
) -> None:
    logs = {"n1": [f"{at(5)} [ERROR]: down", "  OutOfMemoryError", "toykv: shuts down"]}
    made = looked(tmp_path, logs, reader=TOYKV)
    (one,) = found(made, "out_of_memory")
    assert one.rows[0].time_ns == 5 * SECOND
    assert made.stampless == 1


def test_names_of_nodes_and_absolute_paths(tmp_path: Path) -> None:
    for name in ("n1.log", "n1.log.1", "n2.log"):
        (tmp_path / name).write_text("x\n")
    with gzip.open(tmp_path / "n3.log.2.gz", "wb") as file:
        file.write(b"a\n\nb\n")
    absolute = sources_of([tmp_path / "n1.log", tmp_path / "n2.log"])
    assert [(one.node, one.shown) for one in absolute] == [
        ("n1", str(tmp_path / "n1.log")),
        ("n2", str(tmp_path / "n2.log")),
    ]
    every = sources_of([tmp_path.resolve()])
    assert sorted({one.node for one in every}) == ["n1", "n2", "n3"]
    assert list(each_line(every[-1])) == [(1, "a"), (3, "b")]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not there"):
        sources_of([tmp_path / "none.log"])
    with pytest.raises(ConfigError, match="holds no log"):
        sources_of([tmp_path])
    (tmp_path / "n1.log.zst").write_bytes(b"(\xb5/\xfd")
    with pytest.raises(ConfigError, match=r"packed as \.zst"):
        sources_of([tmp_path])
    cut = tmp_path / "n1.log.gz"
    cut.write_bytes(gzip.compress(b"line\n" * 1000)[:30])
    with pytest.raises(HistoryError, match="cut off"):
        list(each_line(Source("n1", cut, "n1")))
    with pytest.raises(ConfigError, match="is no check"):
        checks_named(["latency"])
    assert len(checks_named(CHECKS_NAMES)) == len(CHECKS_NAMES)


def test_what_is_kept_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """Ten times the lines take no more memory."""
    peaks = []
    for count in (1_000, 10_000):
        text = f"{at(5)} [ERROR]: dial 10.0.0.2: connection refused\n"
        log = tmp_path / str(count) / "n1.log"
        log.parent.mkdir()
        log.write_text(text * count)
        tracemalloc.start()
        try:
            made = looked_at([log])
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert made.lines == count and found(made, "connection_failures")[0].count == count
    assert peaks[1] < 1.2 * peaks[0] + 50_000


@pytest.mark.parametrize(
    "text",
    [
        '{"level":"info","ts":1795867241.75,"msg":"x"}',
        '{"ts": 1.79586724175e+09, "msg": "x"}',
        '{"time":1795867241750,"msg":"x"}',
        '{"timestamp": 1795867241750000000}',
        "1795867241.750 INFO x",
        "<34>1 2026-11-28T12:00:41.750Z host app 7 - - x",
        "<34>Nov 28 12:00:41.750 host app[7]: x",
        "Nov 28 12:00:41.750 host app: x",
    ],
)
def test_stamps(text: str) -> None:
    read_ns = 1_795_900_000_000_000_000
    assert abs((wall_time_ns(text, read_ns) or 0) - 1_795_867_241_750_000_000) < 1000


def test_a_stamp_without_a_year_is_of_the_last_one_and_numbers_are_no_times() -> None:
    january = wall_time_ns("2027-01-02T00:00:00Z")
    assert wall_time_ns("Dec 31 23:59:59 host app: x", january) == wall_time_ns(
        "2026-12-31T23:59:59Z"
    )
    assert wall_time_ns('{"bytes": 1795867241, "msg": "x"}', january) is None
    assert plain_record("<34>Nov 28 12:00:41 host app: x")[0].level == "critical"


@given(st.one_of(st.binary(), st.text(st.characters(max_codepoint=300)).map(str.encode)))
def test_a_message_of_a_simulation_is_read_from_its_literal(data: bytes) -> None:
    assert run_logs._text_of(repr(data)) == data.decode("utf-8", "replace").strip()


@pytest.mark.parametrize("literal", ["b'", "b'x", "b'x\"", "b'x'y'", "b'\xe4'", "b'\\'", "b''x"])
def test_what_is_no_literal_is_no_message(literal: str) -> None:
    assert run_logs._text_of(literal) is None


def test_lines_that_no_time_bounds_are_told(tmp_path: Path) -> None:
    (tmp_path / "n1.log").write_text("hello\nthere\n")
    argv = ["logs", str(tmp_path / "n1.log"), "--since", "2026-11-28T12:00:00Z"]
    said = CliRunner().invoke(app, argv).output
    assert "--since and --until left 2 lines in" in said
