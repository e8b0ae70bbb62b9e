// Who has what in a task: seats and money by account.
import { el, list, person, table } from "/static/dom.js";

/** All seats of a task. */
export const seatTable = (seats) => table("Seats of the task", [
  ["account", person], ["role", (row) => row.role],
  ["status", (row) => el("span", { class: row.status === "convicted" ? "bad" : null }, row.status)],
  ["stake", (row) => row.stake, true], ["earned, not settled", (row) => row.earned, true],
  ["settled", (row) => row.settled, true], ["lost", (row) => row.lost, true],
], seats);

/** What each account has in a task, and why. */
export function moneyTables(money) {
  const columns = [["account", person], ...money.columns.map((name) => [name === "earned" ? "earned, not settled" : name, (row) => row[name], true])];
  const why = [["account", person], ["what", (row) => row.kind], ["why", (row) => row.reason], ["amount", (row) => row.amount, true]];
  const burned = list(Object.entries(money.burned).map(([kind, amount]) => [`burned of ${kind}`, amount]));
  return [table("What each account has in this task", columns, money.accounts), table("Why", why, money.why), burned];
}
