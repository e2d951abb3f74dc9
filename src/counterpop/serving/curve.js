"use strict";
// The charts: the trade-off (every pair of stops as a point; a click moves the sliders), gain and price, and groups.
// Shares its names with page.js.

function draw(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

let plot = null;  // the chart as drawn: its scales and the moving point

function ticks(low, high, many) {
  const rough = (high - low) / many || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n++) found.push(n * step);
  return { found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

function drawCurve() {
  const [mx, my] = [$("x").value, $("y").value];
  const width = Math.max(280, $("curve").clientWidth), height = Math.min(380, Math.max(260, 0.62 * width));
  const [left, right, top, bottom] = [52, 14, 10, 44];
  const points = [];
  measured.item_strengths.forEach((_, a) => measured.user_strengths.forEach((_, b) =>
    points.push({ stop: [a, b], x: at(mx, [a, b]), y: at(my, [a, b]) })));
  const span = (values) => {
    const low = Math.min(...values), high = Math.max(...values), room = 0.04 * (high - low || 1);
    return [low - room, high + room];
  };
  const [x0, x1] = span(points.map((p) => p.x)), [y0, y1] = span(points.map((p) => p.y));
  const X = (x) => left + (x - x0) / (x1 - x0) * (width - left - right);
  const Y = (y) => height - bottom - (y - y0) / (y1 - y0) * (height - top - bottom);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img" });
  const across = ticks(x0, x1, width / 90), up = ticks(y0, y1, height / 60);
  const label = (metric, value, digits) => metric === "average_popularity" ? whole(value)
    : PERCENT.includes(metric) ? `${(100 * value).toFixed(Math.max(0, digits - 2))} %` : value.toFixed(digits);
  const write = (x, y, anchor, text) => {
    const element = draw("text", { x, y, "text-anchor": anchor });
    element.textContent = text;
    svg.append(element);
  };
  for (const value of across.found) {
    svg.append(draw("line", { class: "grid", x1: X(value), x2: X(value), y1: top, y2: height - bottom }));
    write(X(value), height - bottom + 16, "middle", label(mx, value, across.digits));
  }
  for (const value of up.found) {
    svg.append(draw("line", { class: "grid", x1: left, x2: width - right, y1: Y(value), y2: Y(value) }));
    write(left - 6, Y(value) + 4, "end", label(my, value, up.digits));
  }
  write((left + width - right) / 2, height - 6, "middle", LABELS[mx]);
  for (const p of points) svg.append(draw("circle", { class: "all", cx: X(p.x), cy: Y(p.y), r: 2 }));
  // the best y among points that are no more popular, drawn through the corners of the staircase
  const sign = LEANS_LOW.includes(mx) ? 1 : -1;
  let best = -Infinity;
  const edge = [...points].sort((p, q) => sign * (p.x - q.x) || q.y - p.y).filter((p) => p.y > best && ((best = p.y), true));
  svg.append(draw("polyline", { class: "edge", points: edge.map((p) => `${X(p.x)},${Y(p.y)}`).join(" ") }));
  const mark = (stop) => [X(at(mx, stop)), Y(at(my, stop))];
  const [sx, sy] = mark(plainStop()), [tx, ty] = mark(tunedStop());
  svg.append(draw("circle", { class: "start", cx: sx, cy: sy, r: 6 }));
  svg.append(draw("path", { class: "tuned", d: `M${tx} ${ty - 9}l9 9l-9 9l-9 -9z` }));
  const named = new Map();  // points with the same strengths share a label
  for (const name of Object.keys(measured.points)) {
    const stop = pointStop(name);
    named.set(stop.join(), { stop, text: [named.get(stop.join())?.text, name].filter(Boolean).join(", ") });
  }
  let free = top + 8;  // labels go down from here, one below the other
  for (const { stop, text } of [...named.values()].sort((p, q) => mark(p.stop)[1] - mark(q.stop)[1])) {
    const [x, y] = mark(stop), inner = x > width - 120, place = Math.max(free, y + 4);
    svg.append(draw("circle", { class: "named", cx: x, cy: y, r: 3.5 }));
    write(x + (inner ? -13 : 13), place, inner ? "end" : "start", text);
    free = place + 14;
  }
  const point = draw("circle", { class: "point", r: 6 });
  svg.append(point);
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect(), scale = width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    const far = (p) => (X(p.x) - x) ** 2 + (Y(p.y) - y) ** 2;
    setDial(points.reduce((near, p) => far(p) < far(near) ? p : near).stop);
  });
  plot = { svg, mark, point, mx, my };
  $("curve").replaceChildren(svg);
}

