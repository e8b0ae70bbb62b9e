// One round: who trained, what became of it, who audited what.
import { api, fetchJson } from "/static/api.js";
import { when } from "/static/clock.js";
import { el, hash, link, list, nats, person, reported, table } from "/static/dom.js";

/** One round: who trained, what became of it, who audited what. */
export async function showRound(task, number) {
  const found = await fetchJson(api(task, `rounds/${Number(number)}`));
  const draws = found.slots.flatMap((one) => (one.draws || []).map((draw) => ({ solver: one, ...draw })));
  const said = (rank) => (row) => {
    const one = row.ranks[rank];
    const bad = one.word && one.word.startsWith("REJECT");
    return el("span", {}, person(one), ": ", el("span", { class: bad ? "bad" : one.word === "ACCEPT" ? "good" : "soft" },
      one.word || one.why_none), one.is_opened ? ", opened" : "");
  };
  const isVoid = (row) => (found.losses?.void || []).includes(row.shard);
  return [
    el("h1", {}, `Round ${found.round}: ${found.stage}`),
    list([["opened", when(found.opened)], ["closed", when(found.closed)], ["starts from", hash(found.base_root)],
      ["root", hash(found.root)], ["root signed by", found.signers.length ? el("span", {}, found.signers.flatMap((one, at) => [at ? ", " : null, person(one)])) : null],
      ["contests end", when(found.contests_until)]]),
    el("h2", {}, "Training"),
    table("Solvers of the round", [
      ["solver", person], ["shard", (row) => row.shard, true, true], ["segments", (row) => row.segments, true, true],
      ["claim", (row) => row.claim ? hash(row.claim) : "none", false, true],
      ["status", (row) => el("span", { class: row.status === "accepted" ? "good" : row.status === "convicted" || row.status === "void" ? "bad" : null }, row.status || "")],
      ["merged", (row) => row.claim ? (row.is_merged ? "yes" : "no") : ""],
      ["loss, reported", (row) => row.loss ? reported(nats(row.loss.mean), isVoid(row) ? ", does not count" : "") : null, true],
      ["first and last step", (row) => row.loss ? reported(`${nats(row.loss.first)}, ${nats(row.loss.last)}`) : null, true, true],
    ], found.slots),
    el("h2", {}, "Audits"),
    table("Drawn segments", [
      ["solver", (row) => person(row.solver)], ["segment", (row) => row.segment, true], ["when", (row) => row.is_late ? "late" : "in the round", false, true],
      ["primary", said(0)], ["first reserve", said(1), false, true], ["second reserve", said(2), false, true],
    ], draws, "nothing is drawn yet."),
    ...distanceParts(draws),
  ];
}

const limits = (distance) => distance >= 1e9 ? "10^9 or more" : distance.toPrecision(3);
const ENDS = { EQUAL: "equal, bit for bit", OTHER: "not equal" };
const DELTAS = { ACCEPT: "equal", REJECT_DELTA: "not equal" };

function distanceParts(draws) {
  const rows = draws.flatMap((draw) => draw.ranks.filter((one) => one.reported).map((one) => ({ ...draw, auditor: one, ...one.reported })));
  const far = (name) => (row) => row.ends !== "MEASURED" ? null : el("span", { class: row[name] > 1 ? "bad" : null }, reported(limits(row[name])));
  const about = "What auditors report of the ends that they compared: the largest distances, where 1 is the task's limit";
  return [rows.length ? el("p", {}, reported("Reported: "), "each auditor signs what it measured, once the audits are over. Nobody has proven it.") : null,
    table(about, [
      ["solver", (row) => person(row.solver)], ["segment", (row) => row.segment, true], ["auditor", (row) => person(row.auditor)],
      ["ends", (row) => reported(ENDS[row.ends] || (Math.max(row.weights, row.first_moment, row.second_moment) > 1 ? "beyond the limits" : "inside the limits"))],
      ["weights W", far("weights"), true], ["first moment m", far("first_moment"), true], ["second moment v", far("second_moment"), true],
      ["pseudo-gradient", (row) => reported(DELTAS[row.word] || "not compared")],
    ], rows, "nothing is reported yet.")];
}
