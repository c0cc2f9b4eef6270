// Requests to the server. The token of the printed address, which a change requires, stays in this tab.

const KEY = "traingrid-token";

/** Keep the token of the address, and remove it from the address bar and the history. */
export function keepToken() {
  const token = new URLSearchParams(location.search).get("token");
  if (token) {
    sessionStorage.setItem(KEY, token);
    history.replaceState(null, "", location.pathname + location.hash);
  }
}

/** Return the JSON of an answer. Throws an Error with a sentence for the user. */
async function answerOf(promise) {
  let answer;
  try {
    answer = await promise;
  } catch {
    throw new Error("The server does not answer. Is `traingrid ui` still running? If you have signed in, reload the page.");
  }
  if (answer.headers.get("content-type")?.startsWith("application/json")) {
    const content = await answer.json();
    if (answer.ok) return content;
    throw new Error([content.error, content.next_step].filter(Boolean).join(" "));
  }
  throw new Error(answer.status === 403 ? (await answer.text()).trim() : `The server answered with ${answer.status}.`);
}

export const get = (path) => answerOf(fetch(path));
export const post = (path, body) => answerOf(fetch(path, {
  method: "POST",
  headers: { "content-type": "application/json", "x-traingrid-token": sessionStorage.getItem(KEY) ?? "" },
  body: JSON.stringify(body),
}));
