// The recommendations: each a card with its score as a bar, made of the parts that each item of the history adds
// and that dislikes take away.

import { digitsFor, make, signed, whole } from "./dom.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");

// The parts that sum to a score: what each item adds, the other items together, and the global term.
export function partsOf(row, hueOf) {
  const { contributions, others, global_term } = row.why;
  const found = contributions.map((part) => ({
    name: part.disliked ? `because you dislike ${part.name}` : part.name, value: part.contribution, hue: hueOf(part.item_id),
  }));
  if (others.items) found.push({ name: `${whole(others.items)} other item${others.items > 1 ? "s" : ""}`, value: others.contribution, hue: "rest" });
  if (global_term !== 0) found.push({ name: "what you did not choose", value: global_term, hue: "pull" });
  return found;
}

const positive = (all) => all.reduce((sum, part) => sum + Math.max(0, part.value), 0);

export function drawCards(place, answer, before, { hueOf, add, dislike, similar }) {
  const parts = answer.items.map((row) => (answer.fallback ? [] : partsOf(row, hueOf)));
  const longest = Math.max(...parts.map(positive), 0);
  const digits = digitsFor(Math.max(...answer.items.map((row) => Math.abs(row.score)), 0));
  const open = new Set([...place.querySelectorAll("details[open]")].map((one) => one.closest("li").dataset.id));
  const fresh = !place.children.length || place.dataset.fallback === "yes";
  const from = new Map([...place.children].map((card) => [card.dataset.id, card.getBoundingClientRect()]));
  place.dataset.fallback = answer.fallback ? "yes" : "no";
  place.replaceChildren(
    ...answer.items.map((row, k) => {
      const shown = open.has(row.item_id) || (k === 0 && fresh);
      return card(row, parts[k], { digits, longest, shown, moved: movement(row, before), fallback: answer.fallback, add, dislike, similar });
    }),
  );
  if (!still.matches && from.size) settle(place, from);
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

function card(row, parts, { digits, longest, shown, moved, fallback, add, dislike, similar }) {
  const about = Object.values(row.details)[0];
  const details = `${about ? `${about.slice(0, 60)} · ` : ""}chosen by ${whole(row.popularity)} ${row.popularity === 1 ? "user" : "users"}`;
  return make("li", { class: "card", "data-id": row.item_id },
    make("div", { class: "line" },
      make("span", { class: "rank", "aria-hidden": "true" }, String(row.rank)),
      make("div", { class: "title" },
        make("h3", {}, row.name, moved && make("span", { class: `moved ${moved.kind}`, title: moved.title }, moved.text)),
        make("p", { class: "soft note" }, details),
      ),
      make("div", { class: "actions" },
        make("button", { class: "plain", type: "button", "aria-label": `Similar to ${row.name}`, onclick: () => similar(row) },
          make("span", { class: "wide" }, "Similar"), make("span", { class: "narrow" }, "≈")),
        make("button", { class: "plain dislike", type: "button", "aria-label": `Not for me: ${row.name}`, onclick: () => dislike(row) },
          make("span", { class: "wide" }, "Not for me"), make("span", { class: "narrow" }, "✕")),
        make("button", { class: "main", type: "button", "aria-label": `Add ${row.name}`, onclick: () => add(row) }, "Add"),
      ),
    ),
    fallback ? null : why(row, parts, { digits, longest, shown }),
  );
}

function why(row, parts, { digits, longest, shown }) {
  const share = (value) => `${longest > 0 ? (100 * value) / longest : 0}%`;
  const up = positive(parts);
  const subtracted = up - row.score;
  const bar = make("span", { class: "bar", "aria-hidden": "true" },
    ...parts.filter((part) => part.value > 0).map((part) =>
      make("span", { class: "piece", "data-hue": part.hue, title: `${part.name} ${signed(part.value, digits)}`, style: { width: share(part.value) } })),
    subtracted > 0 && make("span", { class: "subtracted", style: { left: share(Math.max(0, row.score)), width: share(Math.min(subtracted, up)) } }),
    make("span", { class: "tick", style: { left: share(Math.max(0, row.score)) } }),
  );
  const largest = Math.max(...parts.map((part) => Math.abs(part.value)), 0);
  const table = make("table", {},
    make("caption", { class: "hidden" }, `Why ${row.name}: parts of its score`),
    make("thead", { class: "hidden" }, make("tr", {}, ...["From", "Size", "Adds"].map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, ...parts.map((part) =>
      make("tr", { "data-value": part.value },
        make("th", { scope: "row" }, make("span", { class: "from" }, make("span", { class: "dot", "data-hue": part.hue, "aria-hidden": "true" }), part.name)),
        make("td", { class: "size" }, make("span", { class: part.value < 0 ? "part minus" : "part", "data-hue": part.hue, style: { width: `${largest > 0 ? (100 * Math.abs(part.value)) / largest : 0}%` } })),
        make("td", { class: "number" }, signed(part.value, digits)),
      ))),
    make("tfoot", {}, make("tr", { "data-score": row.score },
      make("th", { scope: "row" }, "Together: the score"), make("td", {}), make("td", { class: "number" }, row.score.toFixed(digits).replace("-", "−")))),
  );
  return make("details", { class: "why", open: shown },
    make("summary", {}, make("span", { class: "label" }, "Why"), bar, make("span", { class: "number" }, row.score.toFixed(digits).replace("-", "−"))),
    table,
  );
}
