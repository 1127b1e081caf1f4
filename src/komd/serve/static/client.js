// Asks the service; a token, where one is needed, is asked for once and kept in this tab.

import { find } from "./dom.js";

const KEY = "komd-token";

export class Problem extends Error {}

export async function ask(path, { body, signal, method } = {}) {
  for (;;) {
    const token = sessionStorage.getItem(KEY);
    const headers = {};
    if (token) headers.authorization = `Bearer ${token}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    const answer = await fetch(path, {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
    if (answer.status === 401) {
      sessionStorage.removeItem(KEY);
      sessionStorage.setItem(KEY, await askForToken());
      continue;
    }
    const found = await answer.json();
    if (!answer.ok) throw new Problem(found.detail ?? `the service answered ${answer.status}`);
    return found;
  }
}

let asking = null;

function askForToken() {
  asking ??= new Promise((resolve) => {
    const dialog = find("token");
    dialog.addEventListener("close", () => {
      asking = null;
      resolve(find("token-input").value);
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

export const id = (text) => encodeURIComponent(text);
