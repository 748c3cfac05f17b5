"""Nothing is written as JSON that the reader of a run cannot read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from dstest.core.errors import HarnessError
from dstest.core.evidence import Signal
from dstest.core.recordable import legible, not_json
from dstest.history.layout import RunDir

ODD = {
    "a number": ({"version": math.nan}, "version = nan"),
    "deep": ({"records": [{"before": {"n1": -math.inf}}]}, "records[0].before.n1 = -inf"),
    "of a struct": (Signal(signal="s", before={"n1": math.inf}), "before.n1 = inf"),
    "a text": ({"version": "\udc80"}, r"version = '\udc80'"),
    "a key": ({"x": {"\udc80": 1}}, r"a key of x = '\udc80'"),
    "a number as key": ({math.nan: 1}, "a key = nan"),
    "alone": (math.nan, "nan"),
    "no data": ({"x": object()}, "Encoding objects of type object is unsupported"),
}


@pytest.mark.parametrize("name", ODD)
def test_what_cannot_be_read_is_not_written(name: str, tmp_path: Path) -> None:
    value, said = ODD[name]
    assert said in not_json(value)
    run = RunDir(tmp_path)
    with pytest.raises(HarnessError) as told:
        run.write_json("run.json", value)
    assert "cannot write run.json" in told.value.message
    assert said in told.value.message
    assert "restore" not in str(told.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, True, "ü", 2**70]}, [], {1: "x"}, b"x"])
def test_what_can_is(value: Any, tmp_path: Path) -> None:
    assert not_json(value) == ""
    RunDir(tmp_path).write_json("x.json", value)
    RunDir(tmp_path).read_json("x.json")


def test_the_rest_of_an_odd_value_stays() -> None:
    assert legible({"a": [math.nan, 1, "\udc80"], "b": None}) == {
        "a": ["nan", 1, "\\udc80"], "b": None,
    }  # fmt: skip
