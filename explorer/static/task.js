// One task: what it trains, its rounds, seats, money, disputes, and what happened.
import { api, fetchJson } from "/static/api.js";
import { STAGES } from "/static/board.js";
import { when } from "/static/clock.js";
import { showConviction } from "/static/conviction.js";
import { showRounds } from "/static/chart.js";
import { el, hash, link, list, nats, person, reported, table } from "/static/dom.js";
import { heldoutParts, progressParts, shardParts, withError } from "/static/losses.js";
import { moneyTables, seatTable } from "/static/money.js";

/** One task: what it trains, its rounds, seats, money, disputes, and what happened. */
export async function showTask(task) {
  const [found, rounds, disputes, lines] = await Promise.all([
    fetchJson(api(task)), fetchJson(api(task, "rounds?limit=50")), fetchJson(api(task, "disputes")),
    fetchJson(api(task, "lines?limit=30"))]);
  return [
    el("h1", {}, `${found.name}: ${found.phase}`),
    ...progressParts(found.progress),
    showRun(found),
    ...found.convicted.map((one) => showConviction(one)),
    showTraining(found),
    el("h2", {}, "How good is the model?"), ...heldoutParts(found.progress),
    el("h2", {}, "Rounds"), showRounds(rounds.rounds), roundTable(task, rounds), olderRounds(task, rounds),
    el("p", {}, el("a", { href: api(task, "work.csv") }, "Who trained what, as CSV")),
    el("h2", {}, "Losses of the shards"), ...shardParts(rounds.rounds),
    el("h2", {}, "Disputes"), ...disputeTables(task, disputes),
    el("h2", {}, "Seats"), seatTable(found.seated),
    el("h2", {}, "Money"), ...moneyTables(found.money),
    el("h2", {}, "What happened"), showLines(lines.lines),
    lines.lines.length === 30 ? el("p", {}, link(["task", task, "lines"], "all that happened")) : null,
  ];
}

// How far the task is, and when it ends if each round takes as long as the last ones.
function showRun(found) {
  const end = found.ends_block === null ? null : ["; the last round ends ", when(found.ends_block)];
  return el("p", {}, el("progress", { max: String(found.rounds), value: String(found.rounds_done), "aria-label": "rounds that have ended" }),
    ` ${found.rounds_done} of ${found.rounds} rounds done`, end, ".");
}

function showTraining(found) {
  const said = found.training;
  const what = said.error ? [["training", `no description: ${said.error}`]] : [
    ["model", `${said.parameters.toLocaleString("en")} parameters, in ${said.numeric_format}`],
    ["a round", `${said.inner_steps} steps of ${said.tokens_per_step.toLocaleString("en")} tokens, audited in segments of ${said.segment_steps}`],
    ["dataset", `${said.dataset_tokens.toLocaleString("en")} tokens`],
  ];
  const audits = found.is_exact ? "equal, bit for bit" : "inside the task's limits";
  return el("div", {}, list([
    ["id", hash(found.task)], ["posted", when(found.posted)], ["submitter", person(found.submitter)], ...what,
    ["an audit accepts ends that are", audits], ["rounds", `${found.rounds_opened} of ${found.rounds} opened`], ["seats", found.seats_taken],
    ["paid so far", `${found.spent}, and ${found.owed} are earned and not settled`], ["escrow left", found.escrow], ["root of the model", hash(found.root)],
    ["stakes", `${found.amounts.solver_stake} a solver, ${found.amounts.auditor_stake} an auditor`],
    ["pay", `${found.amounts.solver_pay} a round and solver, ${found.amounts.audit_pay} a vote`],
  ]));
}

/** The held-out loss of the model that a round has made. */
const heldout = (row) => {
  const made = (row.heldout || []).find((one) => one.rounds_done === row.round + 1);
  return made ? reported(withError(made)) : null;
};

const roundTable = (task, rounds) => table(`Rounds, newest first (${rounds.total} opened)`, [
  ["round", (row) => link(["task", task, "round", String(row.round)], `round ${row.round}`)],
  ["stage", (row) => row.stage], ["held-out loss (reported)", (row) => heldout(row), true],
  ["shards' mean (reported)", (row) => row.losses ? reported(nats(row.losses.mean)) : null, true, true],
  ["opened", (row) => when(row.opened), false, true],
  ["closed", (row) => when(row.closed), false, true], ["solvers", (row) => row.solvers, true, true],
  ["claims", (row) => row.claims, true, true], ["votes", (row) => row.votes, true, true],
  ["merged", (row) => row.merged, true, true], ["root", (row) => hash(row.root), false, true],
], rounds.rounds);

function olderRounds(task, rounds) {
  const last = rounds.rounds[rounds.rounds.length - 1];
  return last && last.round > 0 ? el("p", {}, link(["task", task, "rounds", String(last.round)], "older rounds")) : null;
}

/** Rounds before one, a page at a time. */
export async function showOldRounds(task, before) {
  const number = Number(before) || 0;
  const rounds = await fetchJson(api(task, `rounds?limit=50&before=${number}`));
  return [el("h1", {}, `Rounds before round ${number}`), roundTable(task, rounds), olderRounds(task, rounds)];
}

function disputeTables(task, found) {
  const rows = table("Disputes, newest first", [
    ["dispute", (row) => link(["task", task, "dispute", row.dispute], row.dispute.slice(0, 14)), false, true],
    ["about", (row) => link(["task", task, "dispute", row.dispute], `${row.about}, segment ${row.segment}`)],
    ["against", (row) => person({ name: row.claimant, account: row.claimant_account })],
    ["opened by", (row) => person({ name: row.opener, account: row.opener_account }), false, true],
    ["stands at", (row) => el("span", { class: row.is_convicted ? "bad" : null }, STAGES[row.stage] || row.stage)],
    ["has to move", (row) => row.turn, false, true], ["until", (row) => when(row.until_block)],
  ], found.disputes);
  const queries = !found.queries.length ? null : table("Open queries", [["opened by", (row) => row.asker], ["about", (row) => row.about],
    ["until", (row) => when(row.until_block)]], found.queries);
  const contests = !found.contests.length ? null : table("Open contests of a root", [["contester", (row) => row.contester],
    ["round", (row) => row.round, true], ["turn", (row) => row.turn], ["until", (row) => when(row.until_block)]], found.contests);
  return [rows, queries, contests];
}

const showLines = (lines) => el("ol", { class: "lines" }, lines.map((one) =>
  el("li", {}, el("span", { class: "block" }, `block ${one.block} · `, when(one.block)), one.line)));

/** All lines of a task, a page at a time. */
export async function showAllLines(task, block, log) {
  const before = block ? `&block=${block}&log=${log}` : "";
  const { lines } = await fetchJson(api(task, `lines?limit=200${before}`));
  const last = lines[lines.length - 1];
  return [el("h1", {}, `What happened in task ${task.slice(0, 14)}`), showLines(lines),
    lines.length === 200 ? el("p", {}, link(["task", task, "lines", String(last.block), String(last.log)], "earlier")) : null];
}

