"use strict";
// Names come from clients: text goes in as text, never as markup.
const $ = (id) => document.getElementById(id);
const KEY = "exhume operator token";
const history = new Map();
let token = sessionStorage.getItem(KEY) || "";
let listening = null;
let decisions = [];

function cell(content, kind) {
  const td = document.createElement("td");
  if (content instanceof Node) td.append(content); else td.textContent = content;
  if (kind) td.className = kind;
  return td;
}
function row(...cells) { const tr = document.createElement("tr"); tr.append(...cells); return tr; }
function fill(id, rows) { $(id).replaceChildren(...rows); }
function when(seconds) { return seconds === null ? "not yet" : new Date(seconds * 1000).toLocaleTimeString(); }
function age(seconds) { return seconds === null ? "none" : seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`; }

async function ask(path, how = {}) {
  const answer = await fetch(path, { ...how, headers: { Authorization: `Bearer ${token}`, ...(how.headers || {}) } });
  if (answer.status === 401 || answer.status === 403) { leave("This token is not an operator's."); throw new Error("token"); }
  if (!answer.ok) { const said = await answer.json().catch(() => ({})); throw new Error(said.detail || said.title || `status ${answer.status}`); }
  return answer;
}

function status(now) {
  const tiles = [
    ["head", now.serial], ["age of the head", age(now.head_age)], ["accepted", now.messages], ["refused", now.refused],
    ["waiting", now.waiting], ["deletions on disk", now.deletions_on_disk], ["gone within", `${now.forget_seconds} s`],
  ];
  $("tiles").replaceChildren(...tiles.map(([name, value]) => {
    const box = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name; dd.textContent = value; box.append(dt, dd); return box;
  }));
  $("state").textContent = now.ready ? `running, version ${now.version}` : `in trouble: ${now.trouble}`;
  $("state").className = now.ready ? "" : "bad";
  $("tells").textContent = now.interfering.length
    ? `Their decisions may tell one client about others: ${now.interfering.join(", ")}.`
    : "No rule's decision tells one client about others.";
  fill("rules", now.rules.map((rule) => row(cell(rule.name), cell(rule.about), cell(rule.refused === null ? "" : rule.refused, "n"))));
}

function line(name) {
  const points = history.get(name) || [], svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 100 20"); svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `exposure from ${points[0]} to ${points[points.length - 1]}`);
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  const step = points.length > 1 ? 100 / (points.length - 1) : 0;
  drawn.setAttribute("points", points.map((value, i) => `${(i * step).toFixed(1)},${(19 - 18 * Math.min(value, 1)).toFixed(1)}`).join(" "));
  svg.append(drawn); return svg;
}

function button(text, act) {
  const made = document.createElement("button"); made.type = "button"; made.textContent = text;
  made.addEventListener("click", () => act().catch((error) => { $("given").textContent = error.message; }));
  return made;
}

async function revoke(name) {
  if (!window.confirm(`Revoke the token of ${name}? What it sent stays in the ledger.`)) return;
  await ask(`/v1/clients/${encodeURIComponent(name)}`, { method: "DELETE" });
  $("given").textContent = `${name} is revoked.`; await slow();
}
async function rotate(name) {
  const made = await (await ask(`/v1/clients/${encodeURIComponent(name)}/rotate`, { method: "POST" })).json();
  $("given").textContent = `New token of ${name}, shown once: ${made.token}`;
}

async function slow() {
  const [clients, exposure, deletions] = await Promise.all(
    ["/v1/clients", "/v1/exposure", "/v1/deletions?limit=50"].map(async (path) => (await ask(path)).json()));
  const known = new Map(exposure.clients.map((one) => [one.client, one]));
  for (const one of exposure.clients) history.set(one.client, [...(history.get(one.client) || []), one.value].slice(-200));
  $("account").textContent = exposure.words;
  fill("clients", clients.map((one) => {
    const found = known.get(one.name), acts = document.createElement("span");
    if (one.revoked_at === null) acts.append(button("Rotate", () => rotate(one.name)), " ", button("Revoke", () => revoke(one.name)));
    else acts.textContent = `revoked ${when(one.revoked_at)}`;
    return row(cell(one.name), cell(found ? found.value.toFixed(2) : "-"), cell(found ? line(one.name) : ""), cell(found ? found.meaning : ""), cell(acts));
  }));
  fill("deletions", deletions.map((one) => {
    const mu = one.figures && one.figures.mu_total;
    return row(cell(when(one.at)), cell(one.client), cell(mu === null || mu === undefined ? "-" : mu.toFixed(2), "n"), cell(when(one.erased_at)));
  }));
}

function log() {
  fill("log", decisions.map((one) => row(
    cell(when(one.at)), cell(one.client), cell(one.accepted ? (one.deletes ? "deleted" : "accepted") : "refused", one.accepted ? "yes" : "no"),
    cell(one.accepted ? "" : `${one.rule || ""}: ${one.reason || ""}`))));
}

function heard(name, content) {
  if (name === "status") status(content);
  if (name === "decision") { decisions = [content, ...decisions].slice(0, 50); log(); }
}

// EventSource cannot carry a token, so the stream is read by hand.
async function listen() {
  listening = new AbortController();
  const reader = (await ask("/v1/events", { signal: listening.signal })).body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n"); text = events.pop();
    for (const event of events) {
      const name = /^event: (.*)$/m.exec(event), data = /^data: (.*)$/m.exec(event);
      if (name && data) heard(name[1], JSON.parse(data[1]));
    }
  }
}

async function enter() {
  status(await (await ask("/v1/status")).json());
  decisions = await (await ask("/v1/decisions?limit=50")).json(); log(); await slow();
  sessionStorage.setItem(KEY, token);
  $("login").hidden = true; $("main").hidden = false; $("leave").hidden = false; $("wrong").textContent = "";
  const timer = setInterval(() => slow().catch(() => {}), 5000);
  for (;;) {
    try { await listen(); } catch (error) { if (!token) break; }
    if (!token) break;
    $("state").textContent = "the service does not answer; trying again"; $("state").className = "bad";
    await new Promise((next) => setTimeout(next, 2000));
  }
  clearInterval(timer);
}

function leave(why) {
  token = ""; sessionStorage.removeItem(KEY);
  if (listening) listening.abort();
  $("login").hidden = false; $("main").hidden = true; $("leave").hidden = true; $("wrong").textContent = why || "";
  $("state").textContent = "not connected"; $("state").className = "";
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault(); token = $("token").value.trim(); $("token").value = "";
  enter().catch((error) => { if (error.message !== "token") leave(error.message); });
});
$("leave").addEventListener("click", () => leave());
$("enrol").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const made = await (await ask("/v1/clients", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ name: $("name").value }) })).json();
    $("given").textContent = `Token of ${made.name}, shown once: ${made.token}`; $("name").value = ""; await slow();
  } catch (error) { $("given").textContent = error.message; }
});
if (token) enter().catch(() => leave());
