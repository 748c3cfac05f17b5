"""The kinds of transactional histories."""

from __future__ import annotations

from typing import Final

__all__ = ["WORKLOADS"]

WORKLOADS: Final = ("list-append", "rw-register")
