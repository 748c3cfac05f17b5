"use strict";
// The timeline: a canvas with the whole run on top, faults below it, and rows of operations.

const GUTTER = 92, OVERVIEW = 34, AXIS = 20, LANE = 15, ROW_MIN = 7, ROW_MAX = 24, BAR = 12;

class Timeline {
  constructor(canvas, ops, run) {
    this.canvas = canvas;
    this.ctx = canvas.getContext("2d");
    this.ops = ops;
    this.run = run;
    this.whole = [run.start_ns, Math.max(run.end_ns, run.start_ns + 1)];
    this.from = this.whole[0];
    this.to = this.whole[1];
    this.top = 0;
    this.selected = -1;
    this.onselect = () => {};
    this.onview = () => {};
    this.cache = new Map();
    this._faultLanes();
    this.group("process");
    this.colors();
    this.resize();
  }

  // ---- what is shown

  group(by) {
    if (!this.cache.has(by)) this.cache.set(by, new Rows(this.ops, by));
    this.rows = this.cache.get(by);
    this.by = by;
    this.top = 0;
    this._range();
    this.later();
  }

  marked() {
    for (const rows of this.cache.values()) rows.weigh();
    this.later();
  }

  view(from, to) {
    const [low, high] = this.whole;
    const span = Math.min(high - low, Math.max(1000, to - from));
    this.from = Math.min(high - span, Math.max(low, from));
    this.to = this.from + span;
    this.later();
    this.onview(this);
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.view(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    this.view(this.from + by, this.to + by);
  }

  scroll(rows) {
    this.top = Math.min(Math.max(0, this.rows.count - this._fitting()), Math.max(0, this.top + rows));
    this.later();
  }

  showRow(r) {
    const fitting = this._fitting();
    if (r < this.top || r >= this.top + fitting) this.scroll(r - Math.floor(fitting / 2) - this.top);
  }

  select(i, tell = true) {
    this.selected = i;
    if (i >= 0) this.showRow(this.rows.rowOf[i]);
    this.later();
    if (tell) this.onselect(i);
  }

  // The operation before or after the selected one in its row.
  step(by) {
    const { rows } = this;
    if (this.selected < 0) return this.selectMiddle();
    const r = rows.rowOf[this.selected];
    const p = rows.order.indexOf(this.selected, rows.start[r]) + by;
    if (p < rows.start[r] || p >= rows.start[r + 1]) return;
    const i = rows.order[p];
    const { begin, end } = this.ops;
    if (begin[i] < this.from || end[i] > this.to) {
      const half = (this.to - this.from) / 2, middle = (begin[i] + end[i]) / 2;
      this.view(middle - half, middle + half);
    }
    this.select(i);
  }

  selectMiddle() {
    const time = (this.from + this.to) / 2;
    const r = Math.min(this.rows.count - 1, this.top + Math.floor(this._fitting() / 2));
    for (let d = 0; d < this.rows.count; d++) {
      for (const row of [r - d, r + d]) {
        if (row < 0 || row >= this.rows.count) continue;
        const i = this.rows.nearest(row, time, (this.to - this.from) / 2);
        if (i >= 0) return this.select(i);
      }
    }
  }

  // ---- geometry

  resize() {
    const ratio = window.devicePixelRatio || 1;
    this.width = Math.max(200, this.canvas.clientWidth);
    this.height = Math.max(160, this.canvas.clientHeight);
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    this._range();
    this.later();
  }

  get body() { return OVERVIEW + AXIS + this.lanes * LANE + 4; }

  _range() {
    const room = (this.height || 400) - this.body - 4;
    this.rowHeight = Math.min(ROW_MAX, Math.max(ROW_MIN, Math.floor(room / Math.max(1, this.rows.count))));
    this.scrolls = this.rows.count * this.rowHeight > room;
  }

  _fitting() { return Math.max(1, Math.floor((this.height - this.body - 4) / this.rowHeight)); }

  get perNs() { return (this.width - GUTTER) / (this.to - this.from); }

  x(time) { return GUTTER + (time - this.from) * this.perNs; }

  timeAt(x) { return this.from + (x - GUTTER) / this.perNs; }

  wholeX(time) { return GUTTER + (this.width - GUTTER) * (time - this.whole[0]) / (this.whole[1] - this.whole[0]); }

  hit(x, y) {
    const r = this.top + Math.floor((y - this.body) / this.rowHeight);
    if (x < GUTTER || y < this.body || r >= this.rows.count) return -1;
    return this.rows.nearest(r, this.timeAt(x), 6 / this.perNs);
  }

  _faultLanes() {
    const free = [];
    this.laneOf = this.run.faults.map((fault) => {
      let at = free.findIndex((until) => until <= fault.start);
      if (at < 0) at = free.length;
      free[at] = fault.end === null ? Infinity : fault.end;
      return at;
    });
    this.lanes = Math.min(6, free.length) + (this.run.leaders.length ? 1 : 0);
  }

  // ---- drawing

  colors() {
    const style = getComputedStyle(this.canvas);
    const of = (name) => style.getPropertyValue(name).trim();
    this.ink = of("--ink"); this.soft = of("--soft"); this.line = of("--line");
    this.paper = of("--paper"); this.card = of("--card"); this.band = of("--band");
    this.bandline = of("--fault");
    this.tone = [of("--ok-mark"), of("--fail-mark"), of("--unknown-mark"), of("--witness-mark")];
    this.hatches = this.tone.map((color) => this._hatch(color));
    this.later();
  }

  _hatch(color) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const ctx = tile.getContext("2d");
    ctx.strokeStyle = color;
    ctx.lineWidth = 1.6;
    ctx.beginPath();
    for (const d of [-6, 0, 6]) { ctx.moveTo(d, 6); ctx.lineTo(d + 6, 0); }
    ctx.stroke();
    return this.ctx.createPattern(tile, "repeat");
  }

