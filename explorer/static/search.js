// The search: a field in the header that finds tasks, accounts, disputes, rounds and blocks.
import { fetchJson } from "/static/api.js";
import { el, link, table } from "/static/dom.js";

const field = document.getElementById("search");

/** Places that fit a text; a single one is gone to at once. */
export async function showSearch(text) {
  const { places } = await fetchJson(`/api/search?q=${encodeURIComponent(text || "")}`);
  if (places.length === 1) {
    location.replace("#/" + places[0].place.map(encodeURIComponent).join("/"));
  }
  return [el("h1", {}, `Search for ${text || "nothing"}`),
    table("Places that fit", [["kind", (row) => row.kind], ["place", (row) => link(row.place, row.name)]], places,
      "nothing fits. Search for an id, an account, a name, a round or a block.")];
}

/** Lets the field search. */
export function listenToSearch() {
  field.form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (text) location.hash = `#/search/${encodeURIComponent(text)}`;
    field.value = "";
    field.blur();
  });
}

/** Puts the cursor into the field. */
export const focusSearch = () => field.focus();