function placePoint(stop) {
  const [cx, cy] = plot.mark(stop);
  plot.point.setAttribute("cx", cx);
  plot.point.setAttribute("cy", cy);
  plot.svg.setAttribute("aria-label", `${LABELS[plot.my]} ${shown(plot.my, at(plot.my, stop))} at ` +
    `${LABELS[plot.mx]} ${shown(plot.mx, at(plot.mx, stop))}; as trained ` +
    `${shown(plot.my, at(plot.my, plainStop()))} at ${shown(plot.mx, at(plot.mx, plainStop()))}`);
}

// Validation is drawn unlike the log, about equally often for every item, where an ordinary part was held out as well.
const evenly = () => measured.values.price ? "what users would choose if every item were shown equally often" : "what users chose in the validation part";

function showPair(stop) {
  const recall = [plainStop(), stop].map((where) => at("recall", where));
  const error = TEN_GROUPS * at("recall", stop, measured.errors) / recall[0];
  const gain = at("gain", stop), price = measured.values.price && at("price", stop);
  const sides = [side("gain", "Gain", measured.values.price ? "if every item were shown equally often" : "on the validation part",
    `${gain < 0 ? "−" : "+"}${Math.abs(100 * gain).toFixed(1)} %`, gain < 0 ? "less is found" : "more is found",
    [gain - error, gain + error], recall, `of the items that users chose are found (recall@${measured.k}).`)];
  if (measured.values.price) {
    const half = TEN_GROUPS * at("price", stop, measured.errors);
    sides.push(side("price", "Price", "as traffic is today", share(price), price < 0 ? "below 0: more is found" : "of what was found is lost",
      [price - half, price + half], [1, 1 - price], "of what the plain lists find on ordinary pairs is found."));
  }
  $("pair").replaceChildren(...sides);
}

function side(metric, label, where, figure, sense, [low, high], both, note) {
  const box = make("section", "side"), heading = make("h3", "", `${label} `), left = make("div"), twins = make("div", "twins");
  box.dataset.metric = metric;
  heading.append(make("span", "", where));
  const range = make("p", "around", `${sense}, 95 % interval (${fixed(100 * low, 1)} to ${fixed(100 * high, 1)})`);
  left.append(make("p", "figure", figure), range);
  const most = Math.max(...both) || 1;
  ["Plain", "Adjusted"].forEach((name, n) => {
    const bar = make("div", n ? "bar now" : "bar");
    bar.style.width = `${100 * Math.max(0, both[n]) / most}%`;
    twins.append(make("span", "", name), bar, make("b", "", share(both[n])));
  });
  box.append(heading, left, twins, make("p", "note", note));
  return box;
}

function makeGroups() {
  $("groups").replaceChildren(...measured.groups.map((group, g) => {
    const row = make("tr"), name = make("th", "", GROUPS[g]), cell = make("td"), bars = make("div", "bars");
    name.scope = "row";
    name.append(make("small", "", `${whole(group.items)} items`));
    const tick = make("div", "tick");
    tick.title = `${share(group.interactions)} of interactions`;
    bars.append(make("div", "bar"), make("div", "bar now"), tick);
    cell.append(bars);
    row.append(name, cell, make("td"), make("td"));
    return row;
  }));
}

function showGroups(stop) {
  // one scale for all stops, so that bars stay comparable while a slider moves
  const most = Math.max(...measured.groups.map((group, g) =>
    Math.max(group.interactions, ...measured.values[`group_${g + 1}_frequency`].flat())));
  [...$("groups").rows].forEach((row, g) => {
    const shares = [plainStop(), stop].map((where) => at(`group_${g + 1}_frequency`, where));
    const [plain, now, tick] = row.cells[1].firstChild.children;
    plain.style.width = `${100 * shares[0] / most}%`;
    now.style.width = `${100 * shares[1] / most}%`;
    tick.style.left = `${100 * measured.groups[g].interactions / most}%`;
    row.cells[2].textContent = share(shares[0]);
    row.cells[3].textContent = share(shares[1]);
  });
}
