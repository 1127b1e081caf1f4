// A text field with a list of suggestions, by the ARIA combobox pattern: arrows move, Enter takes, Escape closes.

import { find, make } from "./dom.js";
import { retried } from "./retry.js";

const WAIT = 60; // milliseconds to wait for the next letter

export function combobox(name, { search, show, take, empty }) {
  const input = find(`${name}-input`);
  const list = find(`${name}-list`);
  let found = [];
  let at = -1;
  let timer = 0;
  let turn = new AbortController();

  for (const [key, value] of Object.entries({
    role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id,
  })) input.setAttribute(key, value);

  function close() {
    turn.abort();
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    at = -1;
  }

  function mark(position) {
    at = position;
    [...list.children].forEach((option, k) => option.setAttribute("aria-selected", String(k === at)));
    const chosen = list.children[at];
    if (chosen) {
      input.setAttribute("aria-activedescendant", chosen.id);
      chosen.scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  }

  function choose(position) {
    const chosen = found[position];
    if (!chosen) return;
    input.value = "";
    close();
    take(chosen);
  }

  async function refresh() {
    turn.abort();
    const { signal } = (turn = new AbortController());
    const query = input.value;
    const trouble = (words) => { if (words !== null) draw([], words); };
    try {
      const answer = await retried(() => search(query, signal), { signal, trouble });
      if (!signal.aborted) draw(answer, empty, query);
    } catch (error) {
      if (!signal.aborted) draw([], error.message);
    }
  }

  // The options, or why there are none.
  function draw(options, words, query = "") {
    if (document.activeElement !== input) return;
    found = options;
    list.replaceChildren(
      ...found.map((one, k) =>
        make("li", {
          role: "option", id: `${name}-option-${k}`, "aria-selected": "false",
          onpointerdown: (event) => { event.preventDefault(); choose(k); },
        }, ...show(one)),
      ),
      ...(found.length ? [] : [make("li", { class: "nothing soft", role: "option", "aria-disabled": "true", "aria-selected": "false" }, words)]),
    );
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark(query && found.length ? 0 : -1);
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(refresh, WAIT);
  });
  input.addEventListener("focus", refresh);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", async (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) return refresh();
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (found.length) mark((at + step + found.length) % found.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(timer);
      if (at < 0 && input.value) await refresh();
      choose(at);
    } else if (event.key === "Escape") {
      if (list.hidden) input.value = "";
      close();
    }
  });
}
