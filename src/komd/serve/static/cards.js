// The recommendations, each a card.

import { digitsFor, make, whole } from "./dom.js";
import { image, summary, title } from "./item_parts.js";
import { partsOf, positive, why } from "./reasons.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");

// `best` is the best score that any item gets for this history; `before` has the ranks in the list before, if there was one.
export function drawCards(place, answer, { before, best, hueOf, add, dislike, open }) {
  const parts = answer.items.map((row) => (answer.fallback ? [] : partsOf(row, hueOf)));
  const longest = Math.max(...parts.map(positive), 0);
  const digits = digitsFor(Math.max(...answer.items.map((row) => Math.abs(row.score)), 0));
  const opened = new Set([...place.querySelectorAll("details[open]")].map((one) => one.closest("li").dataset.id));
  const fresh = !place.children.length || place.dataset.fallback === "yes";
  const from = new Map([...place.children].map((card) => [card.dataset.id, card.getBoundingClientRect()]));
  const focus = heldIn(place);
  place.dataset.fallback = answer.fallback ? "yes" : "no";
  place.replaceChildren(
    ...answer.items.map((row, k) => {
      const shown = opened.has(row.item_id) || (k === 0 && fresh);
      const reasons = answer.fallback ? null : why(row, parts[k], { digits, longest, best, shown });
      return card(row, reasons, { moved: movement(row, before), add, dislike, open });
    }),
  );
  if (focus) giveBack(place, focus);
  if (!still.matches && from.size) settle(place, from);
}

// Drawing the cards anew takes the focus from them: it goes to the same control of the same card, or of the one that
// took its place.
function heldIn(place) {
  const held = document.activeElement;
  if (!place.contains(held)) return null;
  const card = held.closest("li");
  return { id: card.dataset.id, at: [...place.children].indexOf(card), act: held.dataset.act };
}

function giveBack(place, { id, at, act }) {
  const cards = [...place.children];
  const card = cards.find((one) => one.dataset.id === id) ?? cards[Math.min(at, cards.length - 1)];
  const control = card?.querySelector(`[data-act="${act}"]`) ?? card?.querySelector("[data-act]") ?? place.closest("section");
  control.focus({ preventScroll: true });
}

// Cards glide from where they were; new ones fade in.
function settle(place, from) {
  for (const element of place.children) {
    const was = from.get(element.dataset.id);
    const rise = was ? was.top - element.getBoundingClientRect().top : 0;
    if (was && rise === 0) continue;
    const start = was ? { transform: `translateY(${rise}px)` } : { opacity: 0, transform: "translateY(8px)" };
    element.animate([start, { opacity: 1, transform: "none" }], { duration: 260, easing: "cubic-bezier(.2,.8,.2,1)" });
  }
}

function movement(row, before) {
  if (!before) return null;
  const was = before.get(row.item_id);
  if (was === undefined) return { text: "new", kind: "new", title: "new in the list" };
  if (was === row.rank) return null;
  const up = was > row.rank;
  const places = Math.abs(was - row.rank);
  return { text: (up ? "▲" : "▼") + places, kind: up ? "up" : "down", title: `${up ? "up" : "down"} ${places}` };
}

function card(row, reasons, { moved, add, dislike, open }) {
  return make("li", { class: "card", "data-id": row.item_id },
    make("div", { class: "line" },
      make("span", { class: "rank", "aria-hidden": "true" }, String(row.rank)),
      image(row),
      make("div", { class: "title" },
        make("h3", {}, title(row, open), moved && make("span", { class: `moved ${moved.kind}`, title: moved.title }, moved.text)),
        make("p", { class: "soft note about" }, summary(row),
          make("span", {}, `chosen by ${whole(row.popularity)} ${row.popularity === 1 ? "user" : "users"}`)),
      ),
      make("div", { class: "actions" },
        make("button", { class: "plain", type: "button", "data-act": "similar", "aria-label": `Similar to ${row.name}`, onclick: () => open(row) },
          make("span", { class: "wide" }, "Similar"), make("span", { class: "narrow" }, "≈")),
        make("button", { class: "plain dislike", type: "button", "data-act": "dislike", "aria-label": `Not for me: ${row.name}`, onclick: () => dislike(row) },
          make("span", { class: "wide" }, "Not for me"), make("span", { class: "narrow" }, "✕")),
        make("button", { class: "main", type: "button", "data-act": "add", "aria-label": `Add ${row.name}`, onclick: () => add(row) }, "Add"),
      ),
    ),
    reasons,
  );
}
