// The first page: what this is, four figures, the newest conviction, and the tasks of the deployment.
import { fetchJson } from "/static/api.js";
import { when } from "/static/clock.js";
import { showConviction } from "/static/conviction.js";
import { amount, el, hash, link, person, table } from "/static/dom.js";

/** The first page. */
export async function showFront() {
  const [front, found] = await Promise.all([fetchJson("/api/front"), fetchJson("/api/tasks")]);
  return [
    el("h1", {}, "Strangers train one model together, for pay"),
    el("ul", { class: "lines" },
      el("li", {}, "Touchstone is a market for training: many machines of strangers train the same model, each on its own part of the data."),
      el("li", {}, "Auditors repeat drawn parts of the work, blind. If a result is disputed, both sides narrow it down to one number, and the contract computes that number."),
      el("li", {}, "You need not trust anybody, this page included: a wrong number costs its author the whole deposit, and anybody can recompute it.")),
    figures(front.figures),
    front.conviction ? el("h2", {}, "The newest conviction") : null,
    front.conviction ? showConviction(front.conviction) : null,
    el("h2", {}, "Tasks"),
    found.total ? taskTable(found) : showEmpty(),
    olderTasks(found, 0),
    el("p", {}, link(["accounts"], "Accounts: what each did in all tasks"), " · ", link(["suspicious"], "What is suspicious")),
  ];
}

/** Older tasks, a page at a time. */
export async function showTasks(offset) {
  const start = Number(offset || 0);
  const found = await fetchJson(`/api/tasks?offset=${start}`);
  return [el("h1", {}, "Tasks"), taskTable(found), olderTasks(found, start)];
}

const figures = (known) => el("dl", { class: "figures" }, [["models", "model", "models"],
  ["rounds", "round of training", "rounds of training"], ["audits", "audit", "audits"], ["convictions", "conviction", "convictions"],
].map(([name, one, many]) => el("div", { id: `figure-${name}` }, el("dt", {}, known[name] === 1 ? one : many),
  el("dd", {}, known[name].toLocaleString("en")))));

const showEmpty = () => el("div", {},
  el("p", {}, "No task yet. With a checkout of Touchstone and a home that has tokens, these commands post one:"),
  el("pre", { tabindex: "0", "aria-label": "commands that post a task" }, el("code", {}, "touchstone task example --out build/example\ntouchstone task create --config build/example/task.toml --home ~/submitter")));

function taskTable(found) {
  const columns = [
    ["task", (row) => row.refused === undefined ? link(["task", row.task], row.name) : hash(row.task)],
    ["does", (row) => row.refused === undefined ? row.phase : `cannot be understood: ${row.refused}`],
    ["rounds", (row) => row.rounds ? `${row.rounds_opened} of ${row.rounds}` : null, true, true],
    ["seats", (row) => row.seats_taken],
    ["submitter", (row) => row.submitter ? person(row.submitter) : null, false, true],
    ["open disputes", (row) => row.open_disputes, true, true],
    ["convicted", (row) => row.convictions ? el("span", { class: "bad" }, String(row.convictions)) : row.convictions, true, true],
    ["escrow left", (row) => row.escrow ? amount(row.escrow) : null, true, true],
    ["posted", (row) => when(row.posted), false, true],
  ];
  return table("Tasks of this deployment, newest first; amounts in tokens", columns, found.tasks);
}

function olderTasks(found, start) {
  const end = start + found.tasks.length;
  return end < found.total ? el("p", {}, link(["tasks", String(end)], "older tasks")) : null;
}
