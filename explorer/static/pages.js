// The views: what each address shows. A view fetches, then returns elements; it changes nothing else.
import { STAGES, showBoard, showNumber } from "/static/board.js";
import { showLosses, showRounds } from "/static/chart.js";
import { el, hash, link, list, person, table } from "/static/dom.js";

/** JSON of this server. */
export async function fetchJson(path) {
  const response = await fetch(path);
  if (response.status === 404) throw new Error("There is no such task, round or dispute on this chain.");
  if (!response.ok) throw new Error(`The explorer answers ${response.status} for ${path}.`);
  return response.json();
}

const short = (task) => task.slice(0, 14);
const api = (task, ...rest) => ["/api/tasks", task, ...rest].map((part) => part).join("/");

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
    ["locked", (row) => row.locked, true], ["earned, not settled", (row) => row.earned, true],
    ["settled", (row) => row.settled, true], ["lost", (row) => row.lost, true],
    ["convictions", (row) => row.convictions ? el("span", { class: "bad" }, String(row.convictions)) : 0, true]];
  const title = account ? `Account ${found.accounts.length ? found.accounts[0].name : short(account)}` : "Accounts";
  const caption = account ? "What this account did, by task" : "What each account did in all tasks, most training first";
  const end = start + found.accounts.length;
  return [el("h1", {}, title), account ? el("p", {}, el("code", {}, account)) : null,
    table(caption, columns, found.accounts),
    end < found.total && !account ? el("p", {}, link(["accounts", String(end)], "more accounts")) : null,
    el("p", { class: "soft" }, "A FLOP count is an estimate: six for each weight and token. Locked is what the contracts hold and give back; earned is what settlements pay if nothing more happens."),
    el("p", {}, el("a", { href: "/api/accounts.csv" }, "By account and task, as CSV"))];
}

/** One task: what it trains, its rounds, seats, money, disputes, and what happened. */
export async function showTask(task) {
  const [found, rounds, disputes, lines] = await Promise.all([
    fetchJson(api(task)), fetchJson(api(task, "rounds?limit=50")), fetchJson(api(task, "disputes")),
    fetchJson(api(task, "lines?limit=30"))]);
  return [
    el("h1", {}, `Task ${short(task)}: ${found.phase}`),
    ...found.convicted.map((one) => showConviction(task, one)),
    showTraining(found),
    el("h2", {}, "Rounds"), showRounds(rounds.rounds), roundTable(task, rounds), olderRounds(task, rounds),
    el("p", {}, el("a", { href: api(task, "work.csv") }, "Who trained what, as CSV")),
    el("h2", {}, "Losses"), ...lossParts(rounds.rounds),
    el("h2", {}, "Disputes"), ...disputeTables(task, disputes),
    el("h2", {}, "Seats"), seatTable(found.seated),
    el("h2", {}, "Money"), ...moneyTables(found.money),
    el("h2", {}, "What happened"), showLines(lines.lines),
    lines.lines.length === 30 ? el("p", {}, link(["task", task, "lines"], "all that happened")) : null,
  ];
}

const reported = (...words) => el("span", { class: "reported" }, ...words);
const nats = (loss) => loss === null || loss === undefined ? null : loss.toFixed(3);
const limits = (distance) => distance >= 1e9 ? "10^9 or more" : distance.toPrecision(3);

function lossParts(rows) {
  const told = rows.find((row) => row.losses);
  if (!told) return [el("p", { class: "soft" }, "No node has reported a loss of these rounds.")];
  return [el("p", {}, reported("Reported: "), "each solver says and signs what the loss of its shard was, on average over its steps. ",
    `Nobody has proven it. Round ${told.round}: ${told.losses.claims} of ${told.claims} claims, mean ${nats(told.losses.mean)} nats.`),
  showLosses(rows)];
}

function showConviction(task, one) {
  const where = one.dispute ? link(["task", task, "dispute", one.dispute], "the dispute, move by move") : null;
  return el("section", { "aria-label": `conviction of ${one.name}` },
    el("p", { class: "bad" }, `${one.name} was convicted in block ${one.block} (${one.proof}): its stake of ${one.stake} is gone. `,
      `${one.finder} found it. `, where),
    one.number ? showNumber(one.number, one.name) : null);
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
    ["id", el("code", {}, found.task)], ["submitter", person(found.submitter)], ...what,
    ["an audit accepts ends that are", audits], ["rounds", `${found.rounds_opened} of ${found.rounds} opened`],
    ["escrow left", found.escrow], ["root of the model", hash(found.root)],
    ["stakes", `${found.amounts.solver_stake} a solver, ${found.amounts.auditor_stake} an auditor`],
    ["pay", `${found.amounts.solver_pay} a round and solver, ${found.amounts.audit_pay} a vote`],
  ]));
}

const roundTable = (task, rounds) => table(`Rounds, newest first (${rounds.total} opened)`, [
  ["round", (row) => link(["task", task, "round", String(row.round)], `round ${row.round}`)],
  ["stage", (row) => row.stage], ["opened in block", (row) => row.opened, true],
  ["closed", (row) => row.closed, true], ["solvers", (row) => row.solvers, true],
  ["claims", (row) => row.claims, true], ["votes", (row) => row.votes, true],
  ["merged", (row) => row.merged, true], ["loss, reported", (row) => row.losses ? reported(nats(row.losses.mean)) : null, true],
  ["root", (row) => hash(row.root)],
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
    ["dispute", (row) => link(["task", task, "dispute", row.dispute], short(row.dispute))],
    ["about", (row) => `${row.about}, segment ${row.segment}`], ["opened by", (row) => row.opener],
    ["stands at", (row) => el("span", { class: row.is_convicted ? "bad" : null }, STAGES[row.stage] || row.stage)],
    ["has to move", (row) => row.turn], ["up to block", (row) => row.until_block, true],
  ], found.disputes);
  const queries = !found.queries.length ? null : table("Open queries", [["opened by", (row) => row.asker], ["about", (row) => row.about],
    ["up to block", (row) => row.until_block, true]], found.queries);
  const contests = !found.contests.length ? null : table("Open contests of a root", [["contester", (row) => row.contester],
    ["round", (row) => row.round, true], ["turn", (row) => row.turn], ["up to block", (row) => row.until_block, true]], found.contests);
  return [rows, queries, contests];
}

