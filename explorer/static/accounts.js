// What each account did in all tasks.
import { fetchJson } from "/static/api.js";
import { el, link, person, table } from "/static/dom.js";
import { STATES } from "/static/money.js";

const big = (number) => number < 1e6 ? number : number.toExponential(2);

/** What accounts did: a row for each, or for each task of one. */
export function workTable(rows, account = "") {
  const first = account ? ["task", (row) => link(["task", row.task], row.task.slice(0, 14))] : ["account", person];
  return table(account ? "What this account did, by task; amounts in tokens" : "What each account did in all tasks, most training first; amounts in tokens",
    [first, ...(account ? [] : [["tasks", (row) => row.tasks, true, true]]),
      ["rounds trained", (row) => row.rounds_trained, true], ["accepted", (row) => row.rounds_accepted, true, true],
      ["merged", (row) => row.rounds_merged, true, true], ["tokens trained", (row) => big(row.tokens), true, true],
      ["FLOPs", (row) => big(row.flops), true, true], ["audits voted", (row) => row.audits_voted, true],
      ...STATES.map(([title, cell]) => [title, cell, true, title !== "settled"]),
      ["convictions", (row) => row.convictions ? el("span", { class: "bad" }, String(row.convictions)) : el("span", { class: "zero" }, "0"), true]], rows);
}

/** All accounts, a page at a time. */
export async function showAccounts(offset) {
  const start = Number(offset || 0);
  const found = await fetchJson(`/api/accounts?offset=${start}`);
  const end = start + found.accounts.length;
  return [el("h1", {}, "Accounts"), workTable(found.accounts),
    end < found.total ? el("p", {}, link(["accounts", String(end)], "more accounts")) : null,
    el("p", { class: "soft" }, "A FLOP count is an estimate: six for each weight and token. Locked is what the contracts hold and give back; earned is what settlements pay if nothing more happens."),
    el("p", {}, el("a", { href: "/api/accounts.csv" }, "By account and task, as CSV"))];
}
