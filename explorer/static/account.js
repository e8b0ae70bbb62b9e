// One account: what it owes until when, what is at risk, what it has, and what it did.
import { fetchJson } from "/static/api.js";
import { STAGES } from "/static/board.js";
import { when } from "/static/clock.js";
import { workTable } from "/static/accounts.js";
import { amount, capital, el, hash, link, person, table } from "/static/dom.js";
import { suspiciousTable } from "/static/suspicious.js";

/** The page of an account. */
export async function showAccount(account) {
  const [found, work] = await Promise.all([fetchJson(`/api/accounts/${account}`),
    fetchJson(`/api/accounts?account=${encodeURIComponent(account)}`)]);
  const against = found.disputes.filter((row) => row.is_open && row.is_against).length;
  return [
    el("h1", {}, `Account ${found.name}`), el("p", {}, hash(account)),
    el("h2", {}, "What does it have?"),
    found.tasks.map((row) => el("p", { class: "lead" }, link(["task", row.task], row.name),
      `${row.role ? ` (${[row.role, row.status].filter(Boolean).join(", ")})` : ""}: ${row.line}.`)),
    el("h2", {}, "What does it owe, and until when?"), dutyTable(found.tasks),
    el("h2", {}, "What is at risk?"), riskTable(found.tasks),
    el("p", {}, against ? el("strong", { class: "bad" }, `Open disputes against it: ${against}.`) : "No open dispute is against it."),
    ...found.tasks.filter((row) => row.suspicious.length).map((row) => suspiciousTable(`Suspicious in ${row.name}`, row.suspicious, row.task)),
    el("h2", {}, "History"), workTable(work.accounts, account), disputeTable(found.disputes),
  ].flat();
}

function dutyTable(tasks) {
  const rows = tasks.flatMap((one) => one.duties.map((duty) => ({ ...duty, task: one.task, name: one.name })));
  return table("Duties", [
    ["task", (row) => link(["task", row.task], row.name), false, true],
    ["duty", (row) => capital(row.what)], ["until", (row) => when(row.until_block) || "not known yet"],
  ], rows, "it owes nothing now.");
}

const riskTable = (tasks) => table("Stakes, in tokens: a fault that is proven costs all of it", [
  ["task", (row) => link(["task", row.task], row.name)], ["role", (row) => row.role, false, true],
  ["seat", (row) => el("span", { class: row.status === "convicted" ? "bad" : null }, row.status)],
  ["stake locked", (row) => amount(row.stake), true], ["comes back", (row) => when(row.unlock_block)],
], tasks.filter((row) => row.status), "it has no seat now.");

const disputeTable = (rows) => table("Disputes, open ones first", [
  ["dispute", (row) => link(["task", row.task, "dispute", row.dispute], row.about)],
  ["side", (row) => row.is_against ? el("span", { class: "bad" }, "against it") : "opened by it"],
  ["opened by", (row) => person({ account: row.opener_account, name: row.opener })],
  ["stands at", (row) => STAGES[row.stage] || row.stage], ["until", (row) => when(row.until_block), false, true],
], rows);
