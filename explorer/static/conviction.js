// A conviction in sentences, and the number that decided it.
import { el, link, list } from "/static/dom.js";

/** A conviction as a card. isLinked: with a link to its dispute. */
export function showConviction(one, isLinked = true) {
  return el("section", { class: "verdict", "aria-label": `conviction of ${one.name}` },
    el("p", { class: "headline" }, el("strong", {}, one.headline)),
    el("p", {}, one.story.join(" ")),
    el("p", {}, isLinked && one.dispute ? [link(["task", one.task, "dispute", one.dispute], "the dispute, move by move"), " · "] : null,
      el("a", { href: one.page }, "a page to pass on")));
}

/** The number by which a seat was convicted, with all that the contract computed it from. */
export function showNumber(number, who) {
  const verdict = number.is_fault ? "outside: a fault" : "inside the bound";
  return el("section", { class: "verdict", "aria-label": "the number" },
    el("h2", {}, "The one number"),
    el("p", { class: "formula" }, number.formula),
    list([
      [`claimed by ${who}`, number.claimed], ["exact value", number.exact_shown],
      ["allowed distance", number.bound_shown], ["its distance", number.distance_shown || "not a number"],
      ["verdict", el("span", { class: number.is_fault ? "bad" : "good" }, verdict)],
    ]),
    el("details", {}, el("summary", {}, "details"), el("p", {}, `Element ${number.element} of node ${number.node} (${number.operation}) of the step's program.`)),
    number.operands.length > 1 ? el("details", {}, el("summary", {}, `all ${number.operands.length} terms`),
      el("ol", {}, number.operands.map((term) => el("li", {}, el("code", {}, term.join(" and ")))))) : null);
}
