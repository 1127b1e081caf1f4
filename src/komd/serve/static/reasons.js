// Why an item is recommended: its score as a bar and a table, made of the parts that each item of the history adds and
// that dislikes take away.

import { make, signed, whole } from "./dom.js";
import { matchOf } from "./match.js";

const LISTED = 6; // parts by name; the others are summed
export const REASONS = LISTED + 1; // one more is asked for, so that no single item is hidden behind a sum

// The parts that sum to a score: what the largest items add, the other items together, and the global term.
// What adds and what takes away is summed apart: otherwise the bar of a long history would hide both.
export function partsOf(row, hueOf) {
  const { contributions, others, global_term } = row.why;
  const all = contributions.length + others.items <= REASONS;
  const listed = all ? contributions : contributions.filter((part) => part.contribution !== 0).slice(0, LISTED);
  const found = listed.map((part) => ({ name: part.name, disliked: part.disliked, value: part.contribution, hue: hueOf(part.item_id) }));
  const hidden = contributions.filter((part) => !listed.includes(part)).map((part) => part.contribution);
  const above = hidden.filter((value) => value > 0);
  const below = hidden.filter((value) => value < 0);
  const up = { items: others.positive_items + above.length, value: total(above, others.positive) };
  const down = { items: others.negative_items + below.length, value: total(below, others.negative) };
  const idle = others.items + hidden.length - up.items - down.items;
  const both = up.items > 0 && down.items > 0;
  if (up.items) found.push({ words: `and ${more(up.items)} together${both ? ", for it" : ""}`, value: up.value, hue: "rest" });
  if (down.items) found.push({ words: `and ${more(down.items)} together${both ? ", against it" : ""}`, value: down.value, hue: "rest" });
  if (idle) found.push({ words: `and ${more(idle)} without effect`, value: 0, hue: "rest" });
  if (global_term !== 0) found.push({ words: "what you did not choose", value: global_term, hue: "pull" });
  return found;
}

const more = (items) => `${whole(items)} more item${items === 1 ? "" : "s"}`;
const total = (values, start = 0) => values.reduce((sum, value) => sum + value, start);

export const positive = (parts) => parts.reduce((sum, part) => sum + Math.max(0, part.value), 0);

const textOf = (part) => part.words ?? (part.disliked ? `because you dislike ${part.name}` : part.name);

const minus = (number, digits) => number.toFixed(digits).replace("-", "−");

function bar(row, parts, { digits, longest }) {
  const share = (value) => `${longest > 0 ? (100 * value) / longest : 0}%`;
  const up = positive(parts);
  const subtracted = up - row.score;
  return make("span", { class: "bar", "aria-hidden": "true" },
    ...parts.filter((part) => part.value > 0).map((part) =>
      make("span", { class: "piece", "data-hue": part.hue, title: `${textOf(part)} ${signed(part.value, digits)}`, style: { width: share(part.value) } })),
    subtracted > 0 && make("span", { class: "subtracted", style: { left: share(Math.max(0, row.score)), width: share(Math.min(subtracted, up)) } }),
    make("span", { class: "tick", style: { left: share(Math.max(0, row.score)) } }),
  );
}

function table(row, parts, digits) {
  const largest = Math.max(...parts.map((part) => Math.abs(part.value)), 0);
  return make("table", {},
    make("caption", { class: "hidden" }, `Why ${row.name}: parts of its score`),
    make("thead", { class: "hidden" }, make("tr", {}, ...["From", "Size", "Adds"].map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, ...parts.map((part) =>
      make("tr", { "data-value": part.value },
        make("th", { scope: "row" }, make("span", { class: "from" },
          make("span", { class: "dot", "data-hue": part.hue, "aria-hidden": "true" }),
          make("span", { class: "part-name" }, part.disliked ? "because you dislike " : null, part.words ?? make("bdi", {}, part.name)))),
        make("td", { class: "size" }, make("span", { class: part.value < 0 ? "part minus" : "part", "data-hue": part.hue, style: { width: `${largest > 0 ? (100 * Math.abs(part.value)) / largest : 0}%` } })),
        make("td", { class: "number" }, signed(part.value, digits)),
      ))),
    make("tfoot", {}, make("tr", { "data-score": row.score },
      make("th", { scope: "row" }, "Together: the score"), make("td", {}), make("td", { class: "number" }, minus(row.score, digits)))),
  );
}

export function why(row, parts, { digits, longest, best, shown }) {
  const match = matchOf(row.score, best);
  return make("details", { class: "why", open: shown },
    make("summary", { "data-act": "why" },
      make("span", { class: "label" }, "Why"), bar(row, parts, { digits, longest }),
      make("span", { class: "score" }, make("span", { class: "number" }, minus(row.score, digits)),
        make("span", { class: `match ${match.word}`, title: match.why }, match.word, make("span", { class: "match-word" }, " match")))),
    table(row, parts, digits),
    make("p", { class: "soft note" }, match.why.charAt(0).toUpperCase() + match.why.slice(1)),
  );
}
