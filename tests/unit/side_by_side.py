"""Which tests run one after the other where several processes of pytest-xdist share the work."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

LABS = "tests/integration/"

OWN_MACHINES = (
    "hosts", "lab", "lab_packages", "own_files", "podman", "pytest_plugin", "sessions", "vagrant"
)  # fmt: skip
"""Files there that make machines of their own, or take as long: half the time."""


class InLabs(LoadScopeScheduling):  # type: ignore[misc]
    """A file is one process's; the tests that need a lab are two processes', so that there are
    never more than two labs at work: with three of them runs are starved of two cores."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if not path.startswith(LABS):
            return path
        name = path.removeprefix(f"{LABS}test_").removesuffix(".py")
        return "machines" if name in OWN_MACHINES else "lab"
