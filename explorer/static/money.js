// Who has what in a task: seats and money by account.
import { amount, el, list, person, table } from "/static/dom.js";

/** The columns of money by state; each row has them as texts with their unit. */
export const STATES = [["locked", (row) => amount(row.locked), true], ["earned, not settled", (row) => amount(row.earned), true],
  ["settled", (row) => amount(row.settled), true], ["lost", (row) => amount(row.lost), true]];

/** All seats of a task. */
export const seatTable = (seats) => table("Seats of the task; amounts in tokens", [
  ["account", person], ["role", (row) => row.role],
  ["status", (row) => el("span", { class: row.status === "convicted" ? "bad" : null }, row.status)],
  ["stake", (row) => amount(row.stake), true],
  ...STATES.slice(1).map(([title, cell]) => [title, cell, true, true]),
], seats);

/** What each account has in a task, and why. */
export function moneyTables(money) {
  const why = [["account", person], ["what", (row) => row.kind], ["why", (row) => row.reason], ["amount", (row) => amount(row.amount), true]];
  const burned = Object.entries(money.burned).map(([kind, wei]) => [`burned of ${kind}`, wei]);
  return [
    el("p", { class: "soft" }, "Locked comes back, unless it is lost. Earned is what settlements pay if nothing more happens. In all is earned and settled, less what was lost and spent."),
    table("What each account has in this task, in tokens", [["account", person], ...STATES.map(([title, cell]) => [title, cell, true, title === "lost"]),
      ["spent", (row) => amount(row.spent), true, true], ["in all", (row) => amount(row.in_all), true]], money.accounts),
    el("details", {}, el("summary", {}, "why: each amount by its reason"), table("Why, in tokens", why, money.why)),
    burned.length ? list(burned) : null];
}
