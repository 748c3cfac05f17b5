"""A report page: how large, how long it takes to draw and to open, how smooth its timeline is.

    .venv/bin/python tests/bench/bench_report.py

The page is of 100,000 operations; the timeline is also given a million that never were in a file.
A frame is a zoom or a pan with all its drawing, until the browser begins the next one.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
SPAN_S: Final = 300
OPS: Final = 100_000
MANY: Final = 1_000_000

MAKE: Final = """(n) => {
  const random = ((s) => () => (s = (s * 16807) % 2147483647) / 2147483647)(7);
  const of = (Kind) => new Kind(n);
  const [begin, end, flags] = [of(Float64Array), of(Float64Array), of(Uint8Array)];
  const [process, key] = [of(Uint16Array), of(Uint16Array)];
  const [node, type] = [of(Uint8Array), of(Uint8Array)];
  let t = 0;
  for (let i = 0; i < n; i++) {
    t -= 3e5 * Math.log(random());
    begin[i] = t; end[i] = t - 3e6 * Math.log(random());
    flags[i] = (random() < 0.003 ? 2 : random() < 0.01 ? 1 : 0) | 8;
    process[i] = i % 40; key[i] = i / 500; node[i] = i % 5; type[i] = i % 2;
  }
  const names = (count) => [...Array(count).keys()];
  const head = { n, op_type: ["read", "write"], process_id: names(40),
    key: names(Math.ceil(n / 500)), node_seen: names(5), fault_epoch: [null], finals: {} };
  const epoch = of(Uint8Array);
  const columns = { begin, end, flags, process, key, node, type, epoch, ids: begin };
  const run = { ...dstest.run, start_ns: 0, end_ns: t, anomalies: [] };
  dstest.timeline = new Timeline(document.querySelector("canvas"), new Ops(head, columns), run);
}"""

FRAMES: Final = """async (by) => {
  const t = dstest.timeline, frame = () => new Promise((done) => requestAnimationFrame(done));
  const began = performance.now();
  t.group(by); t.draw();
  const grouped = performance.now() - began, times = [];
  for (const act of [() => t.zoom(0.8), () => t.pan(0.03)]) {
    t.view(...t.whole); t.zoom(0.6); await frame();
    for (let k = 0; k < 40; k++) {
      const at = performance.now();
      act(); await frame(); await frame();
      times.push((performance.now() - at) / 2);
    }
  }
  times.sort((a, b) => a - b);
  return [grouped, times[40], times[76]];
}"""


def operations(count: int) -> list[Any]:
    """Reads and writes by forty processes over five minutes."""
    from dstest.core.op import Op

    dice = random.Random(1)
    at, found = 0, []
    for i in range(count):
        at += int(dice.expovariate(count / (SPAN_S * 1e9)))
        fate = dice.random()
        lost, refused = fate < 0.002, 0.002 <= fate < 0.01
        write = i % 2 == 1
        found.append(
            Op(
                op_id=i,
                process_id=i % 40,
                invoke_ts=at,
                complete_ts=None if lost else at + int(dice.lognormvariate(15, 1)),
                op_type="write" if write else "read",
                key=f"0-{i // 100}",
                input=i if write else None,
                output=None if write or lost or refused else i - 1,
                error="timeout" if lost else "refused" if refused else None,
                timeout_marker=lost,
                node_seen=None if lost else f"n{i % 5 + 1}",
            )
        )
    return found


def drawn(ops: Sequence[Any]) -> str:
    """The page of a failed run of these operations."""
    import msgspec
    from made_report import report

    from dstest.report.html import render_html

    made = report(fail=True)
    history = msgspec.structs.replace(made.history, ops=list(ops))
    began = time.perf_counter()
    text = render_html(msgspec.structs.replace(made, history=history))
    size, took_s = len(text.encode()), time.perf_counter() - began
    sys.stdout.write(
        f"  page of {len(ops):,} operations   {size:,} bytes, drawn in {took_s:.1f} s\n"
    )
    return text


def _opened(text: str) -> None:
    from pages import browsing

    with tempfile.TemporaryDirectory() as folder, browsing() as browser:
        file = Path(folder) / "report.html"
        file.write_text(text)
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(600_000)
        began = time.perf_counter()
        page.goto(file.as_uri())
        page.wait_for_function("document.documentElement.dataset.timeline === 'ready'")
        took_s = time.perf_counter() - began
        sys.stdout.write(f"  opened, timeline ready     {took_s:.2f} s\n")
        for count in (OPS, MANY):
            if count == MANY:
                page.evaluate(MAKE, count)
            for by in ("process", "key", "node", "type"):
                grouped, usual, slow = page.evaluate(FRAMES, by)
                sys.stdout.write(
                    f"  {count:>9,} by {by:8} rows made in {grouped:6.0f} ms; a frame "
                    f"{usual:5.1f} ms, 95th of 100 {slow:5.1f} ms ({1000 / usual:.0f} a second)\n"
                )
                sys.stdout.flush()


def main() -> None:
    sys.path[:0] = [str(HERE.parent / "unit"), str(HERE.parent / "browser")]
    from pages import missing

    text = drawn(operations(OPS))
    if why := missing():
        sys.stdout.write(f"  not opened: {why}\n")
    else:
        _opened(text)


if __name__ == "__main__":
    main()
