// One dispute as a board: the moves of both sides in order, down to the one number.
import { api, fetchJson } from "/static/api.js";
import { el, hash, link, list } from "/static/dom.js";

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
      ["stands at", el("span", { class: found.is_convicted ? "bad" : null }, STAGES[found.stage] || found.stage)],
      ["accused", found.claimant], ["opened by", found.opener],
      ["round", link(["task", task, "round", String(found.round)], `round ${found.round}`)],
    ]),
    found.number ? showNumber(found.number, found.claimant) : null,
    ...found.convicted.map((one) => el("p", { class: "bad" },
      `${one.name} is convicted (${one.proof}): its stake of ${one.stake} is gone. ${one.finder} found it.`)),
    el("h2", {}, "Move by move"),
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
    el("p", { class: "soft" }, `block ${move.block}, transaction `, hash(move.transaction)));
}

// The state after the named step is the first one that the opener says is wrong.
function showStates(found) {
  const wrong = found.step === null ? -1 : found.step + 1;
  return el("ol", { class: "states", "aria-label": "states of the segment" }, found.states.map((root, at) =>
    el("li", { class: at === wrong ? "first-wrong" : null },
      `${at}: `, hash(root), at === wrong ? " first wrong one, says the opener" : null)));
}

function nextMove(found) {
  if (!found.turn) return null;
  return el("li", { class: "next" }, el("h3", {}, `${found.turn} has to move`),
    el("p", {}, `Expected: ${NEXT[found.stage] || ""}, up to block ${found.until_block}.`));
}

/** The number by which a seat was convicted, with all that the contract computed it from. */
export function showNumber(number, who) {
  const verdict = number.is_fault ? "outside: a fault" : "inside the bound";
  return el("section", { class: "verdict", "aria-label": "the number" },
    el("h2", {}, `The one number: element ${number.element} of node ${number.node} (${number.operation})`),
    el("p", { class: "formula" }, number.formula),
    list([
      [`claimed by ${who}`, number.claimed], ["exact value", number.exact_shown],
      ["allowed distance", number.bound_shown], ["its distance", number.distance_shown || "not a number"],
      ["verdict", el("span", { class: number.is_fault ? "bad" : "good" }, verdict)],
    ]),
    number.operands.length > 1 ? el("details", {}, el("summary", {}, `all ${number.operands.length} terms`),
      el("ol", {}, number.operands.map((term) => el("li", {}, el("code", {}, term.join(" and ")))))) : null);
}

/** The page of one dispute. */
export const showDispute = async (task, dispute) => showBoard(task, await fetchJson(api(task, "disputes", dispute)));
