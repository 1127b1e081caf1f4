// How well an item matches, in words: its score beside the best score that any item gets for the same history.
// Zero is the natural origin of scores: there, as much speaks against an item as for it.

export function matchOf(score, best) {
  const share = best > 0 ? score / best : 0;
  const word = share >= 2 / 3 ? "strong" : share >= 1 / 3 ? "fair" : "weak";
  const why = score <= 0
    ? "as much speaks against it as for it"
    : `${Math.round(100 * share)} % of the best score that any item gets for what you like`;
  return { word, why: `${word} match: ${why}. Strong is from 67 %, fair from 33 %. It is no probability.` };
}
