"""Which tests run one after the other where several processes of pytest-xdist share the work."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

LABS = "tests/integration/"

OWN_MACHINES = ("hosts", "lab", "podman", "vagrant")
"""Files there that make machines of their own: a third of the time."""


class InLabs(LoadScopeScheduling):  # type: ignore[misc]
    """A file is one process's; the tests that need a lab are three processes', so that there are
    never more than three labs at work, and what a file shares with its neighbours is made once."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if not path.startswith(LABS):
            return path
        name = path.removeprefix(f"{LABS}test_").removesuffix(".py")
        if name in OWN_MACHINES:
            return "machines"
        return "lab 1" if name < "new" else "lab 2"
