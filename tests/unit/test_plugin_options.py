"""Options of plug-ins: what no run could write down, or no user could give, is refused at load."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from made_plugins import CHECKER, NEMESIS, OPTIONED, WORKLOAD, with_line
from third_party import BARE

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.protocols import Option
from dstest.core.registry import FILES, use
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve

WHOLE = {"system": OPTIONED + BARE, "workload": WORKLOAD, "nemesis": NEMESIS, "checker": CHECKER}


@pytest.fixture(autouse=True)
def _no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILES, "")


def declared(folder: Path, options: str, of: str = "workload") -> None:
    """Load a plug-in of this kind with these options."""
    path = folder / "mine.py"
    path.write_text(with_line(WHOLE[of], f"options = {options}"))
    use([path])


GOOD = [
    "type=list, default=[]",
    "type=tuple, default=()",
    "type=dict, default={}",
    "type=dict, default={'a': [1, 'b', {}]}",
    "type=str, default=''",
    "type=str, default='a\\n\\t\\0é'",
    "type=float, default=0",
    "type=int, default=2**62",
    "type=int, default=1, least=1, most=1",
    "type=str, default='a', choices=('a', 'b')",
]


@pytest.mark.parametrize("words", GOOD)
def test_a_default_that_can_be_held_is_read_as_it_was_written(tmp_path: Path, words: str) -> None:
    declared(tmp_path, f"{{'x': Option({words}, help='h')}}")
    files = (str(tmp_path / "mine.py"),)
    spec = resolve(RunSpec(workload="mine", nemesis="none", files=files), []).spec
    in_json = msgspec.json.decode(msgspec.json.encode(spec))
    value = spec.options["x"]
    assert in_json["options"]["x"] == (list(value) if isinstance(value, tuple) else value)


BAD = [
    ("type=list, default=[float('inf')]", "default is nothing that JSON can hold"),
    ("type=dict, default={1: 2}", "default is nothing that JSON can hold"),
    ("type=str, default='a\\ud800b'", "default is nothing that JSON can hold"),
    ("type=float, default=float('inf')", "default is nothing that JSON can hold"),
    ("type=float, default=float('nan')", "default is nothing that JSON can hold"),
    ("type=int, default=2**70", "default is nothing that JSON can hold"),
    ("type=int, default=None", "without a default"),
    ("type=str, default=20", "default 20 is no str"),
    ("type=int, default=True", "default True is no int"),
    ("type=int, default=1.5", "default 1.5 is no int"),
    ("type=set, default=set()", "type is <class 'set'>"),
    ("type=len, default=1", "type is <built-in"),
    ("type=int, default=0, least=1", "default 0 is out of range"),
    ("type=int, default=3, most=2", "default 3 is out of range"),
    ("type=int, default=3, least=float('nan')", "default 3 is out of range"),
    ("type=str, default='a', least=1", "range is of no number"),
    ("type=int, default=3, least='1'", "least is '1'"),
    ("type=str, default='c', choices=('a', 'b')", "default 'c' is none of its choices"),
    ("type=str, default='a', choices='abc'", "choices is 'abc'"),
    ("type=int, default=1, choices=(1, '2')", "choices are not all int"),
]


@pytest.mark.parametrize(
    ("of", "words", "said"),
    # What `dstest check` is not told is None.
    [(of, *row) for of in WHOLE for row in BAD if of != "checker" or "without" not in row[1]],
)
def test_what_no_run_could_have_is_refused(tmp_path: Path, of: str, words: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        declared(tmp_path, f"{{'x': Option({words}, help='h')}}", of)
    assert "mine.py" in caught.value.message
    assert said in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize("of", WHOLE)
@pytest.mark.parametrize(
    "options",
    ["{'a': 3}", "{3: None}", "5", "{'a': Option}", "{'': O}", "{'a=b': O}", "{'a b': O}",
     "{'x': Option(type=int, default=1, help=None)}"],
)  # fmt: skip
def test_what_are_no_options_is_refused(tmp_path: Path, of: str, options: str) -> None:
    text = options.replace("O}", "Option(type=int, default=1, help='h')}")
    with pytest.raises(ConfigError, match=r"(?i)mine\.py.* option") as caught:
        declared(tmp_path, text, of)
    assert caught.value.remedy


def test_a_checker_may_leave_open_what_a_history_says(tmp_path: Path) -> None:
    declared(tmp_path, "{'x': Option(type=int, default=None, least=1, help='h')}", "checker")
    assert registry.load("checkers", "mine").options["x"].default is None


@pytest.mark.parametrize(
    ("kind", "text"), [(str, "a\udcff"), (list, "a\udcff"), (int, "9" * 30), (tuple, "\udcff")]
)
def test_what_no_file_can_hold_is_not_taken_from_the_user(kind: type, text: str) -> None:
    options = {"x": Option(type=kind, default=kind(), help="h")}
    with pytest.raises(ConfigError, match="cannot be written down"):
        registry.parse_options([f"x={text}"], options)
