"use strict";
// The sliders read figures that the server measured once for every pair of stops; only lists are asked for anew.

const LABELS = {
  recall: "Recall", ndcg: "NDCG", hit_rate: "Hit rate", average_popularity: "Average popularity",
  tail_share: "Tail share", coverage: "Coverage", gini: "Gini",
};
const UP = ["recall", "ndcg", "hit_rate"];  // more is better; of the others, neither is
const PERCENT = ["tail_share", "coverage"];
const ACROSS = ["average_popularity", "tail_share", "coverage", "gini"];
const LEANS_LOW = ["average_popularity", "gini"];  // popularity is less where these are lower
const GROUPS = ["Most popular 5 %", "Next 5 %", "Next 5 %", "Next 5 %", "The rest, 80 %"];
const LIST = 20;

const $ = (id) => document.getElementById(id);
const sliders = { item: $("item"), user: $("user") };
let measured = null;   // what /measures gave
let person = null;     // whose lists are shown
let asking = false;    // a request for lists is under way
let starting = false;  // the figures are being fetched
let again = false;     // the sliders moved meanwhile

function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

function draw(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

const whole = (value) => (Math.round(value) + 0).toLocaleString("en");  // + 0: there is a -0
const fixed = (value, digits) => value.toFixed(digits).replace("-", "−");
const share = (value) => `${(100 * value).toFixed(1)} %`;

function shown(metric, value) {
  if (metric === "average_popularity") return whole(value);
  return PERCENT.includes(metric) ? share(value) : value.toFixed(3);
}

function say(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

async function ask(path, parameters = {}) {
  const token = sessionStorage.getItem("token");
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(`${path}?${new URLSearchParams(parameters)}`, { headers });
  const body = await answer.json();
  if (answer.status === 401) $("token").hidden = false;
  if (!answer.ok) throw new Error(body.detail);
  return { status: answer.status, body };
}

// ---------------------------------------------------------------------------------------------- the figures

const dial = () => ({
  a: Number(sliders.item.value), b: Number(sliders.user.value),  // which stops
  item: measured.item_strengths[sliders.item.value], user: measured.user_strengths[sliders.user.value],
});
const at = (metric, [a, b]) => measured.values[metric][a][b];
const plainStop = () => [measured.item_strengths.indexOf(0), measured.user_strengths.indexOf(0)];
const tunedStop = () => [
  measured.item_strengths.indexOf(measured.tuned[0]), measured.user_strengths.indexOf(measured.tuned[1]),
];

function setDial([a, b]) {
  sliders.item.value = a;
  sliders.user.value = b;
  moved();
  remember();
}

function moved() {
  const now = dial();
  for (const [side, slider] of Object.entries(sliders)) {
    const text = String(now[side]);
    $(`${side}-shown`).textContent = text;
    slider.setAttribute("aria-valuetext", text);
  }
  showVerdict([now.a, now.b]);
  showTiles([now.a, now.b]);
  showGroups([now.a, now.b]);
  placePoint([now.a, now.b]);
  showLists();
}

function showVerdict(stop) {
  const ratio = (metric) => at(metric, stop) / at(metric, plainStop()) - 1;
  const words = (value, more, less, same) => Math.abs(value) < 0.005 || !Number.isFinite(value) ? same
    : `${Math.abs(100 * value).toFixed(0)} % ${value > 0 ? more : less}`;
  const [popularity, recall] = [ratio("average_popularity"), ratio("recall")];
  $("verdict").textContent = stop.join() === plainStop().join()
    ? "The model as trained: nothing is taken out."
    : `Recommended items are ${words(popularity, "more popular", "less popular", "as popular")} than as trained, ` +
      `and lists find ${words(recall, "more", "less", "as much")} of what users chose in the held-out part.`;
}

function showTiles(stop) {
  for (const tile of $("tiles").children) {
    const metric = tile.dataset.metric;
    const [before, after] = [at(metric, plainStop()), at(metric, stop)];
    const change = after - before, of = PERCENT.includes(metric) ? 1 : before || 1;
    const signed = `${change < 0 ? "−" : "+"}${Math.abs(100 * change / of).toFixed(of === 1 ? 1 : 0)}${of === 1 ? " points" : " %"}`;
    tile.children[1].textContent = shown(metric, after);
    tile.children[2].replaceChildren(`as trained ${shown(metric, before)} `);
    const word = UP.includes(metric) && Math.abs(change / of) >= 0.005 ? (change > 0 ? "good" : "bad") : "";
    tile.children[2].append(make("span", word, signed));
  }
}

function makeTiles() {
  $("tiles").replaceChildren(...Object.entries(LABELS).map(([metric, label]) => {
    const tile = make("div", "tile");
    tile.dataset.metric = metric;
    tile.append(make("h3", "", UP.includes(metric) ? `${label} at ${measured.k}` : label), make("p", "figure"), make("p", "before"));
    return tile;
  }));
}

function makeGroups() {
  $("groups").replaceChildren(...measured.groups.map((group, g) => {
    const row = make("tr"), name = make("th", "", GROUPS[g]), cell = make("td"), bars = make("div", "bars");
    name.scope = "row";
    name.append(make("small", "", `${whole(group.items)} items`));
    const tick = make("div", "tick");
    tick.title = `${share(group.interactions)} of the log`;
    bars.append(make("div", "bar"), make("div", "bar now"), tick);
    cell.append(bars);
    row.append(name, cell, make("td"), make("td"));
    return row;
  }));
}

function showGroups(stop) {
  // one scale for all stops, so that bars can be compared while a slider moves
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

// ------------------------------------------------------------------------------------------ the trade-off

let plot = null;  // scales and the moving point of the curve as it is drawn

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
  // the best y among points no more popular: a staircase drawn through its corners
  const sign = LEANS_LOW.includes(mx) ? 1 : -1;
  let best = -Infinity;
  const edge = [...points].sort((p, q) => sign * (p.x - q.x) || q.y - p.y).filter((p) => p.y > best && ((best = p.y), true));
  svg.append(draw("polyline", { class: "edge", points: edge.map((p) => `${X(p.x)},${Y(p.y)}`).join(" ") }));
  const mark = (stop) => [X(at(mx, stop)), Y(at(my, stop))];
  const [sx, sy] = mark(plainStop()), [tx, ty] = mark(tunedStop());
  svg.append(draw("circle", { class: "start", cx: sx, cy: sy, r: 6 }));
  svg.append(draw("path", { class: "tuned", d: `M${tx} ${ty - 9}l9 9l-9 9l-9 -9z` }));
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

// -------------------------------------------------------------------------------------------- one user

async function showLists() {
  if (person === null) return;
  again = asking;
  if (asking) return;
  asking = true;
  try {
    do {
      again = false;
      const now = dial();
      const { body } = await ask("explain", { user: person, k: LIST, item_strength: now.item, user_strength: now.user });
      drawLists(body);
      if (body.version !== measured.version) start();  // a new run is being served
    } while (again);
    say("");
  } catch (error) {
    say(error.message);
  } finally {
    asking = false;
  }
}

function drawLists(body) {
  const rows = [...body.plain, ...body.adjusted];
  const parts = rows.flatMap((row) => [row.adjusted_score, row.popular_part + row.conformity_part]);
  const low = Math.min(0, ...parts), high = Math.max(0, ...parts), span = high - low || 1;
  const place = (bar, value) => {
    bar.style.left = `${100 * (Math.min(0, value) - low) / span}%`;
    bar.style.width = `${100 * Math.abs(value) / span}%`;
    return bar;
  };
  const entry = (row, from, to, words) => {
    const line = make("li"), popularity = row.popular_part + row.conformity_part;
    const title = make("span", "", row.name ?? `item ${row.item}`);
    title.title = `item ${row.item}, ${whole(row.interactions)} interactions`;
    const [own, other] = words === "to" ? [from, to] : [to, from];
    const way = to < from ? "up" : to > from ? "down" : "", arrow = { up: "▲", down: "▼", "": "" }[way];
    const bars = make("div", "parts");
    bars.append(place(make("i", "taste"), row.adjusted_score), place(make("i", "pop"), popularity));
    const sign = popularity < 0 ? "−" : "+";
    const why = `${whole(row.interactions)} interactions · ${fixed(row.plain_score, 2)} = taste ${fixed(row.adjusted_score, 2)} ${sign} popularity ${Math.abs(popularity).toFixed(2)}`;
    line.append(make("span", "rank", own), title, make("span", `moved ${way}`, way ? `${arrow} ${words} ${whole(other)}` : ""), bars, make("span", "why", why));
    line.dataset.item = row.item;
    return line;
  };
  // the plain list says where an item goes, the other where it came from
  $("plain-list").replaceChildren(...body.plain.map((row) => entry(row, row.plain_rank, row.adjusted_rank, "to")));
  $("now-list").replaceChildren(...body.adjusted.map((row) => entry(row, row.plain_rank, row.adjusted_rank, "from")));
  const kept = body.adjusted.filter((row) => row.plain_rank <= body.plain.length).length;
  const mean = (list) => whole(list.reduce((sum, row) => sum + row.interactions, 0) / Math.max(1, list.length));
  $("person-note").textContent = `User ${body.user}: ${kept} of ${body.plain.length} items are in both lists. ` +
    `A recommended item has ${mean(body.plain)} interactions as trained, ${mean(body.adjusted)} at these strengths.`;
}

async function showPerson(id) {
  try {
    const { body } = await ask("history", { user: id });
    person = String(body.user);
    $("person").value = person;
    $("history-count").textContent = `${body.items.length} items, most popular first`;
    $("history").replaceChildren(...body.items.map((row) => {
      const line = make("li");
      line.append(make("span", "", row.name ?? `item ${row.item}`), make("span", "", whole(row.interactions)));
      return line;
    }));
    remember();
    await showLists();
  } catch (error) {
    $("person-note").textContent = error.message;
  }
}

async function suggest() {
  const { body } = await ask("users", { search: $("person").value });
  $("found").replaceChildren(...body.users.map((row) => {
    const option = make("option", "", `${row.interactions} interactions`);
    option.value = row.user;
    return option;
  }));
  return body.users;
}

// -------------------------------------------------------------------------------------------- the start

function remember() {
  if (!measured) return;
  const now = dial();
  const parts = { item: now.item, user: now.user, ...(person === null ? {} : { person }) };
  history.replaceState(null, "", `#${new URLSearchParams(parts)}`);
}

function nearest(stops, wanted, otherwise) {
  const value = wanted === null || Number.isNaN(Number(wanted)) ? otherwise : Number(wanted);
  return stops.reduce((best, stop, n) => Math.abs(stop - value) < Math.abs(stops[best] - value) ? n : best, 0);
}

async function start() {
  if (starting) return;
  starting = true;
  try {
    const { body: about } = await ask("readyz");
    $("run").textContent = about.run;
    document.title = `${about.run} · counterpop`;
    $("about").textContent = `${whole(about.users)} users, ${whole(about.items)} items, run of ${about.written.slice(0, 16).replace("T", " ")} UTC`;
    if (about.failed_reload) say(about.failed_reload);
    let answer = await ask("measures");
    while (answer.status === 202) {
      await new Promise((resolve) => setTimeout(resolve, 500));
      answer = await ask("measures");
    }
    measured = answer.body;
    const wanted = new URLSearchParams(location.hash.slice(1));
    const many = measured.users === measured.of_users ? `all ${whole(measured.users)} users` : `${whole(measured.users)} users drawn from the ${whole(measured.of_users)}`;
    $("sample").textContent = `Measured on the validation part, lists of ${measured.k}, over ${many} with a held-out item there, at every stop of both sliders (steps of ${measured.step}).`;
    for (const [side, slider] of Object.entries(sliders)) {
      const stops = measured[`${side}_strengths`];
      slider.max = stops.length - 1;
      slider.value = nearest(stops, wanted.get(side), measured.tuned[side === "item" ? 0 : 1]);
      slider.disabled = false;
    }
    $("plain").disabled = $("tuned").disabled = false;
    makeTiles();
    makeGroups();
    drawCurve();
    moved();
    const users = await suggest();
    const first = person ?? wanted.get("person") ?? users[0]?.user;
    if (first !== undefined) await showPerson(first);
  } catch (error) {
    say(error.message);
  } finally {
    starting = false;
  }
}

for (const slider of Object.values(sliders)) {
  slider.addEventListener("input", moved);
  slider.addEventListener("change", remember);
}
$("plain").addEventListener("click", () => setDial(plainStop()));
$("tuned").addEventListener("click", () => setDial(tunedStop()));
for (const [id, metrics, first] of [["y", UP, "recall"], ["x", ACROSS, "average_popularity"]]) {
  $(id).replaceChildren(...metrics.map((metric) => new Option(LABELS[metric], metric, false, metric === first)));
  $(id).addEventListener("change", () => { drawCurve(); placePoint([dial().a, dial().b]); });
}
$("person").addEventListener("input", () => suggest().catch((error) => say(error.message)));
$("find").addEventListener("submit", (event) => {
  event.preventDefault();
  if ($("person").value.trim()) showPerson($("person").value.trim());
});
$("token").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", $("token").querySelector("input").value);
  $("token").hidden = true;
  say("");
  start();
});
new ResizeObserver(() => { if (measured) { drawCurve(); placePoint([dial().a, dial().b]); } }).observe($("curve").parentElement);
start();
