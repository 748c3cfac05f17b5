"""Which tests run one after the other where several processes of pytest-xdist share the work."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

LABS = "tests/integration/"

OWN_MACHINES = (
    "hosts", "lab", "lab_packages", "ordinary_user", "own_files", "podman", "pytest_plugin",
    "sessions", "vagrant",
)  # fmt: skip
"""Of the files there, half the time: most make machines of their own."""


class InTwoLabs(LoadScopeScheduling):  # type: ignore[misc]
    """A file is one process's; the tests that need a lab are two processes', so that there are
    never more than two labs at work. They begin with these, as they wait more than they compute."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if not path.startswith(LABS):
            return path
        name = path.removeprefix(f"{LABS}test_").removesuffix(".py")
        return "lab 2" if name in OWN_MACHINES else "lab 1"
