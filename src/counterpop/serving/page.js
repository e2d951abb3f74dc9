"use strict";
// The server measures every pair of slider stops once, and the page holds all of it; only lists are requested again.

const LABELS = {
  gain: "Gain", price: "Price", recall: "Recall", ndcg: "NDCG", hit_rate: "Hit rate", average_popularity: "Average popularity",
  tail_share: "Tail share", coverage: "Coverage", gini: "Gini",
};
const UP = ["recall", "ndcg", "hit_rate"];  // higher is better; for other metrics neither direction is
const PERCENT = ["tail_share", "coverage", "price", "gain"];
const PAIR = ["gain", "price"];
const UPWARDS = ["gain", ...UP];
const ACROSS = ["price", "average_popularity", "tail_share", "coverage", "gini"];
const LEANS_LOW = ["price", "average_popularity", "gini"];  // lower means cheaper, or less popular
const TEN_GROUPS = 2.26;  // standard errors on each side of a 95 % interval by the spread over ten groups of users
const GROUPS = ["Most popular 5 %", "Next 5 %", "Next 5 %", "Next 5 %", "Remaining 80 %"];
const LIST = 20;

const $ = (id) => document.getElementById(id);
const sliders = { item: $("item"), user: $("user") };
let measured = null;   // the answer of /measures
let person = null;     // whose lists are shown
let lists = null;      // the lists as they are shown
let asking = false;    // a request for lists is in progress
let starting = false;  // the figures are being fetched
let again = false;     // the sliders have moved since

function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

const whole = (value) => (Math.round(value) + 0).toLocaleString("en");  // + 0 turns -0 into 0
const fixed = (value, digits) => value.toFixed(digits).replace("-", "−");
const share = (value) => `${fixed(100 * value, 1)} %`;

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
const at = (metric, [a, b], table = measured.values) => table[metric][a][b];
const plainStop = () => [measured.item_strengths.indexOf(0), measured.user_strengths.indexOf(0)];
const tunedStop = () => [
  measured.item_strengths.indexOf(measured.tuned[0]), measured.user_strengths.indexOf(measured.tuned[1]),
];
const pointStop = (name) => [
  measured.item_strengths.indexOf(measured.points[name][0]), measured.user_strengths.indexOf(measured.points[name][1]),
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
  showPair([now.a, now.b]);
  showTiles([now.a, now.b]);
  showGroups([now.a, now.b]);
  placePoint([now.a, now.b]);
  showLists();
}

function showVerdict(stop) {
  const words = (value, more, less, same) => Math.abs(value) < 0.005 || !Number.isFinite(value) ? same
    : `${Math.abs(100 * value).toFixed(0)} % ${value > 0 ? more : less}`;
  $("verdict").textContent = stop.join() === plainStop().join()
    ? "Nothing is removed: these are the plain lists."
    : `With part of the popularity removed, the recommendations find ${words(at("gain", stop), "more", "less", "about as much")} of ${evenly()}` +
      (measured.values.price ? `, ${at("gain", stop) > 0 && at("price", stop) > 0.005 ? "but" : "and"} ${words(-at("price", stop), "more", "less", "about as much")} of what they choose as traffic is today.` : ".");
}

function around(metric, stop, value, of, digits) {
  const error = measured.errors[metric] && TEN_GROUPS * at(metric, stop, measured.errors) / of;
  return error ? ` (${[value - error, value + error].map((end) => fixed(100 * end, digits)).join(" to ")})` : "";
}

function showTiles(stop) {
  for (const tile of $("tiles").children) {
    const metric = tile.dataset.metric;
    const [before, after] = [at(metric, plainStop()), at(metric, stop)];
    const change = after - before, of = PERCENT.includes(metric) ? 1 : before || 1;
    const signed = `${change < 0 ? "−" : "+"}${Math.abs(100 * change / of).toFixed(of === 1 ? 1 : 0)}${of === 1 ? " points" : " %"}`;
    tile.children[1].textContent = shown(metric, after);
    tile.children[2].replaceChildren(`plain ${shown(metric, before)} `);
    const word = UP.includes(metric) && Math.abs(change / of) >= 0.005 ? (change > 0 ? "good" : "bad") : "";
    tile.children[2].append(make("span", word, signed + around(metric, stop, change / of, of, 0)));
  }
}

function makeTiles() {
  const known = Object.entries(LABELS).filter(([metric]) => measured.values[metric] && !PAIR.includes(metric));
  $("tiles").replaceChildren(...known.map(([metric, label]) => {
    const tile = make("div", "tile");
    tile.dataset.metric = metric;
    tile.append(make("h3", "", UP.includes(metric) ? `${label} at ${measured.k}` : label), make("p", "figure"), make("p", "before"));
    return tile;
  }));
}

