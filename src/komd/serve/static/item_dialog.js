// The dialog of an item: its further columns, and what is similar to it and neither chosen nor disliked yet.

import { ask, id } from "./client.js";
import { find, make } from "./dom.js";
import { image, name, title } from "./item_parts.js";
import { retried } from "./retry.js";
import { pageOf, shown, webAddress } from "./web_address.js";

const LENGTH = 8;
const MOST = 1000; // the service lists no more

// Asks for a longer list as long as too few remain of it.
async function similarTo(item, taken, signal) {
  for (let n = LENGTH + Math.min(taken.size, 4 * LENGTH); ; n = Math.min(MOST, 4 * n)) {
    const { items } = await ask(`/v1/items/${id(item.item_id)}/similar?n=${n}`, { signal });
    const left = items.filter((one) => !taken.has(one.item_id)).slice(0, LENGTH);
    if (left.length === LENGTH || items.length < n || n === MOST) return left;
  }
}

function details(item) {
  const page = pageOf(item);
  const rows = Object.entries(item.details ?? {}).map(([column, value]) => {
    const address = webAddress(value);
    const linked = address && (address.href === page || value.length < 500);
    return make("div", {}, make("dt", {}, make("bdi", {}, column)), make("dd", { dir: "auto", title: address ? value : null },
      linked ? make("a", { href: address.href, target: "_blank", rel: "noopener noreferrer" }, shown(value)) : shown(value)));
  });
  return rows.length ? make("dl", {}, ...rows) : null;
}

export function itemDialog({ taken, add }) {
  const dialog = find("similar");
  let turn = new AbortController();

  function draw(item, items, words = "") {
    find("similar-title").replaceChildren(make("bdi", {}, item.name));
    find("similar-about").replaceChildren(...[image(item), details(item)].filter(Boolean));
    const most = Math.max(...items.map((one) => one.similarity), 0);
    find("similar-list").replaceChildren(...items.map((one) => make("li", {},
      image(one),
      make("div", { class: "name" }, title(one, open),
        make("span", { class: "likeness" }, make("span", { style: { width: `${most > 0 ? (100 * one.similarity) / most : 0}%` } }))),
      make("span", { class: "number soft" }, one.similarity.toFixed(2)),
      make("button", { class: "plain", type: "button", "aria-label": `Add ${one.name}`, onclick: () => { dialog.close(); add(one); } }, "Add"))));
    find("similar-note").textContent = words;
    if (!dialog.open) dialog.showModal();
    find("similar-title").focus();
    dialog.scrollTop = 0;
  }

  async function open(item) {
    turn.abort();
    const { signal } = (turn = new AbortController());
    const trouble = (words) => { if (words !== null) draw(item, [], words); };
    try {
      const items = await retried(() => similarTo(item, taken(), signal), { signal, trouble });
      draw(item, items, items.length ? "" : "Nothing else is similar to it.");
    } catch (error) {
      if (!signal.aborted) draw(item, [], error.message);
    }
  }

  dialog.addEventListener("close", () => turn.abort());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  return open;
}
