// How good the model is: what nodes report of held-out losses and of their shards.
import { showHeldout, showLosses } from "/static/chart.js";
import { capital, el, nats, reported, table } from "/static/dom.js";

/** A loss with its standard error. */
export const withError = (one) => one.loss === null ? "diverged"
  : `${nats(one.loss)}${one.error === null || one.error === undefined ? "" : ` ± ${nats(one.error)}`}`;

/** A line on how good the model is, and a warning if it gets worse. */
export function progressParts(progress) {
  if (!progress.line) return [];
  return [el("p", { class: "lead" }, reported(`${capital(progress.line)}.`)),
    progress.warning ? el("p", { class: "bad", role: "note" }, `${capital(progress.warning)}.`) : null];
}

/** The held-out loss of each model: a chart and a table. */
export function heldoutParts(progress) {
  if (!progress.losses.length) return [el("p", { class: "soft" }, "No node has reported a loss on the held-out tokens.")];
  const spread = (one) => one.reports < 2 || one.lowest === null || one.highest === null ? ""
    : `${nats(one.lowest)} to ${nats(one.highest)}`;
  return [el("p", {}, reported("Reported: "), "the submitter and the solvers measure each model on tokens that nobody trains on. ",
    "Lower is better. Nobody has proven it."),
  showHeldout(progress.losses),
  table("Held-out loss of each model, in nats, with its standard error", [
    ["model", (one) => one.model], ["held-out loss", (one) => reported(withError(one)), true],
    ["said by", (one) => one.is_submitters ? "the submitter" : "the solvers' median", false, true],
    ["reports", (one) => one.reports, true, true], ["from lowest to highest", spread, true, true],
  ], [...progress.losses].reverse())];
}

/** The mean loss of each round's shards. rows: newest first. */
export function shardParts(rows) {
  const told = rows.find((row) => row.losses);
  if (!told) return [el("p", { class: "soft" }, "No node has reported a loss of these rounds.")];
  const left = rows.filter((row) => row.losses && row.losses.void.length);
  return [el("p", {}, reported("Reported: "), "each solver says and signs what the loss of its shard was, on average over its steps. ",
    `Nobody has proven it. Round ${told.round}: ${told.losses.claims} of ${told.claims} claims count, mean ${nats(told.losses.mean) ?? "none"} nats.`),
  showLosses(rows),
  left.length ? el("p", {}, "Left out of the means, because their claims do not count: ",
    left.map((row) => `round ${row.round}: ${row.losses.void.map((shard) =>
      `shard ${shard} (${nats(row.losses.by_shard[shard]) ?? "no report"}, does not count)`).join(", ")}`).join("; "), ".") : null];
}
