// When a block was, or will be, in the words of a clock: by the head and the block time of the last blocks.
import { el } from "/static/dom.js";

const now = { head: null, blockS: null };
const STEPS = [[60, 1, "s"], [3600, 60, "min"], [86400, 3600, "h"], [Infinity, 86400, "d"]];

function words(seconds) {
  if (seconds < 60) return "less than a minute";
  const [, unit, name] = STEPS.find(([below]) => seconds < below);
  return `${Math.round(seconds / unit)} ${name}`;
}

function phrase(block) {
  const number = `block ${block.toLocaleString("en")}`;
  if (now.head === null || now.blockS === null) return number;
  const left = (block - now.head) * now.blockS;
  return left > 0 ? `in about ${words(left)} (${number})`.replace("about less", "less") : `${words(-left)} ago`;
}

/** When a block was or will be; its number on hover. */
export const when = (block) => block === null || block === undefined ? null
  : el("time", { "data-block": String(block), title: `block ${block.toLocaleString("en")}` }, phrase(block));

/** Takes a newer head, and brings all shown times up to it. */
export function setClock(head, blockS) {
  [now.head, now.blockS] = [head ?? now.head, blockS ?? now.blockS];
  refresh();
}

/** Brings all shown times up to the head. */
export function refresh() {
  for (const one of document.querySelectorAll("time[data-block]")) {
    const text = phrase(Number(one.dataset.block));
    if (one.textContent !== text) one.textContent = text;
  }
}
