"""What ended a run early, as an error of ours."""

from __future__ import annotations

import traceback

from dstest.core import plugin_files
from dstest.core.errors import DstestError, FaultRefused, HarnessError
from dstest.core.run_meta import RunMeta
from dstest.store.layout import RunDir, disk_full


def failure_of(error: Exception, run: RunDir, meta: RunMeta) -> DstestError:
    """The error to report. `meta` is told what was lacking, or where an error of nobody's came
    from."""
    if isinstance(error, FaultRefused):
        meta.missing_capability = [error.message]
    if isinstance(error, DstestError):
        return error
    if isinstance(error, OSError):
        return disk_full(run.path, error)
    meta.traceback = "".join(traceback.format_exception(error))
    return HarnessError(f"{plugin_files.place_of(error)}: {type(error).__name__}: {error}")
