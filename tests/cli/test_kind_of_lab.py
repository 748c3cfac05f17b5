"""Which lab a run uses: that of the id that is named, and no other one of the same name."""

from __future__ import annotations

import pytest

from dstest.cli import lab_common
from dstest.core.errors import ConfigError
from dstest.core.run_words import command_of, with_lab


class _Lab:
    def __init__(self, ids: list[str]) -> None:
        self._ids = ids

    def list(self) -> list[str]:
        return self._ids


@pytest.fixture(autouse=True)
def _labs(monkeypatch: pytest.MonkeyPatch) -> None:
    labs = {"lxc": _Lab(["one", "two"]), "hosts": _Lab(["staging", "two"])}
    monkeypatch.setattr(lab_common, "kinds", lambda kind: [kind] if kind else list(labs))
    monkeypatch.setattr(lab_common, "lab_of_kind", labs.__getitem__)


def test_the_lab_of_the_id_is_meant() -> None:
    assert lab_common.kind_of_run("staging", None) == "hosts"
    assert lab_common.kind_of_run("one", None) == "lxc"
    assert lab_common.kind_of_run("new", None) == "lxc"
    assert lab_common.kind_of_run(None, None) == "lxc"
    assert lab_common.kind_of_run(None, "hosts") == "hosts"


def test_another_kind_of_this_id_is_refused() -> None:
    with pytest.raises(ConfigError, match="lab staging is of kind hosts"):
        lab_common.kind_of_run("staging", "lxc")
    with pytest.raises(ConfigError, match="labs two of kinds lxc, hosts"):
        lab_common.kind_of_run("two", None)
    assert lab_common.kind_of_run("two", "hosts") == "hosts"


def test_a_command_to_copy_names_the_lab_that_somebody_named() -> None:
    spec = {"system": "etcd", "lab": "hosts"}
    assert "--lab-id staging" in command_of(with_lab(spec, "staging"))
    for own in ("default", "run-4711", "s99-5", None):
        assert "--lab-id" not in command_of(with_lab(spec, own))
