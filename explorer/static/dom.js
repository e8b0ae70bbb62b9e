// Builds elements. All text goes in as text: nothing that comes from the chain is ever read as HTML.

/** An element with attributes and children; a child that is no node becomes text, null is left out. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((one) => one !== null && one !== undefined && one !== false));
  return made;
}

/** A link inside of the page. */
export const link = (parts, text) => el("a", { href: "#/" + parts.map(encodeURIComponent).join("/") }, text);

/** The first digits of a hash, with all of them on hover and for a screen reader. */
export function hash(value) {
  if (!value) return el("span", { class: "soft" }, "none");
  return el("code", { title: value, "aria-label": value }, value.length > 20 ? value.slice(0, 14) + "…" : value);
}

/** An account by its name. */
export const person = (one) => el("span", { title: one.account || null }, one.name || one.account || "?");

/** A table with a caption and headings. columns: [heading, cell(row), is it a number]. */
export function table(caption, columns, rows, empty = "None yet.") {
  if (!rows.length) return el("p", { class: "soft" }, `${caption}: ${empty}`);
  const head = columns.map(([title, , isNumber]) => el("th", { scope: "col", class: isNumber ? "number" : null }, title));
  const body = rows.map((row) => el("tr", {}, columns.map(([, cell, isNumber]) =>
    el("td", { class: isNumber ? "number" : null }, asChild(cell(row))))));
  const made = el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, made);
}

/** An amount without its unit, which the caption has; zero is dimmed. */
export function amount(text) {
  const number = text.replace(/ tokens$/, "");
  return number === "0" ? el("span", { class: "zero" }, "0") : number;
}

/** Names with values. */
export const list = (pairs) => el("dl", {}, pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, asChild(value))]));

function asChild(value) {
  return value === null || value === undefined ? "" : typeof value === "number" ? value.toLocaleString("en") : value;
}

/** The first digits of a task's id. */
export const short = (task) => task.slice(0, 14);

/** What nodes say of their own work. */
export const reported = (...words) => el("span", { class: "reported" }, ...words);

/** A loss in nats. */
export const nats = (loss) => loss === null || loss === undefined ? null : loss.toFixed(3);