const seatTable = (seats) => table("Seats of the task", [
  ["account", person], ["role", (row) => row.role],
  ["status", (row) => el("span", { class: row.status === "convicted" ? "bad" : null }, row.status)],
  ["stake", (row) => row.stake, true], ["earned, not settled", (row) => row.earned, true],
  ["settled", (row) => row.settled, true], ["lost", (row) => row.lost, true],
], seats);

function moneyTables(money) {
  const columns = [["account", person], ...money.columns.map((name) => [name === "earned" ? "earned, not settled" : name, (row) => row[name], true])];
  const why = [["account", person], ["what", (row) => row.kind], ["why", (row) => row.reason], ["amount", (row) => row.amount, true]];
  const burned = list(Object.entries(money.burned).map(([kind, amount]) => [`burned of ${kind}`, amount]));
  return [table("What each account has in this task", columns, money.accounts), table("Why", why, money.why), burned];
}

const showLines = (lines) => el("ol", { class: "lines" }, lines.map((one) =>
  el("li", {}, el("span", { class: "block" }, `block ${one.block}`), one.line)));

/** All lines of a task, a page at a time. */
export async function showAllLines(task, block, log) {
  const before = block ? `&block=${block}&log=${log}` : "";
  const { lines } = await fetchJson(api(task, `lines?limit=200${before}`));
  const last = lines[lines.length - 1];
  return [el("h1", {}, `What happened in task ${short(task)}`), showLines(lines),
    lines.length === 200 ? el("p", {}, link(["task", task, "lines", String(last.block), String(last.log)], "earlier")) : null];
}

/** One round: who trained, what became of it, who audited what. */
export async function showRound(task, number) {
  const found = await fetchJson(api(task, `rounds/${Number(number)}`));
  const draws = found.slots.flatMap((one) => (one.draws || []).map((draw) => ({ solver: one.name, ...draw })));
  const said = (rank) => (row) => {
    const one = row.ranks[rank];
    const bad = one.word && one.word.startsWith("REJECT");
    return el("span", {}, one.name, ": ", el("span", { class: bad ? "bad" : one.word === "ACCEPT" ? "good" : "soft" },
      one.word || "no vote"), one.is_opened ? ", opened" : "");
  };
  return [
    el("h1", {}, `Round ${found.round}: ${found.stage}`),
    list([["opened in block", found.opened], ["closed in block", found.closed], ["starts from", hash(found.base_root)],
      ["root", hash(found.root)], ["root signed by", found.signers.join(", ")],
      ["contests open up to block", found.contests_until]]),
    el("h2", {}, "Training"),
    table("Solvers of the round", [
      ["solver", person], ["shard", (row) => row.shard, true], ["segments", (row) => row.segments, true],
      ["claim", (row) => row.claim ? hash(row.claim) : "none"],
      ["status", (row) => el("span", { class: row.status === "accepted" ? "good" : row.status === "convicted" || row.status === "void" ? "bad" : null }, row.status || "")],
      ["merged", (row) => row.claim ? (row.is_merged ? "yes" : "no") : ""],
      ["loss, reported", (row) => row.loss ? reported(nats(row.loss.mean)) : null, true],
      ["first and last step", (row) => row.loss ? reported(`${nats(row.loss.first)}, ${nats(row.loss.last)}`) : null, true],
    ], found.slots),
    el("h2", {}, "Audits"),
    table("Drawn segments", [
      ["solver", (row) => row.solver], ["segment", (row) => row.segment, true], ["when", (row) => row.is_late ? "late" : "in the round"],
      ["primary", said(0)], ["first reserve", said(1)], ["second reserve", said(2)],
    ], draws, "nothing is drawn yet."),
    ...distanceParts(draws),
  ];
}

const ENDS = { EQUAL: "equal, bit for bit", OTHER: "not equal" };
const DELTAS = { ACCEPT: "equal", REJECT_DELTA: "not equal" };

function distanceParts(draws) {
  const rows = draws.flatMap((draw) => draw.ranks.filter((one) => one.reported).map((one) => ({ ...draw, auditor: one.name, ...one.reported })));
  const far = (name) => (row) => row.ends !== "MEASURED" ? null : el("span", { class: row[name] > 1 ? "bad" : null }, reported(limits(row[name])));
  const about = "What auditors report of the ends that they compared: the largest distances, where 1 is the task's limit";
  return [rows.length ? el("p", {}, reported("Reported: "), "each auditor signs what it measured, once the audits are over. Nobody has proven it.") : null,
    table(about, [
      ["solver", (row) => row.solver], ["segment", (row) => row.segment, true], ["auditor", (row) => row.auditor],
      ["ends", (row) => reported(ENDS[row.ends] || (Math.max(row.weights, row.first_moment, row.second_moment) > 1 ? "beyond the limits" : "inside the limits"))],
      ["weights W", far("weights"), true], ["first moment m", far("first_moment"), true], ["second moment v", far("second_moment"), true],
      ["pseudo-gradient", (row) => reported(DELTAS[row.word] || "not compared")],
    ], rows, "nothing is reported yet.")];
}

/** One dispute. */
export const showDispute = async (task, dispute) => showBoard(task, await fetchJson(api(task, "disputes", dispute)));
