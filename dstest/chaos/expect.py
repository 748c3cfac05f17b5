"""Is an answer a success?"""

from __future__ import annotations

import msgspec

from dstest.chaos.settings import Endpoint


def why_failed(endpoint: Endpoint, status: int, body: bytes) -> str:
    """Why an answer is none, in words; empty for a success."""
    if status not in endpoint.status:
        return f"status {status}"
    if not endpoint.json_keys:
        return ""
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return "no JSON"
    if not isinstance(answer, dict):
        return "no JSON object"
    missing = [key for key in endpoint.json_keys if key not in answer]
    return f"no {missing[0]!r} in the answer" if missing else ""
