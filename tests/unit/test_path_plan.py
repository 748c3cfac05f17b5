"""What the user names of a partition, and what is drawn for the rest."""

from __future__ import annotations

import pytest

from dstest.core.errors import ConfigError
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve


def shapes(*options: str, seed: int = 1) -> set[str]:
    plugins = resolve(RunSpec(nemesis="partition", time_limit_s=90.0, seed=seed), list(options))
    return {plan.facts["shape"] for plan in plugins.plans}


def test_targets_that_are_named_are_cut_off_from_the_rest() -> None:
    for seed in range(5):
        assert shapes("targets=n3", seed=seed) == {"one"}
        assert shapes("targets=n3,n4", seed=seed) == {"halves"}
        assert shapes("targets=n3,n4,n5", "shape=majority", seed=seed) == {"majority"}
    assert "leader" in shapes()


@pytest.mark.parametrize("shape", ["leader", "bridge", "majorities-ring"])
def test_shapes_that_choose_for_themselves_take_no_targets(shape: str) -> None:
    with pytest.raises(ConfigError) as refused:
        shapes("targets=n3", f"shape={shape}")
    assert f"-o targets leaves no choice of shape={shape}" in str(refused.value)
    assert "-o shape=one or shape=halves or shape=majority" in str(refused.value)
