// What the user likes and dislikes: the panel at the left, and how it is sent.

import { find, make, whole } from "./dom.js";
import { image, name } from "./item_parts.js";

export const USED = 2000; // items of a history, and of dislikes, that a request may have
const LISTED = 20_000; // items that a request may exclude

export const counted = (number) => `${whole(number)} item${number === 1 ? "" : "s"}`;

export function drawHistory({ history, dislikes, cleared, whose }, { hueOf, remove, undo }) {
  find("history").replaceChildren(...history.map((item) =>
    make("li", { "data-id": item.item_id },
      make("span", { class: "dot", "data-hue": hueOf(item.item_id), "aria-hidden": "true" }),
      image(item),
      name(item.name),
      make("button", { class: "quiet", type: "button", "aria-label": `Remove ${item.name}`, onclick: () => remove(item) }, "✕"),
    )));
  const from = whose ? [", from ", make("bdi", {}, whose)] : [];
  find("history-note").replaceChildren(...(history.length ? [counted(history.length), ...from] : []));
  const longest = Math.max(history.length, dislikes.length);
  find("used-note").textContent = longest > USED
    ? `The service uses at most ${whole(USED)} items: the newest ${whole(USED)} of ${whole(longest)} are used.` : "";
  find("disliked").replaceChildren(...dislikes.map((item) =>
    make("li", {},
      name(item.name),
      make("button", { class: "quiet", type: "button", "aria-label": `Undo: ${item.name}`, onclick: () => undo(item) }, "Undo"),
    )));
  find("disliked-part").hidden = dislikes.length === 0;
  find("clear").hidden = history.length + dislikes.length === 0;
  find("cleared").hidden = cleared === null;
  if (cleared) find("cleared-note").textContent = `${counted(cleared.history.length + cleared.dislikes.length)} cleared.`;
  find("start").hidden = history.length > 0;
}

export const newestFirst = (items) => items.map((item, k) => [item, k])
  .sort(([a, i], [b, j]) => (b.at ?? 0) - (a.at ?? 0) || (b.time ?? 0) - (a.time ?? 0) || j - i).map(([item]) => item);

// An item that was copied from a known user keeps its weight and its time; one that was picked here is of now.
function sent({ item_id, weight = 1, time = null }) {
  return weight === 1 && time === null ? item_id : { item_id, weight, time };
}

const ids = (items) => items.map((item) => item.item_id);

// Of a history that is too long the newest are sent. The older ones are not recommended either.
export function request({ history, dislikes }) {
  const body = { history: history.slice(0, USED).map(sent) };
  if (dislikes.length) body.dislikes = ids(dislikes.slice(0, USED));
  const left = [...history.slice(USED), ...dislikes.slice(USED)].slice(0, LISTED);
  if (left.length) body.exclude = ids(left);
  return body;
}
