"""Where tests that `dstest new` wrote before 0.18 find what a file offers."""

from __future__ import annotations

from dstest.core.registry import offered

__all__ = ["offered"]
