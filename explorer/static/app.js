// Which view the address asks for, when it is shown again, and the keyboard.
import { el, link } from "/static/dom.js";
import { fetchJson } from "/static/api.js";
import { showAccounts } from "/static/accounts.js";
import { showDispute } from "/static/board.js";
import { showFront, showTasks } from "/static/front.js";
import { showRound } from "/static/round.js";
import { showAllLines, showOldRounds, showTask } from "/static/task.js";

const main = document.getElementById("main");
const HEX = /^0x[0-9a-f]{64}$/;
const ADDRESS = /^0x[0-9a-f]{40}$/;
let shown = 0;
let told = "";

/** The parts of the address after #/. */
function parts() {
  try {
    return location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    return []; // what is no address names no place
  }
}

function find([kind, task, view, ...rest]) {
  if (kind === "accounts") return () => ADDRESS.test(task || "") ? showAccounts(task) : showAccounts("", task);
  if (kind === "tasks") return () => showTasks(task);
  if (kind !== "task") return showFront;
  if (!HEX.test(task || "")) return async () => [el("h1", {}, "No such task"), el("p", {}, "The address names no task.")];
  if (view === "round") return () => showRound(task, rest[0]);
  if (view === "dispute" && HEX.test(rest[0] || "")) return () => showDispute(task, rest[0]);
  if (view === "rounds") return () => showOldRounds(task, rest[0]);
  if (view === "lines") return () => showAllLines(task, ...rest);
  return () => showTask(task);
}

function showPlace([kind, task, view, name]) {
  const steps = [link([], "tasks")];
  if (kind === "task") steps.push(link(["task", task], `task ${task.slice(0, 14)}`));
  if (kind === "accounts") steps.push(link(["accounts"], "accounts"));
  if (kind === "accounts" && task) steps.push(el("span", { "aria-current": "page" }, task.slice(0, 14)));
  if (view) steps.push(el("span", { "aria-current": "page" }, [view, (name || "").slice(0, 14)].join(" ")));
  document.getElementById("place").replaceChildren(...steps.map((one) => el("li", {}, one)));
}

// What has not changed stays, so a click that has begun reaches its link, and little is drawn anew.
function put(content, isLive) {
  const old = [...main.children];
  if (!isLive || old.length !== content.length) main.replaceChildren(...content);
  else content.forEach((one, at) => { if (old[at] !== one && !old[at].isEqualNode(one)) old[at].replaceWith(one); });
}

// isLive: shown again because something changed, so neither the focus nor the place on the page moves.
async function show(isLive = false) {
  const turn = ++shown;
  const now = parts();
  let content;
  try {
    content = await find(now)();
  } catch (error) {
    content = [el("h1", {}, "This cannot be shown"), el("p", {}, error.message)];
  }
  if (turn !== shown) return;
  const at = isLive ? [...main.querySelectorAll("a, button, [tabindex]")].indexOf(document.activeElement) : -1;
  const open = [...main.querySelectorAll("details")].map((one) => one.open);
  put(content.filter(Boolean), isLive);
  showPlace(now);
  document.title = `${main.querySelector("h1")?.textContent || "Explorer"} – Touchstone`;
  const title = main.querySelector("h1")?.textContent || "";
  if (isLive && title !== told) document.getElementById("news").textContent = title;
  told = title;
  if (isLive) {
    if (at >= 0) main.querySelectorAll("a, button, [tabindex]")[at]?.focus({ preventScroll: true });
    main.querySelectorAll("details").forEach((one, index) => { one.open = open[index] || false; });
  } else {
    main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
}

function tellChain(head, fault) {
  const place = document.getElementById("chain");
  const text = fault ? `the chain is silent: last block ${head}` : head === null ? "reading the chain" : `block ${head}`;
  if (place.textContent !== text) place.textContent = text;
  if (place.classList.toggle("bad", Boolean(fault))) document.getElementById("news").textContent = text;
}

// others: contracts that are not those of this version, with what differs; null before they were looked at.
function tellContracts(others, token) {
  const names = Object.keys(others || {});
  document.getElementById("warning").textContent = names.length ? "Move no token into this deployment: its contracts are not those of "
    + `this version, and who made them may take all tokens. ${names.map((one) => `${one} ${others[one]}`).join("; ")}.` : "";
  document.getElementById("contracts").textContent = others && !names.length
    ? `All contracts are those of this version of Touchstone. The token, ${token}, is a contract of others: nobody has checked it.` : "";
  return others !== null;
}

function listen() {
  const stream = new EventSource("/api/live");
  let areToldContracts = false;
  const ask = () => fetchJson("/api/status").then((now) => {
    tellChain(now.head, now.fault);
    areToldContracts = tellContracts(now.other_contracts, now.token);
  });
  stream.onmessage = (message) => {
    const told = JSON.parse(message.data);
    const [kind, task] = parts();
    tellChain(told.head, told.fault);
    if (!areToldContracts) ask().catch(() => {});
    if (kind === "task" ? told.tasks.includes(task) : told.tasks.length) show(true);
  };
  stream.onopen = () => ask().then(() => show(true)).catch(() => {});
  stream.onerror = () => tellChain("unknown", "the explorer does not answer");
}

function moveRow(step) {
  const links = [...main.querySelectorAll("tbody a, .board a")];
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + step))].focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const keys = {
    t: () => { location.hash = "#/"; },
    a: () => { location.hash = "#/accounts"; },
    u: () => {
      const now = parts();
      const steps = now[0] === "accounts" ? now.length - 1 : now.length > 2 ? 2 : 0;
      location.hash = "#/" + now.slice(0, steps).join("/");
    },
    j: () => moveRow(1),
    k: () => moveRow(-1),
  };
  keys[event.key]?.();
});
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
window.addEventListener("hashchange", () => show());
show().then(listen);
