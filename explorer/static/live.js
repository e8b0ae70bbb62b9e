// What the server tells while the page is open: the head, changes, and whether it and the chain still answer.
import { fetchJson } from "/static/api.js";
import { setClock } from "/static/clock.js";

// Seconds without a word after which the explorer counts as dead; it says something every few seconds.
const DEAD_S = 15;
let heard = Date.now();
let head = null;

function tell(text, isBad) {
  const place = document.getElementById("chain");
  if (place.textContent !== text) place.textContent = text;
  if (place.classList.toggle("bad", isBad)) document.getElementById("news").textContent = text;
}

function tellChain(now) {
  heard = Date.now();
  head = now.head;
  setClock(now.head, now.block_s);
  const number = now.head === null ? "none" : now.head.toLocaleString("en");
  if (now.fault) tell(`The chain's node is silent, this page is of block ${number}: ${now.fault}`, true);
  else tell(now.head === null ? "reading the chain" : `block ${number}`, false);
}

function tellDead() {
  tell(`This explorer does not answer; this page is of block ${head === null ? "unknown" : head.toLocaleString("en")}`, true);
}

// others: contracts that are not those of this version, with what differs; null before they were looked at.
function tellContracts(others, token) {
  const names = Object.keys(others || {});
  document.getElementById("warning").textContent = names.length ? "Move no token into this deployment: its contracts are not those of "
    + `this version, and who made them may take all tokens. ${names.map((one) => `${one} ${others[one]}`).join("; ")}.` : "";
  document.getElementById("contracts").textContent = others && !names.length
    ? `All contracts are those of this version of Touchstone. The token, ${token}, is a contract of others: nobody has checked it.` : "";
  return others !== null;
}

/** Listens without end. changed: called with the tasks that have changed, null if all may have. */
export function listen(changed) {
  const stream = new EventSource("/api/live");
  let areToldContracts = false;
  const ask = () => fetchJson("/api/status").then((now) => {
    tellChain(now);
    areToldContracts = tellContracts(now.other_contracts, now.token);
  });
  stream.onmessage = (message) => {
    const now = JSON.parse(message.data);
    tellChain(now);
    if (!areToldContracts) ask().catch(() => {});
    changed(now.tasks);
  };
  stream.onopen = () => ask().then(() => changed(null)).catch(() => {});
  stream.onerror = tellDead;
  setInterval(() => { if (Date.now() - heard > 1000 * DEAD_S) tellDead(); }, 1000);
}
