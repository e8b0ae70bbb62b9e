// What the server answers.

/** JSON of this server. */
export async function fetchJson(path) {
  let response;
  try {
    response = await fetch(path);
  } catch {
    throw new Error("The explorer does not answer. Was it ended? Start it again, and this page goes on.");
  }
  if (response.status === 404) throw new Error("There is no such task, round, dispute or account on this chain.");
  if (!response.ok) throw new Error(`The explorer answers ${response.status} for ${path}.`);
  return response.json();
}

/** The path of a part of a task. */
export const api = (task, ...rest) => ["/api/tasks", task, ...rest].join("/");
