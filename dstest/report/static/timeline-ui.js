"use strict";
// Joins the timeline to the page: pointer, keys, buttons, details, and jumps from the anomalies.

class TimelineUi {
  constructor(timeline, place) {
    this.t = timeline;
    this.place = place;
    this.at = -1;
    this.canvas = timeline.canvas;
    timeline.onselect = (i) => this.details(i);
    timeline.onview = () => this.say();
    this._buttons();
    this._pointer();
    this.canvas.addEventListener("keydown", (e) => this._key(e));
    new ResizeObserver(() => timeline.resize()).observe(this.canvas);
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => timeline.colors());
    this.say();
  }

  one(name) { return this.place.querySelector(`[data-tl="${name}"]`); }

  say(more = "") {
    const { from, to } = this.t;
    this.one("status").textContent =
      `${(from / 1e9).toFixed(3)} s to ${(to / 1e9).toFixed(3)} s of the run${more ? `; ${more}` : ""}`;
  }

  _buttons() {
    const { t } = this;
    const acts = {
      in: () => t.zoom(0.5), out: () => t.zoom(2), all: () => { this.mark(t.run.anomalies); t.view(...t.whole); },
      left: () => t.pan(-0.25), right: () => t.pan(0.25),
      next: () => this.anomaly(1), previous: () => this.anomaly(-1),
    };
    for (const [name, act] of Object.entries(acts)) {
      const button = this.one(name);
      if (button) button.addEventListener("click", act);
    }
    this.one("by").addEventListener("change", (e) => this.group(e.target.value));
    this.one("find").addEventListener("change", (e) => this.find(e.target.value.trim()));
    if (!t.run.anomalies.length) for (const name of ["next", "previous"]) this.one(name).disabled = true;
    for (const button of document.querySelectorAll("[data-anomaly]")) {
      button.hidden = !t.run.anomalies.some((a) => a.number === Number(button.dataset.anomaly));
      button.addEventListener("click", () => {
        this.show(t.run.anomalies.findIndex((a) => a.number === Number(button.dataset.anomaly)));
        this.canvas.scrollIntoView({ block: "center" });
        this.canvas.focus({ preventScroll: true });
      });
    }
  }

  group(by) {
    const kept = this.t.selected;
    this.one("by").value = by;
    this.t.group(by);
    if (kept >= 0) this.t.select(kept, false);
    this.say(`rows by ${by}`);
  }

  // A row by its name, also of another way to make rows, or an operation: "op 12", as texts of the
  // page name it ("T12" where it is a transaction).
  find(wanted) {
    if (!wanted) return;
    const id = /^(?:op |#|T)\s*(\S+)$/i.exec(wanted);
    if (id) return this.operation(id[1]);
    const there = (by) => this.t.ops.names(by).some((name) => name.includes(wanted));
    if (!there(this.t.by)) {
      const other = ["process", "key", "node", "type"].find(there);
      if (!other) return this.say(`no row has ${wanted} in its name; for an operation write “op ${wanted}”`);
      this.group(other);
    }
    const { rows } = this.t;
    const names = rows.laneNames;
    let lane = names.indexOf(wanted);
    if (lane < 0) lane = names.findIndex((name) => name.includes(wanted));
    this.t.top = 0;
    this.t.scroll(rows.laneOf.indexOf(lane));
    this.say(`rows by ${this.t.by}, row ${names[lane]}`);
  }

  operation(id) {
    const { t } = this;
    const i = t.ops.indexOf(id);
    if (i < 0) return this.say(`this page has no operation ${id}`);
    const room = Math.max(t.ops.end[i] - t.ops.begin[i], 2e6) * 2;
    t.view(t.ops.begin[i] - room, t.ops.end[i] + room);
    t.select(i);
    this.say(`operation ${id}`);
  }

  mark(anomalies) {
    const { t } = this;
    t.ops.mark.fill(0);
    for (const anomaly of anomalies) for (const i of anomaly.ops) t.ops.mark[i] = 1;
    t.marked();
  }

  anomaly(by) {
    const n = this.t.run.anomalies.length;
    if (n) this.show(((this.at < 0 && by < 0 ? 0 : this.at) + by + n) % n);
  }

  show(n) {
    if (n < 0) return;
    const { t } = this;
    const found = t.run.anomalies[n];
    this.at = n;
    const least = Math.max(found.to - found.from, 2e6);
    t.view(found.from - least * 1.2, found.to + least * 1.2);
    this.mark([found]);
    if (found.ops.length) t.select(found.culprit >= 0 ? found.culprit : found.ops[0]);
    this.say(`anomaly ${n + 1} of ${t.run.anomalies.length}: ${found.title}; what belongs to it is marked`);
  }

  async details(i) {
    const panel = this.one("details");
    if (i < 0) { panel.hidden = true; return; }
    await this.t.ops.readTexts();
    panel.hidden = false;
    const table = this.one("fields");
    table.replaceChildren(...this.t.ops.fields(i).map(([name, value]) => {
      const row = document.createElement("tr"), head = document.createElement("th"), cell = document.createElement("td");
      head.scope = "row";
      head.textContent = name;
      cell.textContent = value;
      row.append(head, cell);
      return row;
    }));
    this.one("caption").textContent = `Operation ${this.t.ops.id(i)}: ${this.t.ops.label(i)}`;
    this.t.later();
  }

  _key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const { t } = this;
    const acts = {
      ArrowLeft: () => t.pan(-0.2), ArrowRight: () => t.pan(0.2),
      ArrowUp: () => t.scroll(-1), ArrowDown: () => t.scroll(1),
      PageUp: () => t.scroll(-10), PageDown: () => t.scroll(10),
      "+": () => t.zoom(0.5), "=": () => t.zoom(0.5), "-": () => t.zoom(2),
      Home: () => t.view(...t.whole), End: () => t.view(t.whole[1] - (t.to - t.from), t.whole[1]),
      n: () => this.anomaly(1), p: () => this.anomaly(-1),
      Enter: () => (t.selected >= 0 ? this.details(t.selected) : t.selectMiddle()),
      ",": () => t.step(-1), ".": () => t.step(1),
      Escape: () => t.select(-1),
    };
    if (!acts[e.key]) return;
    e.preventDefault();
    acts[e.key]();
  }

  _pointer() {
    const { t, canvas } = this;
    let drag = null;
    const place = (e) => {
      const box = canvas.getBoundingClientRect();
      return [e.clientX - box.left, e.clientY - box.top];
    };
    const jump = (x) => {
      const half = (t.to - t.from) / 2;
      const time = t.whole[0] + (t.whole[1] - t.whole[0]) * (x - GUTTER) / (t.width - GUTTER);
      t.view(time - half, time + half);
    };
    canvas.addEventListener("pointerdown", (e) => {
      const [x, y] = place(e);
      drag = { x, y, from: t.from, to: t.to, top: t.top, moved: false, overview: y < OVERVIEW };
      canvas.setPointerCapture(e.pointerId);
      if (drag.overview) jump(x);
    });
    canvas.addEventListener("pointermove", (e) => {
      if (!drag) return;
      const [x, y] = place(e);
      if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 4) drag.moved = true;
      if (!drag.moved) return;
      if (drag.overview) return jump(x);
      const by = (drag.x - x) / t.perNs;
      t.view(drag.from + by, drag.to + by);
      t.scroll(drag.top + Math.round((drag.y - y) / t.rowHeight) - t.top);
    });
    const end = (e) => {
      if (drag && !drag.moved && !drag.overview && e.type === "pointerup") t.select(t.hit(...place(e)));
      drag = null;
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("dblclick", (e) => t.zoom(0.4, t.timeAt(place(e)[0])));
    canvas.addEventListener("wheel", (e) => {
      if (e.ctrlKey || e.metaKey) {
        e.preventDefault();
        t.zoom(Math.exp(e.deltaY / 200), t.timeAt(place(e)[0]));
      } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        e.preventDefault();
        t.pan((e.deltaX || e.deltaY) / t.width);
      }
    }, { passive: false });
  }
}

(async () => {
  const read = (id) => document.getElementById(id);
  const place = read("timeline");
  if (!place || !read("run-data")) return;
  const run = JSON.parse(read("run-data").textContent);
  const ops = await Ops.of(run.ops, read("run-numbers").textContent.trim(), read("run-texts").textContent.trim());
  for (const anomaly of run.anomalies) for (const i of anomaly.ops) ops.mark[i] = 1;
  place.classList.add("alive");
  const timeline = new Timeline(place.querySelector("canvas"), ops, run);
  const ui = new TimelineUi(timeline, place);
  window.dstest = { timeline, ui, ops, run };
  ops.readTexts().then(() => timeline.later());
  document.documentElement.dataset.timeline = "ready";
})();
