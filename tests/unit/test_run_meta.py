"""run.json as a struct: the same keys in and out, those of other versions as well."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from made_meta import PLANNED, WHOLE, meta

from dstest.core.errors import EvidenceError
from dstest.core.run_record import RunMeta
from dstest.history.layout import RunDir


def test_what_was_read_is_what_is_written() -> None:
    known = WHOLE | {"other": 1, "of-another-version": {"a": [1]}, "pid_start_time": None}
    plain = RunMeta.of(known).plain
    assert plain.keys() == known.keys()
    assert plain["of-another-version"] == {"a": [1]}
    assert RunMeta.of(plain) == RunMeta.of(known)


def test_what_was_not_written_is_absent() -> None:
    assert meta().plain.keys() == PLANNED.keys()
    assert meta().ended_by is msgspec.UNSET
    assert "ended_by" in meta(ended_by=None).plain


def test_a_run_that_ends_by_itself_writes_all_of_it() -> None:
    assert WHOLE.keys() >= RunMeta.AT_THE_END
    assert set(RunMeta.__struct_fields__) >= RunMeta.AT_THE_END


@pytest.mark.parametrize(
    "text",
    ["[]", "7", "{}", '{"spec": 1}', "{", msgspec.json.encode(WHOLE | {"pid": "x"}).decode()],
)
def test_what_is_no_run_json_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(EvidenceError, match=r"run\.json cannot be read"):
        RunDir(tmp_path).read_meta()


def test_a_directory_without_one(tmp_path: Path) -> None:
    assert RunDir(tmp_path).read_meta() is None
    made = meta(pid=5)
    RunDir(tmp_path).write_meta(made)
    assert RunDir(tmp_path).read_meta() == made