function makePoints() {
  $("points").replaceChildren(...Object.keys(measured.points).map((name) => {
    const button = make("button", "", name[0].toUpperCase() + name.slice(1));
    button.type = "button";
    button.addEventListener("click", () => setDial(pointStop(name)));
    return button;
  }));
  if (!measured.values.price) $("x").querySelector("option[value=price]")?.remove();
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
      if (person === null) break;  // cleared meanwhile
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
    const line = make("li"), removed = row.popular_part + row.conformity_part;
    const title = make("span", "", row.name ?? `item ${row.item}`);
    title.title = `item ${row.item}`;
    const [own, other] = words === "to" ? [from, to] : [to, from];
    const way = to < from ? "up" : to > from ? "down" : "", arrow = { up: "▲", down: "▼", "": "" }[way];
    const bars = make("div", "parts");
    bars.append(place(make("i", "taste"), row.adjusted_score), place(make("i", "pop"), removed));
    const taken = (part) => `${part < 0 ? "−" : "+"}${Math.abs(part).toFixed(2)}`;
    const why = `popularity ${whole(row.interactions)} · score ${fixed(row.plain_score, 2)} → ${fixed(row.adjusted_score, 2)}, removed: ` +
      `${taken(row.popular_part)} through items, ${taken(row.conformity_part)} through users`;
    line.append(make("span", "rank", own), title, make("span", `moved${words === "from" && from > body.plain.length ? " new" : ""}`, way ? `${arrow} ${words} ${whole(other)}` : ""), bars, make("span", "why", why));
    line.dataset.item = row.item;
    return line;
  };
  // the plain list shows where an item goes, the other where it came from
  $("plain-list").replaceChildren(...body.plain.map((row) => entry(row, row.plain_rank, row.adjusted_rank, "to")));
  $("now-list").replaceChildren(...body.adjusted.map((row) => entry(row, row.plain_rank, row.adjusted_rank, "from")));
  const kept = body.adjusted.filter((row) => row.plain_rank <= body.plain.length).length;
  const mean = (list) => whole(list.reduce((sum, row) => sum + row.interactions, 0) / Math.max(1, list.length));
  $("person-note").textContent = `User ${body.user}: ${kept} of ${body.plain.length} items are in both lists. ` +
    `A recommended item has ${mean(body.plain)} interactions on average in the plain list, ${mean(body.adjusted)} in the adjusted one.`;
  lists = body;
  $("lists").hidden = $("save-lists").disabled = false;
}

// An unknown user must not leave the lists of somebody else behind.
function clearPerson(why) {
  person = lists = null;
  $("lists").hidden = $("save-lists").disabled = true;
  for (const id of ["plain-list", "now-list", "history"]) $(id).replaceChildren();
  $("person-note").textContent = why;
  remember();
}

async function showPerson(id) {
  try {
    const { body } = await ask("history", { user: id });
    person = String(body.user);
    $("person").value = person;
    const dated = body.items.some((row) => row.time);
    $("history-count").textContent = `${body.items.length} items, ${body.order === "latest" ? "latest" : "most popular"} first, with their ${dated ? "date" : "popularity"}`;
    $("history").replaceChildren(...body.items.map((row) => {
      const line = make("li");
      const title = make("span", "", row.name ?? `item ${row.item}`);
      title.title = `item ${row.item}, popularity ${whole(row.interactions)}`;
      line.append(title, make("span", "", row.time ? row.time.slice(0, 10) : whole(row.interactions)));
      return line;
    }));
    remember();
    await showLists();
  } catch (error) {
    clearPerson(error.message);
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
  $("audit").href = `audit.html?${new URLSearchParams({ item_strength: now.item, user_strength: now.user })}`;
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
    $("about").textContent = `${whole(about.users)} users, ${whole(about.items)} items, run written ${about.written.slice(0, 16).replace("T", " ")} UTC`;
    if (about.failed_reload) say(about.failed_reload);
    let answer = await ask("measures");
    while (answer.status === 202) {
      await new Promise((resolve) => setTimeout(resolve, 500));
      answer = await ask("measures");
    }
    measured = answer.body;
    const plainRecall = at("recall", plainStop()) || 1;
    measured.values.gain = measured.values.recall.map((row) => row.map((value) => value / plainRecall - 1));
    const wanted = new URLSearchParams(location.hash.slice(1));
    const many = measured.users === measured.of_users ? `all ${whole(measured.users)} users` : `a random sample of ${whole(measured.users)} of the ${whole(measured.of_users)} users`;
    $("sample").textContent = `Measured on the validation part, with lists of ${measured.k}, for ${many} who have a held-out item, at every stop of both sliders (steps of ${measured.step}).`;
    for (const [side, slider] of Object.entries(sliders)) {
      const stops = measured[`${side}_strengths`];
      slider.max = stops.length - 1;
      slider.value = nearest(stops, wanted.get(side), measured.tuned[side === "item" ? 0 : 1]);
      slider.disabled = false;
    }
    $("plain").disabled = $("tuned").disabled = false;
    $("chosen").textContent = measured.sentence ?? "";
    makePoints();
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
$("save-lists").addEventListener("click", saveLists);
$("save-page").addEventListener("click", () => savePage().catch((error) => say(error.message)));
$("print").addEventListener("click", () => print());
$("audit").addEventListener("click", (event) => openAudit(event).catch((error) => say(error.message)));
for (const [id, metrics, first] of [["y", UPWARDS, "gain"], ["x", ACROSS, "price"]]) {
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
