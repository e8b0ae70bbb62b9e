// One dispute as a board: the moves of both sides in order, down to the one number.
import { api, fetchJson } from "/static/api.js";
import { when } from "/static/clock.js";
import { showConviction, showNumber } from "/static/conviction.js";
import { el, hash, link, list, person } from "/static/dom.js";

const TITLES = {
  DisputeOpened: ["The dispute is opened", "opener"],
  StepRootsPosted: ["The accused posts its states", "claimant"],
  StepNamed: ["The opener names the first wrong step", "opener"],
  TracePosted: ["The accused posts the root over all numbers of that step", "claimant"],
  LeafDemanded: ["The opener demands a leaf", "opener"],
  LeavesDue: ["The accused owes the leaves", "opener"],
  LeafShown: ["The accused shows a leaf", "claimant"],
  DisputeEnded: ["The end", "end"],
};
/** Where a dispute stands, in words. */
export const STAGES = {
  ROOTS: "states are due", NAME: "a step is to be named", TRACE: "the step's root is due", PROVE: "a proof is due",
  LEAVES: "leaves are due", LAST: "a last proof is due", CLEARED: "over: the statement stands", CONVICTED: "convicted",
  MOOT: "over: nothing is left to dispute",
};
const NEXT = {
  ROOTS: "the states after each step of the segment", NAME: "which step is the first wrong one",
  TRACE: "the root over all numbers of the step", PROVE: "a proof of one number, or a demand for leaves",
  LEAVES: "the leaves that were demanded", LAST: "a proof of one number",
};

function showBoard(task, found) {
  return [
    el("h1", {}, `${found.opener} disputes ${found.about}, segment ${found.segment}`),
    list([
      ["round", link(["task", task, "round", String(found.round)], `round ${found.round}`)],
      ["stands at", el("span", { class: found.is_convicted ? "bad" : null }, STAGES[found.stage] || found.stage)],
      ["accused", person({ name: found.claimant, account: found.claimant_account })],
      ["opened by", person({ name: found.opener, account: found.opener_account })],
    ]),
    ...found.convicted.map((one) => showConviction(one, false)),
    found.number ? showNumber(found.number, found.claimant) : null,
    el("h2", {}, "Move by move"),
    el("p", { class: "soft" }, "Both sides narrow it down: first to a step, then to one number, which the contract computes itself. ",
      "Several accounts may dispute the same statement, each with a bond of its own: nobody has to rely on another one. The first that ends convicts."),
    el("ol", { class: "board" }, found.moves.map((move) => showMove(move, found)), nextMove(found)),
  ];
}

function showMove(move, found) {
  const [title, side] = TITLES[move.name] || [move.name, "end"];
  return el("li", { class: side },
    el("h3", {}, title),
    move.line ? el("p", {}, move.line) : null,
    move.name === "StepRootsPosted" ? showStates(found) : null,
    move.name === "TracePosted" ? el("p", {}, hash(found.trace)) : null,
    el("p", { class: "soft" }, `block ${move.block}, `, when(move.block), ", transaction ", hash(move.transaction)));
}

// The state after the named step is the first one that the opener says is wrong.
function showStates(found) {
  const wrong = found.step === null ? -1 : found.step + 1;
  const name = (at) => at === 0 ? "before step 0" : `after step ${at - 1}`;
  return el("ol", { class: "states", "aria-label": "states of the segment" }, found.states.map((root, at) =>
    el("li", { class: at === wrong ? "first-wrong" : null },
      `${name(at)}: `, hash(root), at === wrong ? " first wrong one, says the opener" : null)));
}

function nextMove(found) {
  if (!found.turn) return null;
  return el("li", { class: "next" }, el("h3", {}, `${found.turn} has to move`),
    el("p", {}, `Expected: ${NEXT[found.stage] || ""}, `, when(found.until_block), " at the latest."));
}

/** The page of one dispute. */
export const showDispute = async (task, dispute) => showBoard(task, await fetchJson(api(task, "disputes", dispute)));
