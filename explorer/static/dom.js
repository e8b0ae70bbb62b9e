// Builds elements. All text goes in as text: nothing that comes from the chain is ever read as HTML.

/** An element with attributes and children; a child that is no node becomes text, null is left out. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(2).filter((one) => one !== null && one !== undefined && one !== false));
  return made;
}

/** A link inside of the page. */
export const link = (parts, text) => el("a", { href: "#/" + parts.map(encodeURIComponent).join("/") }, text);

/** The first digits of a hash, all of them on hover and for a screen reader, and a button that copies them. */
export function hash(value) {
  if (!value) return el("span", { class: "soft" }, "none");
  const shown = value.length > 20 ? value.slice(0, 14) + "…" : value;
  return el("span", { class: "hash" }, el("code", { title: value }, shown),
    el("button", { type: "button", class: "copy", "data-copy": value, "aria-label": `copy ${value}`, title: "copy" }));
}

/** An account by its name, linked to its page. */
export function person(one) {
  const name = one.name || one.account || "?";
  return one.account && one.account.length === 42 ? el("span", { title: one.account }, link(["accounts", one.account], name)) : el("span", {}, name);
}

// Tables of which a visitor with a narrow window wants all columns, by caption.
const whole = new Set();

/** A table with a caption and headings. columns: [heading, cell(row), is it a number, is it left out on a phone]. */
export function table(caption, columns, rows, empty = "None yet.") {
  if (!rows.length) return el("p", { class: "soft" }, `${caption}: ${empty}`);
  const kind = (isNumber, isMinor) => [isNumber && "number", isMinor && "minor"].filter(Boolean).join(" ") || null;
  const head = columns.map(([title, , isNumber, isMinor]) => el("th", { scope: "col", class: kind(isNumber, isMinor) }, title));
  const body = rows.map((row) => el("tr", {}, columns.map(([, cell, isNumber, isMinor]) =>
    el("td", { class: kind(isNumber, isMinor) }, asChild(cell(row))))));
  const made = el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
  const hasMinor = columns.some(([, , , isMinor]) => isMinor);
  return el("div", { class: whole.has(caption) ? "columns whole" : "columns" },
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, made),
    hasMinor ? el("button", { type: "button", class: "more", "data-caption": caption }, "all columns") : null);
}

/** Shows all columns of a table on a narrow window, or the few again. */
export function toggleColumns(button) {
  const isWhole = button.parentElement.classList.toggle("whole");
  whole[isWhole ? "add" : "delete"](button.dataset.caption);
}

/** An amount without its unit, which the caption has; zero is dimmed. */
export function amount(text) {
  const number = text.replace(/ tokens$/, "");
  return number === "0" ? el("span", { class: "zero" }, "0") : number;
}

/** Names with values; a name without a value is left out. */
export const list = (pairs) => el("dl", {}, pairs.filter(([, value]) => value !== null && value !== undefined)
  .flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, asChild(value))]));

/** A text that begins with a capital letter. */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** What nodes say of their own work. */
export const reported = (...words) => el("span", { class: "reported" }, ...words);

/** A loss in nats. */
export const nats = (loss) => loss === null || loss === undefined ? null : loss.toFixed(3);

function asChild(value) {
  return value === null || value === undefined ? "" : typeof value === "number" ? value.toLocaleString("en") : value;
}