  later() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); });
  }

  draw() {
    const { ctx, width, height } = this;
    ctx.fillStyle = this.paper;
    ctx.fillRect(0, 0, width, height);
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    this._bands();
    this._rowsOf();
    this._axis();
    this._overview();
    if (this.scrolls) this._scrollbar();
  }

  _bands() {
    const { ctx } = this;
    ctx.save();
    ctx.beginPath(); ctx.rect(GUTTER, OVERVIEW, this.width - GUTTER, this.height); ctx.clip();
    this.run.faults.forEach((fault, n) => {
      const a = this.x(fault.start), b = this.x(fault.end === null ? this.whole[1] : fault.end);
      if (b < GUTTER || a > this.width) return;
      const w = Math.max(1, b - a), y = OVERVIEW + AXIS + Math.min(5, this.laneOf[n]) * LANE;
      ctx.fillStyle = this.band;
      ctx.fillRect(a, OVERVIEW + AXIS, w, this.height);
      ctx.fillStyle = fault.landed ? this.bandline : this.soft;
      ctx.fillRect(a, y, w, LANE - 3);
      ctx.fillStyle = this.paper;
      const words = `${fault.id} ${fault.nemesis}${fault.landed ? "" : " (not proven)"}`;
      const from = Math.max(a, GUTTER) + 4;
      if (b - from > 24) {
        ctx.save(); ctx.beginPath(); ctx.rect(a, y, w - 2, LANE); ctx.clip();
        ctx.fillText(words, from, y + (LANE - 3) / 2 + 0.5); ctx.restore();
      }
    });
    const y = OVERVIEW + AXIS + (this.lanes - 1) * LANE;
    for (const lead of this.run.leaders) {
      const x = this.x(lead.time);
      if (x < GUTTER || x > this.width) continue;
      ctx.strokeStyle = ctx.fillStyle = this.ink;
      ctx.setLineDash([2, 3]); ctx.beginPath(); ctx.moveTo(x, y); ctx.lineTo(x, this.height); ctx.stroke();
      ctx.setLineDash([]);
      ctx.fillText(`▲ by then ${lead.said}`, x - 4, y + LANE / 2 - 1);
    }
    ctx.restore();
  }

  _rowsOf() {
    const { ctx, rows, rowHeight } = this;
    const from = this.from, to = this.to, perNs = this.perNs;
    const last = Math.min(rows.count, this.top + this._fitting() + 1);
    const bar = Math.min(rowHeight - 2, rowHeight > 12 ? rowHeight - 4 : rowHeight - 2);
    const rects = [[], [], [], []], texts = [];
    let y = this.body, lane = -1;
    for (let r = this.top; r < last; r++, y += rowHeight) {
      let pa = 0, pb = -1, pw = -1;
      const flush = () => { if (pb > pa) rects[pw].push(pa, y + 1, pb - pa); };
      rows.draw(r, from, to, perNs, (a, b, weight, i) => {
        const end = Math.min(this.width - GUTTER, Math.max(b, a + (weight ? 2 : 1)));
        if (weight === pw && a <= pb) { if (end > pb) pb = end; } else { flush(); pa = a; pb = end; pw = weight; }
        if (i >= 0 && end - a > 34 && rowHeight >= 14) texts.push(i, Math.max(0, a), y, end - Math.max(0, a));
      });
      flush();
      if (rows.laneOf[r] !== lane) {
        lane = rows.laneOf[r];
        ctx.fillStyle = this.line;
        ctx.fillRect(0, y - 0.5, this.width, 1);
        if (rowHeight >= 9 || r === this.top || (r - this.top) % 2 === 0) this._laneName(rows.laneNames[lane], y);
      }
    }
    ctx.save();
    ctx.beginPath(); ctx.rect(GUTTER, this.body, this.width - GUTTER, this.height - this.body); ctx.clip();
    ctx.translate(GUTTER, 0);
    this._marks(rects, bar);
    this._texts(texts, bar);
    this._selection(bar);
    ctx.restore();
  }

  _laneName(name, y) {
    const { ctx } = this;
    ctx.fillStyle = this.soft;
    let text = this.by === "process" ? this.ops.who(name) : name;
    while (text.length > 3 && ctx.measureText(text).width > GUTTER - 10) text = text.slice(0, -2) + "…";
    ctx.fillText(text, 4, y + Math.max(6, this.rowHeight / 2));
  }

  // Outcomes differ by height and pattern as well as by colour.
  _marks(rects, bar) {
    const { ctx } = this;
    const quiet = Math.max(2, Math.round(bar * 0.62));
    for (let w = 0; w < 4; w++) {
      const list = rects[w], h = w === 0 ? quiet : w === 1 ? Math.max(2, bar >> 1) : bar;
      const shift = w === 1 ? bar - h : (bar - h) / 2;
      for (let k = 0; k < list.length; k += 3) {
        const x = list[k], y = list[k + 1] + shift, width = list[k + 2];
        ctx.globalAlpha = w === 0 ? 0.75 : w === 3 ? 1 : width > 3 ? 0.28 : 1;
        ctx.fillStyle = this.tone[w];
        ctx.fillRect(x, y, width, h);
        ctx.globalAlpha = 1;
        if (w === 2 && width > 3) { ctx.fillStyle = this.hatches[2]; ctx.fillRect(x, y, width, h); }
        if (w === 1 && width > 3) { ctx.fillRect(x, y + h - 2, width, 2); }
        if (w === 3) {
          const m = Math.max(3, x + Math.min(width, 8) / 2);
          ctx.beginPath(); ctx.moveTo(m - 4, y - 5); ctx.lineTo(m + 4, y - 5); ctx.lineTo(m, y + 1); ctx.fill();
        }
      }
    }
  }

  _texts(texts, bar) {
    const { ctx, ops } = this;
    if (texts.length > 4 * 600) return;
    for (let k = 0; k < texts.length; k += 4) {
      const [i, x, y, room] = [texts[k], texts[k + 1], texts[k + 2], texts[k + 3]];
      ctx.save();
      ctx.beginPath(); ctx.rect(x, y, room - 2, this.rowHeight); ctx.clip();
      ctx.fillStyle = ops.mark[i] || !ops.outcome(i) ? this.paper : this.ink;
      ctx.fillText(ops.label(i), x + 3, y + 1 + bar / 2);
      ctx.restore();
    }
  }

  _selection(bar) {
    const i = this.selected, { ctx, rows, ops } = this;
    if (i < 0) return;
    const r = rows.rowOf[i];
    if (r < this.top || r > this.top + this._fitting()) return;
    const y = this.body + (r - this.top) * this.rowHeight, x = (ops.begin[i] - this.from) * this.perNs;
    ctx.strokeStyle = this.ink;
    ctx.lineWidth = 2;
    ctx.strokeRect(x - 2, y - 0.5, Math.max(4, (ops.end[i] - ops.begin[i]) * this.perNs + 4), bar + 3);
    ctx.lineWidth = 1;
  }

  _axis() {
    const { ctx } = this;
    const span = (this.to - this.from) / 1e9, raw = span / Math.max(2, (this.width - GUTTER) / 90);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    ctx.strokeStyle = this.line;
    ctx.fillStyle = this.soft;
    for (let t = Math.ceil(this.from / 1e9 / step) * step; t <= this.to / 1e9; t += step) {
      const x = this.x(t * 1e9);
      ctx.globalAlpha = 0.6;
      ctx.beginPath(); ctx.moveTo(x, OVERVIEW + AXIS - 4); ctx.lineTo(x, this.height); ctx.stroke();
      ctx.globalAlpha = 1;
      const text = `${t.toFixed(digits)} s`;
      ctx.fillText(text, Math.min(x + 3, this.width - ctx.measureText(text).width), OVERVIEW + AXIS / 2);
    }
    ctx.fillText("time", 4, OVERVIEW + AXIS / 2);
    if (this.run.faults.length) ctx.fillText("faults", 4, OVERVIEW + AXIS + LANE / 2);
    if (this.run.leaders.length) ctx.fillText("leader", 4, OVERVIEW + AXIS + (this.lanes - 1) * LANE + LANE / 2);
  }

  // All of the run: how many operations, faults, anomalies, and the part that is shown.
  _overview() {
    const { ctx, run } = this;
    const bottom = OVERVIEW - 4;
    ctx.fillStyle = this.card;
    ctx.fillRect(GUTTER, 0, this.width - GUTTER, bottom);
    for (const fault of run.faults) {
      const a = this.wholeX(fault.start), b = this.wholeX(fault.end === null ? this.whole[1] : fault.end);
      ctx.fillStyle = this.band;
      ctx.fillRect(a, 0, Math.max(1, b - a), bottom);
    }
    const { bin_ns: bin, counts } = run.density;
    const top = counts[0].reduce((most, _, k) => Math.max(most, counts[0][k] + counts[1][k] + counts[2][k]), 1);
    counts[0].forEach((_, k) => {
      const x = this.wholeX(this.whole[0] + k * bin), w = Math.max(1, this.wholeX(this.whole[0] + (k + 1) * bin) - x);
      let y = bottom;
      for (const o of [0, 1, 2]) {
        const h = counts[o][k] / top * (bottom - 8);
        ctx.fillStyle = this.tone[o];
        ctx.fillRect(x, y - h, w, h);
        y -= h;
      }
    });
    ctx.fillStyle = this.tone[3];
    for (const anomaly of run.anomalies) {
      const x = this.wholeX(anomaly.at);
      ctx.beginPath(); ctx.moveTo(x - 4, 0); ctx.lineTo(x + 4, 0); ctx.lineTo(x, 7); ctx.fill();
    }
    const a = this.wholeX(this.from), b = this.wholeX(this.to);
    ctx.globalAlpha = 0.45;
    ctx.fillStyle = this.paper;
    ctx.fillRect(GUTTER, 0, a - GUTTER, bottom);
    ctx.fillRect(b, 0, this.width - b, bottom);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = this.ink;
    ctx.strokeRect(a + 0.5, 0.5, Math.max(2, b - a - 1), bottom - 1);
    ctx.fillStyle = this.soft;
    ctx.fillText("whole run", 4, bottom / 2);
  }

  _scrollbar() {
    const room = this.height - this.body, whole = this.rows.count, fitting = this._fitting();
    const h = Math.max(16, room * fitting / whole);
    const y = this.body + (room - h) * this.top / Math.max(1, whole - fitting);
    this.ctx.fillStyle = this.soft;
    this.ctx.globalAlpha = 0.6;
    this.ctx.fillRect(this.width - 6, y, 5, h);
    this.ctx.globalAlpha = 1;
  }
}
