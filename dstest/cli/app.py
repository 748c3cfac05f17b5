"""The whole `dstest` command, to be called from Python: importing this imports all of it."""

from __future__ import annotations

from dstest.cli.commands import COMMANDS, app_of

app = app_of(*COMMANDS)
