// Which view the address asks for, when it is shown again, and the keyboard.
import { showAccount } from "/static/account.js";
import { showAccounts } from "/static/accounts.js";
import { showDispute } from "/static/board.js";
import { refresh } from "/static/clock.js";
import { el, link, toggleColumns } from "/static/dom.js";
import { showFront, showTasks } from "/static/front.js";
import { listen } from "/static/live.js";
import { showRound } from "/static/round.js";
import { focusSearch, listenToSearch, showSearch } from "/static/search.js";
import { showSuspicious } from "/static/suspicious.js";
import { showAllLines, showOldRounds, showTask } from "/static/task.js";

const main = document.getElementById("main");
const HEX = /^0x[0-9a-f]{64}$/;
const ADDRESS = /^0x[0-9a-f]{40}$/;
const FOCUSABLE = "a, button, [tabindex]";
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
  if (kind === "accounts") return () => ADDRESS.test(task || "") ? showAccount(task) : showAccounts(task);
  if (kind === "suspicious") return showSuspicious;
  if (kind === "search") return () => showSearch(task);
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
  const here = (text) => el("span", { "aria-current": "page" }, text);
  if (kind === "task" && task) steps.push(link(["task", task], `task ${task.slice(0, 14)}`));
  if (kind === "accounts") steps.push(link(["accounts"], "accounts"));
  if (kind === "accounts" && task) steps.push(here(task.slice(0, 14)));
  if (kind === "suspicious" || kind === "search") steps.push(here(kind));
  if (view) steps.push(here([view, (name || "").slice(0, 14)].join(" ")));
  document.getElementById("place").replaceChildren(...steps.map((one) => el("li", {}, one)));
}

// What has not changed stays, so a click that has begun reaches its link, and little is drawn anew.
function put(content, isLive) {
  const old = [...main.children];
  refresh();
  if (!isLive || old.length !== content.length) main.replaceChildren(...content);
  else content.forEach((one, at) => { if (old[at] !== one && !old[at].isEqualNode(one)) old[at].replaceWith(one); });
}

// isLive: shown again because something changed, so neither the focus nor the place on the page moves.
// scroll: how far down the visitor was when it left this place of its history.
async function show(isLive = false, scroll = 0) {
  const turn = ++shown;
  const now = parts();
  let content;
  try {
    content = await find(now)();
  } catch (error) {
    if (isLive) return; // What is shown stays; the header says that nothing answers.
    content = [el("h1", {}, "This cannot be shown"), el("p", {}, error.message)];
  }
  if (turn !== shown) return;
  const at = isLive ? [...main.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement) : -1;
  const open = [...main.querySelectorAll("details")].map((one) => one.open);
  put(content.filter(Boolean), isLive);
  showPlace(now);
  const title = main.querySelector("h1")?.textContent || "";
  document.title = `${title || "Explorer"} – Touchstone`;
  if (isLive && title !== told) document.getElementById("news").textContent = title;
  told = title;
  if (isLive) {
    if (at >= 0) main.querySelectorAll(FOCUSABLE)[at]?.focus({ preventScroll: true });
    main.querySelectorAll("details").forEach((one, index) => { one.open = open[index] || false; });
  } else {
    main.focus({ preventScroll: true });
    window.scrollTo(0, scroll);
  }
}

// Back returns to the place on the page that a visitor left.
function keepScroll() {
  let left = 0;
  let timer = null;
  history.scrollRestoration = "manual";
  const keep = () => history.replaceState({ y: window.scrollY }, "");
  window.addEventListener("scroll", () => { clearTimeout(timer); timer = setTimeout(keep, 200); }, { passive: true });
  document.addEventListener("click", (event) => { if (event.target.closest("a")) { clearTimeout(timer); keep(); } }, true);
  window.addEventListener("popstate", (event) => { clearTimeout(timer); left = event.state?.y || 0; });
  window.addEventListener("hashchange", () => { show(false, left); left = 0; });
}

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    document.getElementById("news").textContent = "copied";
    button.classList.add("done");
  } catch {
    // Without a secure address a page may not write to the clipboard: the whole value is selected instead.
    const code = button.previousElementSibling;
    code.textContent = button.dataset.copy;
    window.getSelection().selectAllChildren(code);
  }
}

function moveRow(step) {
  const links = [...main.querySelectorAll("tbody tr, .board > li")].map((one) => one.querySelector("a")).filter(Boolean);
  if (!links.length) return;
  const row = document.activeElement.closest?.("tr, li");
  const at = links.findIndex((one) => row && row.contains(one));
  links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + step))].focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const keys = {
    t: () => { location.hash = "#/"; },
    a: () => { location.hash = "#/accounts"; },
    s: () => { location.hash = "#/suspicious"; },
    u: () => {
      const now = parts();
      const steps = now[0] === "accounts" ? now.length - 1 : now.length > 2 ? 2 : 0;
      location.hash = "#/" + now.slice(0, steps).join("/");
    },
    j: () => moveRow(1),
    k: () => moveRow(-1),
    "/": () => { event.preventDefault(); focusSearch(); },
  };
  keys[event.key]?.();
});
main.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.copy) copy(button);
  if (button?.dataset.caption) toggleColumns(button);
});
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
keepScroll();
listenToSearch();
show().then(() => listen((tasks) => {
  const [kind, task] = parts();
  if (tasks === null || (kind === "task" ? tasks.includes(task) : tasks.length)) show(true);
}));
