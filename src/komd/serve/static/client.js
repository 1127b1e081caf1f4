// Asks the service; a token, where one is needed, is asked for once and kept in this tab.

import { find } from "./dom.js";

const KEY = "komd-token";
const LONGEST = 20_000; // milliseconds after which an answer is not waited for any more
const PASSING = [0, 429, 502, 503, 504]; // what may be gone at the next attempt; 0 is no answer at all
const SILENT = "The service does not answer.";

// What went wrong, as a sentence, and after how many milliseconds the service wants to be asked again.
export class Problem extends Error {
  constructor(words, status, wait = 0) {
    super(sentence(words));
    this.passing = PASSING.includes(status);
    this.status = status;
    this.wait = wait;
  }
}

function sentence(words) {
  const text = words.trim();
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");
}

// Retry-After is a number of seconds or a date.
function waitOf(answer) {
  const given = answer.headers.get("retry-after");
  if (!given) return 0;
  const wait = /^\d+$/.test(given.trim()) ? 1000 * Number(given) : Date.parse(given) - Date.now();
  return Number.isFinite(wait) ? Math.max(0, wait) : 0;
}

export async function ask(path, { body, signal, method } = {}) {
  for (;;) {
    const token = sessionStorage.getItem(KEY)?.replace(/[^!-~]/g, ""); // what no header may have is in no token
    const headers = {};
    if (token) headers.authorization = `Bearer ${token}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    const timeout = AbortSignal.timeout(LONGEST);
    let answer;
    let found = null;
    try {
      answer = await fetch(path, {
        method: method ?? (body === undefined ? "GET" : "POST"),
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      });
      found = await answer.json();
    } catch (error) {
      if (signal?.aborted) throw error;
      if (!(error instanceof SyntaxError)) throw new Problem(SILENT, 0); // no connection, or too slow
    }
    if (answer.status === 401) {
      sessionStorage.removeItem(KEY);
      sessionStorage.setItem(KEY, await askForToken());
      continue;
    }
    if (answer.ok && found !== null) return found;
    const silent = [0, 502, 503, 504].includes(answer.status) || answer.ok; // a proxy answers for it, not in JSON
    throw new Problem(found?.detail ?? (silent ? SILENT : `The service answered ${answer.status}.`), answer.ok ? 502 : answer.status, waitOf(answer));
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
