"""Runs and histories in a notebook: as data frames, as Parquet, as plots (docs/notebook.md).

from dstest.notebook import History

history = History.from_run("store/latest")
"""

from __future__ import annotations

from typing import Any

__all__ = ["History", "plot_anomaly", "plot_latency", "plot_outcomes", "plot_rate"]


def __getattr__(name: str) -> Any:
    if name == "History":
        from dstest.notebook.history import History

        return History
    if name in __all__:
        from dstest.notebook import plots

        return getattr(plots, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
