"use strict";
const plots = [...document.querySelectorAll(".plot")];
const numbersOf = (plot) => JSON.parse(plot.nextElementSibling.textContent);

function draw(plot) {
  if (plot.dataset.drawn) return;
  plot.dataset.drawn = "yes";
  const { data, layout } = numbersOf(plot);
  Plotly.newPlot(plot, data, layout, { responsive: true, displayModeBar: false });
  const menu = plot.parentElement.querySelector("select");
  if (menu) menu.addEventListener("change", () => {
    const maps = Array.from(menu.options, (_, n) => n);
    Plotly.restyle(plot, { visible: maps.map((n) => n === menu.selectedIndex) }, maps);
    const numbers = plot.parentElement.querySelector(".numbers");
    numbers.querySelector(".wide")?.remove();
    if (numbers.open) fill(numbers);
  });
}

// The numbers behind a figure as a table: one row per x and one column per trace, or the cells of a heat map.
function fill(numbers) {
  if (numbers.querySelector(".wide")) return;
  const plot = numbers.parentElement.querySelector(".plot"), menu = numbers.parentElement.querySelector("select");
  const { data, layout } = numbersOf(plot);
  const list = (values) => !values ? [] : Array.isArray(values) ? values : decode(values);
  const plain = (html) => new DOMParser().parseFromString(html ?? "", "text/html").body.textContent;
  let head, rows;
  if (data[0].type === "heatmap") {
    const map = data[menu.selectedIndex], x = list(map.x), y = list(map.y);
    const z = Array.isArray(map.z) ? map.z.map(list) : y.map((_, n) => list(map.z).slice(n * x.length, (n + 1) * x.length));
    head = [layout.yaxis.title.text + " \\ " + layout.xaxis.title.text, ...x];
    rows = y.map((value, n) => [value, ...z[n]]);
  } else {
    const places = [...new Set(data.flatMap((trace) => list(trace.x)))];
    head = [layout.xaxis.title.text, ...data.map((trace) => plain(trace.name))];
    rows = places.map((place) => [place, ...data.map((trace) => list(trace.y)[list(trace.x).indexOf(place)])]);
  }
  const shown = (value) => typeof value === "number" ? String(+value.toPrecision(4)) : value ?? "–";
  const table = document.createElement("table");
  for (const [n, cells] of [head, ...rows].entries()) {
    const row = (n ? table.tBodies[0] ?? table.createTBody() : table.createTHead()).insertRow();
    cells.forEach((value, m) => {
      const cell = row.appendChild(document.createElement(n && m ? "td" : "th"));
      if (!n || !m) cell.scope = n ? "row" : "col";
      cell.textContent = shown(value);
    });
  }
  const frame = numbers.appendChild(document.createElement("div"));
  frame.className = "wide";
  frame.tabIndex = 0;
  frame.setAttribute("role", "region");
  frame.setAttribute("aria-label", numbers.querySelector("summary").textContent);
  frame.append(table);
}

// Plotly encodes arrays of numbers as base64.
function decode({ dtype, bdata }) {
  const kinds = { f8: Float64Array, f4: Float32Array, i4: Int32Array, i2: Int16Array, i1: Int8Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array };
  return [...new kinds[dtype](Uint8Array.from(atob(bdata), (letter) => letter.charCodeAt(0)).buffer)];
}

document.querySelectorAll(".numbers").forEach((numbers) => numbers.addEventListener("toggle", () => numbers.open && fill(numbers)));

// For printing, draw every figure, open every section, and fit figures to the columns of the print style.
addEventListener("beforeprint", () => {
  plots.forEach(draw);
  plots.forEach((plot) => Plotly.relayout(plot, { width: 340 }));
  document.querySelectorAll("details:not(.numbers)").forEach((part) => { part.open = true });
});
addEventListener("afterprint", () => plots.forEach((plot) => Plotly.relayout(plot, { width: null, autosize: true })));

// Figures on the screen are drawn at once and the others when idle, so a page with many runs opens as fast as a small one.
plots.filter((plot) => plot.getBoundingClientRect().top < innerHeight).forEach(draw);
const later = window.requestIdleCallback ?? setTimeout;
function drawNext() {
  const plot = plots.find((plot) => !plot.dataset.drawn);
  if (plot) later(() => { draw(plot); drawNext() });
}
drawNext();

// Tables are sorted by a click on a column's name, or by keyboard: it is a button. Rows keep their order within ties.
function sortable(table) {
  const head = table.tHead?.rows[0], body = table.tBodies[0];
  if (!head || !body || body.rows.length < 3) return;
  const value = (row, n) => {
    const cell = row.cells[n], exact = cell?.querySelector("data")?.value;
    const text = exact ?? (cell?.firstChild?.textContent ?? "").trim();
    const number = Number.parseFloat(text.replace("−", "-").replaceAll(",", ""));
    return Number.isNaN(number) ? text.toLowerCase() : number;
  };
  const compare = (a, b) => typeof a === typeof b ? (a > b) - (a < b) : typeof a === "number" ? -1 : 1;
  [...head.cells].forEach((cell, n) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...cell.childNodes);
    cell.append(button);
    if (!button.textContent.trim()) return cell.replaceChildren();
    button.addEventListener("click", () => {
      // numbers start with the largest, names with the first
      const first = typeof value(body.rows[0], n) === "number" ? "descending" : "ascending";
      const way = cell.getAttribute("aria-sort") !== first ? first : first === "descending" ? "ascending" : "descending";
      for (const other of head.cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", way);
      const sign = way === "ascending" ? 1 : -1;
      body.append(...[...body.rows].sort((p, q) => sign * compare(value(p, n), value(q, n))));
    });
  });
}
document.querySelectorAll("table.rows").forEach(sortable);

// The table of contents marks the section that is being read.
const links = new Map([...document.querySelectorAll("nav.contents a")].map((link) => [link.hash.slice(1), link]));
function markSection() {
  const read = [...links.keys()].findLast((id) => document.getElementById(id).getBoundingClientRect().top < 120);
  for (const [id, link] of links) {
    if ((id === read) === link.hasAttribute("aria-current")) continue;
    if (id === read) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
    const bar = link.closest("nav");
    if (id === read) bar.scrollTo({ left: link.offsetLeft - bar.clientWidth / 3 });
  }
}
addEventListener("scroll", () => requestAnimationFrame(markSection), { passive: true });
markSection();
