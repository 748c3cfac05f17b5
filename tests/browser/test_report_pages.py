"""Report pages in a browser: whole, silent, asking for nothing, usable by pointer and keys."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from failing_runs import FAMILIES
from made_report import report
from pages import SECTIONS, opened

from dstest.report.html import render_html

pytestmark = pytest.mark.slow

KINDS = ("passing", "inconclusive", "crashed", "etcd", *FAMILIES)
AXE_KINDS = ("passing", "inconclusive", "crashed", "etcd", "list-append")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(3)
def test_a_page_is_whole_says_nothing_and_asks_for_nothing(
    browser: Any, page_of: Any, kind: str
) -> None:
    file = page_of(kind)
    with opened(browser, file) as found:
        page = found.page
        for name in SECTIONS:
            assert page.query_selector(f"section#{name} h1, section#{name} h2"), name
        failed = kind not in ("passing", "inconclusive", "crashed")
        assert bool(page.query_selector("#anomalies")) is failed
        assert len(page.query_selector_all("h1")) == 1
        assert page.query_selector("#timeline canvas").is_visible()
        assert page.evaluate("dstest.ops.n") > 100
        if failed:
            assert page.query_selector("#anomaly-1 .where").inner_text()
            assert page.query_selector("#anomaly-1 .means").inner_text()
        assert found.said == []
        assert found.asked == [file.resolve().as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", AXE_KINDS)
@pytest.mark.sampled(2)
def test_axe_finds_nothing_serious(browser: Any, page_of: Any, kind: str, scheme: str) -> None:
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text()
    with opened(browser, page_of(kind), color_scheme=scheme) as found:
        found.page.evaluate(axe)
        rows = found.page.evaluate("axe.run()")["violations"]
        serious = [
            (row["id"], row["nodes"][0]["html"][:200])
            for row in rows
            if row["impact"] in ("serious", "critical")
        ]
        assert serious == []


@pytest.mark.parametrize("kind", ["etcd", "list-append", "passing"])
@pytest.mark.sampled(1)
def test_a_narrow_screen_scrolls_no_page(browser: Any, page_of: Any, kind: str) -> None:
    with opened(browser, page_of(kind), width=400) as found:
        assert found.page.evaluate("document.documentElement.scrollWidth") <= 400


@pytest.mark.parametrize("kind", ["etcd", "list-append"])
def test_a_failure_is_read_without_much_scrolling(browser: Any, page_of: Any, kind: str) -> None:
    """Of one kind of anomaly 4,000 pixels, of three 8,000; the strip is on the first screen."""
    with opened(browser, page_of(kind), width=1400) as found:
        page = found.page
        kinds = len(page.query_selector_all("article.anomaly"))
        most = 4000 if kinds == 1 else 8000
        assert page.evaluate("document.documentElement.scrollHeight") <= most
        box = page.query_selector("figure.strip svg").bounding_box()
        assert box["y"] + box["height"] < 900


def test_on_a_telephone_the_marked_read_is_on_the_screen(browser: Any, page_of: Any) -> None:
    with opened(browser, page_of("etcd"), width=420) as found:
        (mark,) = [
            text
            for text in found.page.query_selector_all("#verdict figure text")
            if (text.text_content() or "").startswith("▶") and text.is_visible()
        ]
        box = mark.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 420
        bar = mark.evaluate_handle("text => text.nextElementSibling").as_element().bounding_box()
        assert bar["x"] >= 0 and bar["x"] + bar["width"] <= 420


def test_what_a_link_leads_to_is_opened(browser: Any, page_of: Any) -> None:
    with opened(browser, page_of("etcd")) as found:
        page = found.page
        row = page.query_selector("#audit-RF2")
        assert not row.is_visible()
        page.evaluate("location.hash = '#audit-RF2'")
        row.wait_for_element_state("visible")


def test_without_scripts_all_but_the_timeline_is_there(browser: Any, page_of: Any) -> None:
    with opened(browser, page_of("etcd"), java_script_enabled=False) as found:
        page = found.page
        assert not page.query_selector("#timeline canvas").is_visible()
        assert "needs JavaScript" in page.query_selector("#timeline").inner_text()
        assert len(page.query_selector_all("figure.chart svg")) == 6
        assert page.query_selector("#verdict figure .broad svg").is_visible()
        assert not page.query_selector("[data-anomaly]").is_visible()


def selected(page: Any) -> int:
    return int(page.evaluate("dstest.timeline.selected"))


def shown(page: Any) -> dict[str, str]:
    """The fields in the panel."""
    rows = page.query_selector_all('[data-tl="fields"] tr')
    return {
        row.query_selector("th").inner_text(): row.query_selector("td").inner_text() for row in rows
    }


FIELDS = [
    "op_id", "process_id", "invoke_ts", "complete_ts", "op_type", "key", "input", "output",
    "error", "timeout_marker", "node_seen", "fault_epoch", "outcome",
]  # fmt: skip


def test_keys_lead_to_the_anomaly_and_its_fields(browser: Any, page_of: Any) -> None:
    with opened(browser, page_of("etcd")) as found:
        page = found.page
        canvas = page.query_selector("#timeline canvas")
        canvas.focus()
        whole = page.evaluate("[dstest.timeline.from, dstest.timeline.to]")
        page.keyboard.press("n")
        page.wait_for_selector('[data-tl="details"]', state="visible")
        fields = shown(page)
        assert list(fields) == FIELDS
        assert fields["op_type"] == "read"
        assert fields["outcome"] == "ok"
        assert fields["node_seen"].startswith('"n')
        story = page.query_selector("#anomaly-1 .telling").text_content()
        assert story.startswith(f"operation {fields['op_id']},")
        near = page.evaluate("[dstest.timeline.from, dstest.timeline.to]")
        assert near[1] - near[0] < (whole[1] - whole[0]) / 4
        for key, moves in (("ArrowRight", 1), ("ArrowLeft", -1)):
            before = page.evaluate("dstest.timeline.from")
            page.keyboard.press(key)
            assert (page.evaluate("dstest.timeline.from") - before) * moves > 0
        for key, factor in (("+", 0.5), ("-", 2)):
            span = page.evaluate("dstest.timeline.to - dstest.timeline.from")
            page.keyboard.press(key)
            after = page.evaluate("dstest.timeline.to - dstest.timeline.from")
            assert after == pytest.approx(span * factor, rel=0.01)
        chosen = selected(page)
        page.keyboard.press(".")
        assert selected(page) != chosen
        page.keyboard.press(",")
        assert selected(page) == chosen
        page.keyboard.press("Escape")
        assert selected(page) == -1
        assert not page.query_selector('[data-tl="details"]').is_visible()
        page.keyboard.press("Enter")
        page.wait_for_selector('[data-tl="details"]', state="visible")
        page.keyboard.press("Home")
        assert page.evaluate("[dstest.timeline.from, dstest.timeline.to]") == whole
        assert found.said == []


def test_pointer_and_buttons(browser: Any, page_of: Any) -> None:
    with opened(browser, page_of("etcd")) as found:
        page = found.page
        page.click('[data-anomaly="1"]')
        page.wait_for_selector('[data-tl="details"]', state="visible")
        chosen = selected(page)
        place = page.evaluate(
            """(i) => { const t = dstest.timeline, r = t.rows.rowOf[i];
            return [t.x((t.ops.begin[i] + t.ops.end[i]) / 2),
                    t.body + (r - t.top) * t.rowHeight + t.rowHeight / 2]; }""",
            chosen,
        )
        page.evaluate("dstest.timeline.select(-1)")
        canvas = page.query_selector("#timeline canvas")
        canvas.scroll_into_view_if_needed()
        canvas.click(position={"x": place[0], "y": place[1]})
        assert selected(page) == chosen
        page.click('[data-tl="all"]')
        box = canvas.bounding_box()
        page.click('[data-tl="in"]')
        before = page.evaluate("dstest.timeline.from")
        page.mouse.move(box["x"] + 600, box["y"] + 250)
        page.mouse.down()
        page.mouse.move(box["x"] + 500, box["y"] + 250, steps=4)
        page.mouse.up()
        assert page.evaluate("dstest.timeline.from") > before
        for by, least in (("key", 10), ("node", 5), ("type", 2), ("process", 10)):
            page.select_option('[data-tl="by"]', by)
            assert page.evaluate("dstest.timeline.rows.count") >= least
            assert page.evaluate("dstest.timeline.by") == by
        page.select_option('[data-tl="by"]', "key")
        page.fill('[data-tl="find"]', "0-14")
        page.press('[data-tl="find"]', "Enter")
        assert "row 0-14" in page.query_selector('[data-tl="status"]').inner_text()
        assert found.said == []


def test_the_browser_reads_what_was_written(browser: Any, page_of: Any, tmp_path: Path) -> None:
    made = report(hostile=True, fail=True, count=400)
    file = tmp_path / "report.html"
    file.write_text(render_html(made), errors="replace")
    with opened(browser, file) as found:
        page = found.page
        page.evaluate("dstest.ops.readTexts()")
        for n, one in enumerate(made.history.ops):
            fields = dict(page.evaluate("(i) => dstest.ops.fields(i)", n))
            assert fields["op_id"] == str(one.op_id)
            assert fields["invoke_ts"] == f"{one.invoke_ts} ns"
            end = "null" if one.complete_ts is None else f"{one.complete_ts} ns"
            assert fields["complete_ts"] == end
            assert fields["input"] == ("null" if one.input is None else str(one.input))
            assert fields["outcome"] == {"fail": "failed"}.get(one.outcome, str(one.outcome.value))
        assert found.said == []
        assert found.asked == [file.resolve().as_uri()]


def test_rows_draw_each_operation_and_at_most_one_mark_a_pixel(browser: Any, page_of: Any) -> None:
    """Against a plain loop over all operations."""
    with opened(browser, page_of("register")) as found:
        wrong = found.page.evaluate(
            """() => { const t = dstest.timeline, wrong = [];
            for (const by of ['process', 'key', 'node', 'type']) {
              t.group(by);
              const { rows, ops } = t;
              for (const [from, to] of [t.whole, [5e9, 6e9], [8e9, 8.1e9]]) {
                const perNs = 700 / (to - from);
                for (let r = 0; r < rows.count; r++) {
                  const marks = new Map();
                  rows.draw(r, from, to, perNs, (a, b, w) => {
                    if (marks.has(a)) wrong.push(['twice', by, r, a]);
                    marks.set(a, [b, w]);
                  });
                  for (let p = rows.start[r]; p < rows.start[r + 1]; p++) {
                    const i = rows.order[p];
                    if (ops.begin[i] >= to || ops.end[i] < from) continue;
                    const px = Math.max(-1, Math.floor((ops.begin[i] - from) * perNs));
                    const weight = ops.mark[i] ? 3 : ops.outcome(i);
                    const end = (ops.end[i] - from) * perNs;
                    const [b, w] = marks.get(px) ?? [-2, 0];
                    if (!(b >= end - 1e-6 && w >= weight))
                      wrong.push(['missed', by, r, i]);
                  } } } }
            return wrong.slice(0, 5); }"""
        )
        assert wrong == []
