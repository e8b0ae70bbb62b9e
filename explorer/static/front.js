// The first page: the tasks of the deployment.
import { fetchJson } from "/static/api.js";
import { el, hash, link, person, short, table } from "/static/dom.js";

/** All tasks of the deployment. */
export async function showTasks(offset) {
  const start = Number(offset || 0);
  const found = await fetchJson(`/api/tasks?offset=${start}`);
  const columns = [
    ["task", (row) => row.refused === undefined ? link(["task", row.task], short(row.task)) : hash(row.task)],
    ["does", (row) => row.refused === undefined ? row.phase : `cannot be understood: ${row.refused}`],
    ["submitter", (row) => row.submitter ? person(row.submitter) : null],
    ["rounds", (row) => row.rounds ? `${row.rounds_opened} of ${row.rounds}` : null, true],
    ["solvers", (row) => row.seats && row.seats.solver, true],
    ["verifiers", (row) => row.seats && row.seats.verifier, true],
    ["whistleblowers", (row) => row.seats && row.seats.whistleblower, true],
    ["open disputes", (row) => row.open_disputes, true],
    ["convicted", (row) => row.convictions ? el("span", { class: "bad" }, String(row.convictions)) : row.convictions, true],
    ["escrow left", (row) => row.escrow, true],
  ];
  const end = start + found.tasks.length;
  return [el("h1", {}, "Tasks"), table("Tasks of this deployment, newest first", columns, found.tasks),
    end < found.total ? el("p", {}, link(["tasks", String(end)], "older tasks")) : null,
    el("p", {}, link(["accounts"], "What each account did in all tasks"))];
}
