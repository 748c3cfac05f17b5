"use strict";
(() => {
  const text = (cell) => cell.dataset.v ?? cell.textContent.trim();
  const number = (word) => { const n = Number(word.replaceAll(",", "")); return word !== "" && !Number.isNaN(n) ? n : null; };
  const compare = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (x !== null && y !== null) return x - y;
    if ((x === null) !== (y === null)) return x === null ? -1 : 1;
    return a < b ? -1 : a > b ? 1 : 0;
  };

  const sort = (table, column, head) => {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [text(row.cells[column]), row]);
    rows.sort((a, b) => (down ? compare(b[0], a[0]) : compare(a[0], b[0])));
    body.append(...rows.map((pair) => pair[1]));
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    if (!table.tBodies[0] || [...table.tBodies[0].rows].some((r) => r.cells.length < 2)) continue;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(table, column, head));
    });
  }

  const form = document.querySelector("form[data-here]");
  if (form) {
    const rows = [...document.querySelectorAll("#runs tbody tr[data-system]")].map((row) => ({
      row, said: row.dataset.words, data: row.dataset,
    }));
    const time = /^(\d{4})(-?(0[1-9]|1[0-2])(-?(0[1-9]|[12]\d|3[01])([ T]+([01]\d|2[0-3])(:?[0-5]\d(:?[0-5]\d)?)?)?)?)?Z?$/i;
    const stamp = (given) => !time.test(given.trim()) ? "" : given.toUpperCase().replace(" ", "T").replace(/[^0-9T]/g, "");
    const show = () => {
      const asked = Object.fromEntries(new FormData(form));
      const words = asked.words.toLowerCase().split(/\s+/).filter(Boolean);
      const [since, until] = [stamp(asked.since), stamp(asked.until)];
      let count = 0;
      for (const { row, said, data } of rows) {
        const fits = words.every((word) => said.includes(word))
          && ["system", "workload", "verdict"].every((name) => !asked[name] || data[name] === asked[name])
          && ["nemesis", "anomaly"].every((name) => !asked[name] || data[name].split(",").includes(asked[name]))
          && (!since || data.since >= since) && (!until || data.since.slice(0, until.length) <= until);
        row.hidden = !fits;
        count += fits;
      }
      const odd = ["since", "until"].filter((name) => asked[name].trim() && !time.test(asked[name].trim()));
      document.querySelector("#count").textContent = `${count} of ${rows.length} runs.`
        + odd.map((name) => ` Cannot read this time (${name}): write 2026-11-27 or 20261127T18.`).join("");
    };
    form.hidden = false;
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => { event.preventDefault(); show(); });
  }

  const live = document.querySelector("[data-live]");
  if (live) {
    const part = (name) => live.querySelector(`[data-part=${name}]`);
    const make = (name, inner, kind) => {
      const made = document.createElement(name);
      if (kind) made.className = kind;
      if (Array.isArray(inner)) made.append(...inner); else made.textContent = inner ?? "";
      return made;
    };
    const shown = (value, unit = "") => {
      if (typeof value === "number") return `${value.toLocaleString("en", { maximumFractionDigits: 1 })}${unit}`;
      return value === null || value === undefined ? "-" : String(value);
    };
    const tile = (value, what) => make("div", [make("b", value), make("span", what)], "tile");
    const list = (value) => (Array.isArray(value) ? value : []);
    const table = (caption, heads, rows) => make("table", [
      make("caption", caption),
      make("thead", [make("tr", heads.map((head) => { const th = make("th", head); th.scope = "col"; return th; }))]),
      make("tbody", rows.map((cells) => make("tr", cells.map((cell) => make("td", cell))))),
    ]);
    const draw = (state) => {
      if (part("told").textContent !== state.told) part("told").textContent = state.told;
      part("log").textContent = state.log.join("\n") || "It has no log.";
      const f = state.figures;
      if (!f) return;
      const ops = f.ops ?? {};
      part("tiles").replaceChildren(
        tile(shown(f.phase), "phase"), tile(shown(f.elapsed_s, " s"), "since it began"),
        tile(shown(f.left_s, " s"), "left, about"), tile(shown(f.rate_per_s, "/s"), "served now"),
        tile(`${shown(ops.ok)} / ${shown(ops.fail)} / ${shown(ops.unknown)}`, `ok, failed, unknown of ${shown(ops.invoked)}`));
      const faults = list(f.faults);
      part("faults").replaceChildren(make("p", faults.length ? "Faults that stand:" : "No fault stands."),
        ...list(f.unhealed).map((name) => make("p", `${name}: its heal is not proven.`)),
        make("ul", faults.map((one) => make("li", `${shown(one.id)} ${shown(one.nemesis)} on ${list(one.on).join(", ") || "-"}: `
          + `${shown(one.state)} for ${shown(one.since_s, " s")}`
          + (one.counter ? `; ${shown(one.counter.name)} ${shown(one.counter.before)} -> ${shown(one.counter.now)}`
            + (one.counter.age_s >= 3 ? `, ${one.counter.age_s.toFixed(0)} s ago` : "") : "")))));
      const nodes = list(f.nodes);
      part("nodes").replaceChildren(...(nodes.length ? [table("Answers by node in the last five seconds", ["node", "ok", "failed", "unknown", "state"],
        nodes.map((one) => [shown(one.name), shown(one.ok), shown(one.fail), shown(one.unknown), shown(one.state)]))] : []));
    };
    let failures = 0;
    const ask = async () => {
      try {
        const answer = await fetch(live.dataset.live, { cache: "no-store" });
        if (!answer.ok) throw new Error(String(answer.status));
        const state = await answer.json();
        failures = 0;
        draw(state);
        if (state.life === "over") { part("told").textContent = "This run is over: load the page again for its verdict."; return; }
      } catch {
        failures += 1;
        part("told").textContent = "dstest serve does not answer; what stands here is the last that it said.";
      }
      setTimeout(ask, failures ? 5000 : document.hidden ? 5000 : 1000);
    };
    ask();
  }
})();
