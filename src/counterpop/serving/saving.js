"use strict";
// Lists, the page and the audit as files. Shares its names with page.js.

function save(name, kind, text) {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function saveLists() {
  // a cell that a spreadsheet would take for a formula starts with an apostrophe
  const cell = (value) => {
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const columns = ["item", "name", "interactions", "plain_rank", "adjusted_rank", "plain_score", "popular_part", "conformity_part", "adjusted_score"];
  const rows = ["plain", "adjusted"].flatMap((list) => lists[list].map((row) =>
    [lists.user, list, lists.item_strength, lists.user_strength, ...columns.map((name) => row[name])]));
  const head = ["user", "list", "item_strength", "user_strength", ...columns];
  save(`lists-${lists.user}.csv`, "text/csv", [head, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n");
}

// The page as it is, in one file that opens anywhere: with its style, without its scripts and controls.
async function savePage() {
  const style = await (await fetch("page.css")).text();
  const copy = document.documentElement.cloneNode(true);
  for (const part of copy.querySelectorAll("script, link, noscript, .skip, form, .presets, .actions, .axes, .slider input, #notice")) part.remove();
  copy.querySelector("head").append(Object.assign(document.createElement("style"), { textContent: style }));
  copy.querySelector("details").open = true;
  copy.querySelector(".dial").style.position = "static";
  save(`${document.title.replace(/[^\w.-]+/g, "-")}.html`, "text/html", `<!doctype html>\n${copy.outerHTML}`);
}

// A link cannot send a token, so with one the page is fetched and saved instead of opened.
async function openAudit(event) {
  const token = sessionStorage.getItem("token");
  if (!token) return;
  event.preventDefault();
  const answer = await fetch($("audit").href, { headers: { Authorization: `Bearer ${token}` } });
  if (answer.ok) save("audit.html", "text/html", await answer.text());
  else say((await answer.json()).detail);
}
