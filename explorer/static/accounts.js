// What accounts did: all of them, or one task by task.
import { fetchJson } from "/static/api.js";
import { el, link, short, table } from "/static/dom.js";
import { STATES } from "/static/money.js";

const big = (number) => number < 1e6 ? number : number.toExponential(2);

/** What each account did in all tasks; or one account in each task. */
export async function showAccounts(account, offset) {
  const start = Number(offset || 0);
  const found = await fetchJson(`/api/accounts?offset=${start}${account ? `&account=${encodeURIComponent(account)}` : ""}`);
  const first = account ? ["task", (row) => link(["task", row.task], short(row.task))]
    : ["account", (row) => el("span", { title: row.account }, link(["accounts", row.account], row.name))];
  const columns = [first, ...(account ? [] : [["tasks", (row) => row.tasks, true]]),
    ["rounds trained", (row) => row.rounds_trained, true], ["accepted", (row) => row.rounds_accepted, true],
    ["merged", (row) => row.rounds_merged, true], ["tokens", (row) => big(row.tokens), true],
    ["FLOPs", (row) => big(row.flops), true], ["audits voted", (row) => row.audits_voted, true],
    ...STATES,
    ["convictions", (row) => row.convictions ? el("span", { class: "bad" }, String(row.convictions)) : 0, true]];
  const title = account ? `Account ${found.accounts.length ? found.accounts[0].name : short(account)}` : "Accounts";
  const caption = account ? "What this account did, by task; amounts in tokens" : "What each account did in all tasks, most training first; amounts in tokens";
  const end = start + found.accounts.length;
  return [el("h1", {}, title), account ? el("p", {}, el("code", {}, account)) : null,
    table(caption, columns, found.accounts),
    end < found.total && !account ? el("p", {}, link(["accounts", String(end)], "more accounts")) : null,
    el("p", { class: "soft" }, "A FLOP count is an estimate: six for each weight and token. Locked is what the contracts hold and give back; earned is what settlements pay if nothing more happens."),
    el("p", {}, el("a", { href: "/api/accounts.csv" }, "By account and task, as CSV"))];
}
