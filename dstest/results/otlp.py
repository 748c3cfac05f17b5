"""Traces of results to a collector by OTLP/HTTP, or to a file of OTLP JSON, one request a line."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from dstest.core.errors import ConfigError, HarnessError
from dstest.core.extras import need
from dstest.results.model import Result
from dstest.results.spans import EXTRA, spans_of

_PATH: Final = "/v1/traces"
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_TIMEOUT_S: Final = 10
_IDS: Final = ("traceId", "spanId", "parentSpanId")


def endpoint_of(text: str) -> str | None:
    """The URL of the traces of a collector, None where the text is a file's name.

    `http://host:4318` stands for `http://host:4318/v1/traces`. Raises ConfigError for any other
    scheme.
    """
    if (other := _SCHEME.match(text)) and other[1].lower() not in ("http", "https"):
        raise ConfigError(
            f"--otlp {text}: traces are not sent by {other[1]}",
            remedy="OTLP over HTTP is: http://HOST:4318 or https://; or give the name of a file",
        )
    if not text.lower().startswith(("http://", "https://")):
        return None
    return text.rstrip("/") + _PATH if urlsplit(text).path in ("", "/") else text


def _hex(value: Any) -> Any:
    """OTLP JSON has ids in hexadecimal, where the JSON of protobuf has base64."""
    if isinstance(value, dict):
        return {
            key: base64.b64decode(one).hex() if key in _IDS else _hex(one)
            for key, one in value.items()
        }
    return [_hex(one) for one in value] if isinstance(value, list) else value


def render_otlp(results: Sequence[Result], now_ns: int) -> str:
    """One line of OTLP JSON, as collectors read and write them. Raises ConfigError where the extra
    is not installed."""
    encoder = need("opentelemetry.exporter.otlp.proto.common.trace_encoder", EXTRA, "OTLP")
    from google.protobuf.json_format import MessageToDict

    message = encoder.encode_spans(spans_of(results, now_ns))
    plain = MessageToDict(message, use_integers_for_enums=True)
    return json.dumps(_hex(plain), ensure_ascii=False) + "\n"


def send_otlp(results: Sequence[Result], endpoint: str, now_ns: int) -> None:
    """To a collector. Raises ConfigError where the extra is not installed, HarnessError where the
    collector does not take them."""
    exporter_module = need("opentelemetry.exporter.otlp.proto.http.trace_exporter", EXTRA, "OTLP")
    from opentelemetry.sdk.trace.export import SpanExportResult

    exporter = exporter_module.OTLPSpanExporter(endpoint=endpoint, timeout=_TIMEOUT_S)
    try:
        said = exporter.export(spans_of(results, now_ns))
    finally:
        exporter.shutdown()
    if said is not SpanExportResult.SUCCESS:
        raise HarnessError(
            f"the collector at {endpoint} did not take the traces",
            remedy="look at its log; or write them to a file, --otlp FILE.json",
        )
