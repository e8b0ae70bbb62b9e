// What an auditor may want to look at, across all tasks.
import { fetchJson } from "/static/api.js";
import { when } from "/static/clock.js";
import { el, link, person, table } from "/static/dom.js";

/** A place where a suspicious thing is seen: its dispute, else its round. */
const place = (task, row) => row.dispute ? link(["task", task, "dispute", row.dispute], "the dispute")
  : link(["task", task, "round", String(row.round)], `round ${row.round}`);

/** Rows of suspicious things. names: whether to name task and account. */
export function suspiciousTable(caption, rows, task = null) {
  return table(caption, [
    ["what", (row) => el("span", { class: row.kind.startsWith("distance near") ? null : "bad" }, row.kind)],
    ...(task ? [] : [["against", (row) => row.account ? person(row) : "the signers"]]),
    ["why", (row) => row.what], ["where", (row) => place(task || row.task, row)],
    ["until", (row) => when(row.until_block), false, true],
    ...(task ? [] : [["task", (row) => link(["task", row.task], row.task_name), false, true]]),
  ], rows, "nothing.");
}

/** The page. */
export async function showSuspicious() {
  const found = await fetchJson("/api/suspicious");
  return [el("h1", {}, "What is suspicious"),
    el("p", {}, "Rejected claims, data that auditors did not get, silent seats, distances at the limits, and what is open: in the last rounds of the newest tasks. ",
      "Nothing here is proven; convictions are."),
    suspiciousTable(`What an auditor may want to look at (${found.total})`, found.rows)];
}
