"use strict";
// Reads the operations that dstest/report/columns.py wrote into the page.

const OUTCOMES = ["ok", "failed", "unknown"];

async function inflated(base64) {
  const packed = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// One column: byte planes, lowest first. Numbers stay exact up to 2^53.
function plane(bytes, at, n, width, Kind) {
  const found = new Kind(n);
  let factor = 1;
  for (let p = 0; p < width; p++, factor *= 256) {
    const from = at + p * n;
    for (let i = 0; i < n; i++) found[i] += bytes[from + i] * factor;
  }
  return found;
}

function summed(steps) {
  let value = 0;
  for (let i = 0; i < steps.length; i++) {
    const s = steps[i];
    value += s % 2 ? -(s + 1) / 2 : s / 2;
    steps[i] = value;
  }
  return steps;
}

// The operations as typed arrays. `begin` and `end` are nanoseconds of the run.
class Ops {
  constructor(head, columns) {
    this.head = head;
    this.n = head.n;
    Object.assign(this, columns);
    this.text = null;
    this.lines = null;
    this.mark = new Uint8Array(this.n);
  }

  static async of(head, numbers, texts) {
    const bytes = await inflated(numbers);
    const raw = {};
    let at = 0;
    for (const [name, width] of head.columns) {
      const Kind = width > 4 || name === "invoke_ts" || name === "lasted" || name === "op_id"
        ? Float64Array : width > 2 ? Uint32Array : width > 1 ? Uint16Array : Uint8Array;
      raw[name] = plane(bytes, at, head.n, width, Kind);
      at += head.n * width;
    }
    const begin = summed(raw.invoke_ts);
    const end = raw.lasted;
    for (let i = 0; i < head.n; i++) {
      begin[i] *= head.unit_ns;
      end[i] = begin[i] + end[i] * head.unit_ns;
    }
    const ops = new Ops(head, {
      begin, end,
      flags: raw.flags,
      type: raw.op_type, process: raw.process_id, key: raw.key,
      node: raw.node_seen, epoch: raw.fault_epoch,
      ids: raw.op_id ? summed(raw.op_id) : null,
    });
    ops.packedTexts = texts;
    return ops;
  }

  outcome(i) { return this.flags[i] & 3; }
  answered(i) { return (this.flags[i] & 8) !== 0; }
  // The names of the rows that operations are sorted into.
  names(by) {
    const names = this.head[{ process: "process_id", key: "key", node: "node_seen", type: "op_type" }[by]];
    return names.map((name) => (name === null ? (by === "node" ? "nobody" : "no key") : String(name)));
  }

  who(process) { return this.head.finals[process] || `process ${process}`; }

  indexOf(id) {
    for (let i = 0; i < this.n; i++) if (String(this.id(i)) === id) return i;
    return -1;
  }

  id(i) { return this.ids ? this.ids[i] : this.head.ids[i]; }

  // What was asked and answered; only read when somebody looks.
  async readTexts() {
    if (this.lines || !this.packedTexts) return;
    this.lines = new TextDecoder().decode(await inflated(this.packedTexts)).split("\n");
    this.packedTexts = null;
  }

  // [input, output, error] as short JSON, null where the page does not hold them.
  told(i) {
    const line = this.lines ? this.lines[i] : "";
    return line ? line.split("\t") : null;
  }

  label(i) {
    const type = String(this.head.op_type[this.type[i]]);
    const told = this.told(i);
    if (!told) return type;
    const asked = told[0] ? `${type} ${told[0]}` : type;
    const outcome = this.outcome(i);
    if (outcome === 1) return `${asked} → fail`;
    if (outcome === 2) return `${asked} → ?`;
    return told[1] ? `${asked} → ${told[1]}` : asked;
  }

  // The twelve fields of the record, and the outcome that follows from them.
  fields(i) {
    const told = this.told(i);
    const absent = "not on this page, see history.jsonl";
    const text = (n) => (told ? told[n] || "null" : absent);
    const shown = (value) => (value === null || value === undefined ? "null" : JSON.stringify(value));
    return [
      ["op_id", String(this.id(i))],
      ["process_id", String(this.head.process_id[this.process[i]])],
      ["invoke_ts", `${this.begin[i]} ns`],
      ["complete_ts", this.answered(i) ? `${this.end[i]} ns` : "null"],
      ["op_type", String(this.head.op_type[this.type[i]])],
      ["key", this.flags[i] & 16 ? "null" : shown(this.head.key[this.key[i]])],
      ["input", text(0)],
      ["output", text(1)],
      ["error", text(2)],
      ["timeout_marker", this.flags[i] & 4 ? "true" : "false"],
      ["node_seen", shown(this.head.node_seen[this.node[i]])],
      ["fault_epoch", shown(this.head.fault_epoch[this.epoch[i]])],
      ["outcome", OUTCOMES[this.outcome(i)]],
    ];
  }
}

// First place in [low, high) whose value is at least `wanted`; values go up.
function lowerBound(values, wanted, low, high) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1; else high = middle;
  }
  return low;
}
