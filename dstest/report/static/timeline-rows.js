"use strict";
// Operations sorted into rows: one or more per process, key, node or type, such that those of one
// row hardly overlap; with what drawing needs to skip what is smaller than a pixel.

const BLOCK = 64;
const ROWS_PER_LANE = 8;

class Rows {
  constructor(ops, by) {
    this.ops = ops;
    this.by = by;
    const lane = ops[by];
    this.laneNames = ops.names(by);
    this._assign(lane, this.laneNames.length);
    this._blocks();
  }

  // Greedily: an operation goes into the first row of its lane that is free when it begins.
  _assign(lane, lanes) {
    const { n, begin, end } = this.ops;
    const single = this.by === "process";
    const free = new Float64Array(lanes * ROWS_PER_LANE).fill(-1);
    const used = new Uint8Array(lanes);
    const slot = new Uint8Array(n);
    for (let i = 0; i < n; i++) {
      const l = lane[i], base = l * ROWS_PER_LANE;
      let at = 0;
      if (!single) {
        const count = used[l];
        while (at < count && free[base + at] > begin[i]) at++;
        if (at === ROWS_PER_LANE) at = this._earliest(free, base);
      }
      if (at >= used[l]) used[l] = at + 1;
      free[base + at] = end[i];
      slot[i] = at;
    }
    this.laneOf = [];
    const first = new Uint32Array(lanes);
    for (const l of this._order(lanes)) {
      if (!used[l]) continue;
      first[l] = this.laneOf.length;
      for (let s = 0; s < used[l]; s++) this.laneOf.push(l);
    }
    this.count = this.laneOf.length;
    this.start = new Uint32Array(this.count + 1);
    const rowOf = new Uint32Array(n);
    for (let i = 0; i < n; i++) {
      rowOf[i] = first[lane[i]] + slot[i];
      this.start[rowOf[i] + 1]++;
    }
    for (let r = 0; r < this.count; r++) this.start[r + 1] += this.start[r];
    const fill = this.start.slice();
    this.order = new Uint32Array(n);
    for (let i = 0; i < n; i++) this.order[fill[rowOf[i]]++] = i;
    this.rowOf = rowOf;
  }

  // Lanes as a person counts: 2 before 10.
  _order(lanes) {
    const order = Array.from({ length: lanes }, (_, l) => l);
    if (lanes > 20000) return order;
    const compare = new Intl.Collator("en", { numeric: true }).compare;
    return order.sort((a, b) => compare(this.laneNames[a], this.laneNames[b]));
  }

  _earliest(free, base) {
    let at = 0;
    for (let s = 1; s < ROWS_PER_LANE; s++) if (free[base + s] < free[base + at]) at = s;
    return at;
  }

  _blocks() {
    const { ops, order } = this;
    const n = order.length;
    this.begin = new Float64Array(n);
    this.reach = new Float64Array(n);
    this.weight = new Uint8Array(n);
    this.end = new Float64Array(n);
    for (let r = 0; r < this.count; r++) {
      let reach = -1;
      for (let p = this.start[r]; p < this.start[r + 1]; p++) {
        const i = order[p];
        this.begin[p] = ops.begin[i];
        this.end[p] = ops.end[i];
        if (ops.end[i] > reach) reach = ops.end[i];
        this.reach[p] = reach;
      }
    }
    this.weigh();
  }

  // Weight of a mark: 0 ok, 1 failed, 2 unknown, 3 part of a witness.
  weigh() {
    const { ops, order } = this;
    const blocks = Math.ceil(order.length / BLOCK);
    this.blockWeight = new Uint8Array(blocks);
    this.blockEnd = new Float64Array(blocks);
    for (let p = 0; p < order.length; p++) {
      const i = order[p], b = (p / BLOCK) | 0;
      const weight = ops.mark[i] ? 3 : ops.flags[i] & 3;
      this.weight[p] = weight;
      if (weight > this.blockWeight[b]) this.blockWeight[b] = weight;
      if (this.end[p] > this.blockEnd[b]) this.blockEnd[b] = this.end[p];
    }
  }

  // Places of row r that may be seen between two instants.
  window(r, from, to) {
    const low = this.start[r], high = this.start[r + 1];
    return [lowerBound(this.reach, from, low, high), lowerBound(this.begin, to, low, high)];
  }

  // Calls mark(from_px, to_px, weight, place) for what of row r lies in view, at most once a pixel.
  draw(r, from, to, perNs, mark) {
    let [p, last] = this.window(r, from, to);
    while (p < last) {
      const px = Math.floor((this.begin[p] - from) * perNs);
      const next = px < 0 ? from : from + (px + 1) / perNs;
      let q = p + 1, step = 1;
      while (q < last && this.begin[q] < next) { q += step; step *= 2; }
      q = lowerBound(this.begin, next, Math.max(p + 1, q - (step >> 1)), Math.min(q, last));
      let weight = 0, end = 0, x = p;
      while (x < q) {
        if (x % BLOCK === 0 && x + BLOCK <= q) {
          const b = x / BLOCK;
          if (this.blockWeight[b] > weight) weight = this.blockWeight[b];
          if (this.blockEnd[b] > end) end = this.blockEnd[b];
          x += BLOCK;
        } else {
          if (this.weight[x] > weight) weight = this.weight[x];
          if (this.end[x] > end) end = this.end[x];
          x++;
        }
      }
      mark(Math.max(px, -1), (end - from) * perNs, weight, q - p === 1 ? this.order[p] : -1);
      p = q;
    }
  }

  // The operation of row r that is nearest to an instant; the one that stands then comes first.
  nearest(r, time, slack) {
    const [low, high] = this.window(r, time - slack, time + slack);
    let best = -1, least = Infinity;
    const from = Math.max(this.start[r], low - 1), to = Math.min(this.start[r + 1], high + 1);
    for (let p = to - 1, looked = 0; p >= from && looked < 4096; p--, looked++) {
      const inside = this.begin[p] <= time && time <= this.end[p];
      const away = inside ? 0 : Math.min(Math.abs(this.begin[p] - time), Math.abs(this.end[p] - time));
      const rank = away - this.weight[p] * 1e-3;
      if (rank < least) { least = rank; best = this.order[p]; }
    }
    return best;
  }
}
