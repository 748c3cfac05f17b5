"""The files of a chaos run's directory."""

from __future__ import annotations

from typing import Final

CONFIG: Final = "chaos-config.json"
"""Settings, ports, version; written before the first request."""

PASSED: Final = "chaos-log.jsonl"
"""Every request that came to a proxy, and which fault it met."""

ENTRIES: Final = "load-log.jsonl"
"""Every request of the load, as it ended."""

PHASES: Final = "phases.jsonl"

HOST: Final = "host.jsonl"
"""How long the service waited for a core."""

RESULTS: Final = "load-results.json"
PATTERNS: Final = "failure-patterns.json"
PROPOSALS: Final = "fix-proposals.json"
REPORT: Final = "chaos-test-report.md"

SERVICE: Final = "service.log"
"""What the service's command wrote."""

SERVICE_END: Final = "service-end.json"
"""When and how the service's command ended, where it did before its time."""

SUMS: Final = "sha256sums"
"""Of the logs of a run that came to its end."""
