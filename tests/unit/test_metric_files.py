"""Samples in files of anybody's, and tables of sizes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dstest.core.errors import ConfigError, HistoryError
from dstest.debug.monitor.exposition import Reading, known_name, read_metrics, read_sizes
from dstest.debug.monitor.scale import fit

AT_NS = 1_709_633_730_500_000_000


def read(path: Path, text: str) -> list[Reading]:
    path.write_text(text)
    return list(read_metrics(path))


def test_prometheus_has_milliseconds_and_openmetrics_seconds(tmp_path: Path) -> None:
    text = '# HELP x "y"\nrss{node="n1",a="b\\"} c"} 5 '
    for path, stamp in (("a", "1709633730500\n"), ("b", "1709633730.5\n# EOF\n")):
        (one,) = read(tmp_path / path, text + stamp)
        assert one[:4] == (AT_NS, "n1", "rss", 5.0)
        assert one.place.endswith(":2")


def test_a_sample_is_of_its_instance_without_the_port_else_of_its_file(tmp_path: Path) -> None:
    text = (
        'up{instance="n2:9100"} 1\nup 0\nup NaN\nlat_duration_seconds{quantile="0.99"} 2 # {} 1\n'
    )
    rows = read(tmp_path / "n3.prom", text)
    assert [(one.node, one.name, one.value) for one in rows] == [
        ("n2", "up", 1.0), ("n3", "up", 0.0), ("n3", "p99", 2000.0)
    ]  # fmt: skip


def test_csv_by_the_names_of_its_columns(tmp_path: Path) -> None:
    rows = read(
        tmp_path / "m.csv",
        "value,name,node,time,more\n7,process_open_fds,n1,2024-03-05T10:15:30.5Z,x\n\n"
        "8,open_fds,n1,1709633730.5,x\n",
    )
    assert [(one.name, one.value) for one in rows] == [("fds", 7.0), ("fds", 8.0)]
    assert all(abs((one.time_ns or 0) - AT_NS) < 1000 for one in rows)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("process_resident_memory_bytes", "rss"),
        ("rss", "rss"),
        ("process_open_fds", "fds"),
        ("jvm_threads_current", "threads"),
        ("pg_connections", "connections"),
        ("etcd_server_pending_proposals_total", "etcd_server_pending_proposals_total"),
        ("worker_queue_depth", "queue"),
        ("grpc_connections_total", "grpc_connections_total"),
    ],
)
def test_counters_that_only_grow_are_no_resources(theirs: str, ours: str) -> None:
    assert known_name(theirs) == ours


def test_files_may_be_packed(tmp_path: Path) -> None:
    (tmp_path / "m.gz").write_bytes(gzip.compress(b"up 1\n"))
    assert [one.value for one in read_metrics(tmp_path / "m.gz")] == [1.0]


def test_a_table_of_sizes(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("nodes,messages\n" + "".join(f"{n}, {3 * n * n + 1}\n" for n in (3, 5, 9, 15)))
    points = read_sizes(path)
    assert points[0] == (3, 28.0) and fit(points).best == "O(n²)"


@pytest.mark.parametrize("text", ["3,1\nfive,2\n", "3,1,2\n", "n,v\n3\n", "-3,1\n5,1\n", "x,3\n"])
def test_a_table_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(text + "5,1\n9,1\n")
    with pytest.raises(HistoryError):
        read_sizes(tmp_path / "t")
    with pytest.raises(ConfigError):
        read_sizes(tmp_path / "none")
