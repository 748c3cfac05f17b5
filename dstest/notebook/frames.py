"""Operations, faults and anomalies as data frames of pandas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from dstest.core.extras import need
from dstest.core.history import RUN_END_NS, Window, epochs_of
from dstest.core.op import FIELDS, Op, Outcome
from dstest.report.model import RunReport
from dstest.report.moments import moments

if TYPE_CHECKING:
    import pandas as pd

EXTRA: Final = "notebook"


def _pandas() -> None:
    """Raises ConfigError where pandas is not installed."""
    need("pandas", EXTRA, "a data frame")


def windows_of(op: Op, windows: list[Window]) -> str:
    """The fault windows that an operation overlaps: `f1`, `f1 f2`, empty for none. One that never
    completed lasts until the end of the run, and so until all later windows."""
    return " ".join(epochs_of(op, windows, RUN_END_NS)) if windows else ""


class _Columns:
    """The twelve fields, and what is derived of them, a list each."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {
            name: [] for name in (*FIELDS, "due_ts", "outcome", "windows")
        }

    def add(self, ops: Iterable[Op], windows: list[Window]) -> None:
        put = {name: rows.append for name, rows in self.rows.items()}
        fields = [(put[name], name) for name in FIELDS]
        for op in ops:
            for append, name in fields:
                append(getattr(op, name))
            put["due_ts"](op.due_ns)
            put["outcome"](op.outcome.value)
            put["windows"](windows_of(op, windows))


def _ids(pd: Any, values: list[Any]) -> Any:
    """Integers where all are, else what they are."""
    if all(type(value) is int and -(2**63) <= value < 2**63 for value in values):
        return pd.Series(values, dtype="int64")
    return pd.Series(values, dtype="object")


def ops_frame(ops: Iterable[Op], windows: list[Window]) -> pd.DataFrame:
    """A row per operation, in order of invocation."""
    _pandas()
    import pandas as pd

    found = _Columns()
    found.add(ops, windows)
    rows = found.rows
    category: Any = "category"
    frame = pd.DataFrame(
        {
            "op_id": _ids(pd, rows.pop("op_id")),
            "process_id": _ids(pd, rows.pop("process_id")),
            "invoke_ts": pd.Series(rows.pop("invoke_ts"), dtype="int64"),
            "complete_ts": pd.Series(rows.pop("complete_ts"), dtype="Int64"),
            "op_type": pd.Series(rows.pop("op_type"), dtype=category),
            "key": pd.Series(rows.pop("key"), dtype="object"),
            "input": pd.Series(rows.pop("input"), dtype="object"),
            "output": pd.Series(rows.pop("output"), dtype="object"),
            "error": pd.Series(rows.pop("error"), dtype="object"),
            "timeout_marker": pd.Series(rows.pop("timeout_marker"), dtype="bool"),
            "node_seen": pd.Series(rows.pop("node_seen"), dtype=category),
            "fault_epoch": pd.Series(rows.pop("fault_epoch"), dtype=category),
        }
    )
    frame["outcome"] = pd.Categorical(rows.pop("outcome"), [one.value for one in Outcome])
    frame["invoke"] = pd.to_timedelta(frame["invoke_ts"], unit="ns")
    frame["complete"] = _times(pd, frame["complete_ts"])
    frame["latency"] = frame["complete"] - frame["invoke"]
    frame["due"] = pd.to_timedelta(pd.Series(rows.pop("due_ts"), dtype="int64"), unit="ns")
    frame["windows"] = pd.Series(rows.pop("windows"), dtype=category)
    frame["in_fault"] = frame["windows"] != ""
    return frame


def _times(pd: Any, values: Any) -> Any:
    """Nanoseconds as timedelta64[ns], NaT for none."""
    return pd.to_timedelta(pd.Series(values, dtype="Int64"), unit="ns")


def faults_frame(report: RunReport) -> pd.DataFrame:
    """A row per fault. `landed` is the judge's word, which may be less than the record's."""
    _pandas()
    import pandas as pd

    views = {view.id: view for view in report.faults}
    rows = [
        {
            "fault_id": record.fault_id,
            "nemesis": record.nemesis,
            "epoch": record.epoch,
            "kind": (view := views[record.fault_id]).kind,
            "targets": record.targets,
            "scheduled_at": record.scheduled_at,
            "injected_at": record.injected_at,
            "landed_at": record.landed_at,
            "heal_start": record.heal_start,
            "healed_at": record.healed_at,
            "landed": view.landed,
            "heal_verified": record.heal_verified,
            "residue": record.residue,
            "looks": view.looks,
            "injector": None if record.injector is None else record.injector.signal,
            "injector_moved": record.injector is not None and record.injector.moved,
            "victim": None if record.victim is None else record.victim.signal,
            "victim_moved": record.victim is not None and record.victim.moved,
            "control": None if record.control is None else record.control.signal,
            "notes": view.notes,
        }
        for record in report.records
    ]
    times = ("scheduled_at", "injected_at", "landed_at", "heal_start", "healed_at")
    names = list(rows[0]) if rows else ["fault_id", "nemesis", "landed", "heal_verified", *times]
    frame = pd.DataFrame(rows, columns=names)
    for name in times:
        frame[name] = _times(pd, frame[name])
    return frame


def anomalies_frame(report: RunReport) -> pd.DataFrame:
    """A row per anomaly with its witness. Whether there is none because all is well, the verdict
    says: it is in `attrs`."""
    _pandas()
    import pandas as pd

    rows = [
        {
            "number": one.number,
            "checker": one.checker,
            "type": one.anomaly.type,
            "key": one.anomaly.key,
            "explanation": one.anomaly.explanation,
            "did": one.meaning.did,
            "means": one.meaning.means,
            "where": one.where,
            "ops": list(one.anomaly.ops),
            "minimal": one.anomaly.minimal,
            "epochs": list(one.anomaly.epochs),
            "culprit": one.culprit,
            "start": one.start_ns,
            "told": one.told_ns,
        }
        for one in moments(report, [])
    ]
    names = list(rows[0]) if rows else ["number", "checker", "type", "key", "explanation", "ops"]
    frame = pd.DataFrame(rows, columns=names, dtype="object").infer_objects()
    for name in ("key", "culprit"):
        if name in frame:  # numbers beside none would become floats
            frame[name] = pd.Series([row[name] for row in rows], dtype="object")
    for name in ("start", "told"):
        if name in frame:
            frame[name] = _times(pd, frame[name])
    frame.attrs["verdict"] = report.state.value
    return frame
