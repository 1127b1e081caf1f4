// The long tail: how often each item was chosen, on two logarithmic scales, with the items in play marked on it.

import { svg, whole } from "./dom.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [400, 270, 46, 12, 12, 40];

function ticks(most) {
  const found = [];
  for (let value = 1; value <= most; value *= 10) found.push(value);
  return found;
}

const short = (number) => (number >= 1e6 ? `${number / 1e6}M` : number >= 1e3 ? `${number / 1e3}K` : String(number));

export function drawTail(place, curve, { history, recommended, hidden }) {
  const most = Math.max(curve.counts[0], 2);
  const last = Math.max(curve.ranks.at(-1), 2);
  const x = (rank) => LEFT + ((WIDTH - LEFT - RIGHT) * Math.log(rank)) / Math.log(last);
  const y = (count) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * Math.log(Math.max(count, 0.7) / 0.7)) / Math.log(most / 0.7);
  const points = curve.ranks.map((rank, k) => [x(rank), y(curve.counts[k])]);
  const line = points.map(([a, b], k) => `${k ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
  const floor = HEIGHT - BOTTOM;
  const area = `${line}L${points.at(-1)[0].toFixed(1)} ${floor}L${LEFT} ${floor}Z`;
  const mark = (item, kind, extra) => svg("g", { class: kind, transform: `translate(${x(item.popularity_rank).toFixed(1)} ${y(item.popularity).toFixed(1)})` },
    svg("title", {}, `${item.name}: chosen by ${whole(item.popularity)}`), ...extra);
  place.replaceChildren(
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-labelledby": "tail-title", "aria-describedby": "tail-caption" },
      svg("g", { class: "grid" },
        ...ticks(last).map((rank) => svg("line", { x1: x(rank), x2: x(rank), y1: TOP, y2: floor })),
        ...ticks(most).map((count) => svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(count), y2: y(count) }))),
      svg("path", { class: "area", d: area }),
      hidden > 0 && svg("rect", { class: "cut", x: LEFT, y: TOP, width: x(Math.min(hidden, last)) - LEFT + 2, height: floor - TOP }),
      svg("path", { class: "curve", d: line }),
      svg("g", { class: "words" },
        ...ticks(last).map((rank) => svg("text", { x: x(rank), y: floor + 16, "text-anchor": "middle" }, short(rank))),
        ...ticks(most).map((count) => svg("text", { x: LEFT - 8, y: y(count) + 4, "text-anchor": "end" }, short(count))),
        svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "rank in popularity"),
        svg("text", { x: -(TOP + floor) / 2, y: 12, transform: "rotate(-90)", "text-anchor": "middle" }, "users who chose it")),
      ...history.map((item) => mark(item, "mine", [svg("circle", { r: 4.5 })])),
      ...[...recommended].reverse().map((item) => mark(item, "theirs", [svg("circle", { r: 8 }), svg("text", { y: 3.4, "text-anchor": "middle" }, String(item.rank))])),
    ),
  );
}

export function describe(recommended, history, curve) {
  const ranks = recommended.map((item) => item.popularity_rank);
  if (!ranks.length) return "Nothing is recommended under this limit.";
  const low = Math.min(...ranks);
  const high = Math.max(...ranks);
  const mine = history.length ? " Rings are your items." : "";
  return `Numbered: the recommended items, between no. ${whole(low)} and no. ${whole(high)} of ${whole(curve.ranks.at(-1))} in popularity.${mine}`;
}

// The limit for a place of the slider: from no limit at 0 down to the rarest at 100, even on the log scale.
export function limitAt(place, curve) {
  if (place <= 0) return null;
  const most = curve.counts[0];
  const least = Math.max(1, curve.counts.at(-1));
  return Math.max(least, Math.floor(most * (least / most) ** (place / 100)));
}

// How many items are more popular than a limit, as near as the curve tells.
export function above(limit, curve) {
  if (limit === null) return 0;
  let rank = 0;
  for (let k = 0; k < curve.ranks.length && curve.counts[k] > limit; k += 1) rank = curve.ranks[k];
  return rank;
}
