// The page: a history and dislikes in this tab, and the recommendations for them. Nothing is stored.

import { drawCards } from "./cards.js";
import { Problem, ask, id } from "./client.js";
import { combobox } from "./combobox.js";
import { find, make, whole } from "./dom.js";
import { above, describe, drawTail, limitAt } from "./tail.js";
import { themed } from "./theme.js";

const LENGTH = 10;
const REASONS = 6;
const HUES = 8;

const DISLIKED = "not="; // before the id of a disliked item in the address; ids have no = there

const state = { history: [], dislikes: [], answer: null, curve: null, limit: null, hues: new Map(), whose: null };
let turn = null;

const hueOf = (item) => state.hues.get(item) ?? "rest";

function remember() {
  const disliked = state.dislikes.map((item) => DISLIKED + id(item.item_id));
  const fragment = [...state.history.map((item) => id(item.item_id)), ...disliked].join("&");
  history.replaceState(null, "", fragment.length < 4000 && fragment ? `#${fragment}` : location.pathname);
}

function setHistory(items, whose = null, dislikes = state.dislikes) {
  state.history = items;
  state.dislikes = dislikes;
  state.whose = whose;
  remember();
  drawHistory();
  return refresh();
}

// The items that matter most to this list get colours; those that had one before keep it.
function colour(answer) {
  const weight = new Map();
  for (const row of answer.items) {
    for (const part of row.why?.contributions ?? []) weight.set(part.item_id, (weight.get(part.item_id) ?? 0) + Math.abs(part.contribution));
  }
  const chosen = state.history.map((item) => item.item_id).filter((item) => weight.has(item))
    .sort((a, b) => weight.get(b) - weight.get(a)).slice(0, HUES);
  for (const known of state.hues.keys()) if (!chosen.includes(known)) state.hues.delete(known);
  const free = [...Array(HUES).keys()].filter((hue) => ![...state.hues.values()].includes(hue));
  for (const item of chosen) if (!state.hues.has(item)) state.hues.set(item, free.shift());
  for (const dot of find("history").querySelectorAll(".dot")) dot.dataset.hue = hueOf(dot.closest("li").dataset.id);
}

function add(item) {
  if (state.history.some((one) => one.item_id === item.item_id)) return;
  say(`Added ${item.name}.`);
  setHistory([item, ...state.history], state.whose, without(state.dislikes, item));
}

const without = (items, item) => items.filter((one) => one.item_id !== item.item_id);

// The button of the card that takes the place of the disliked one gets the focus.
async function dislike(item) {
  const at = state.answer.items.findIndex((row) => row.item_id === item.item_id);
  say(`${item.name} is not for you.`);
  await setHistory(state.history, state.whose, [item, ...without(state.dislikes, item)]);
  const buttons = find("cards").querySelectorAll(".dislike");
  (buttons[Math.min(at, buttons.length - 1)] ?? find("search-input")).focus({ preventScroll: true });
}

function undo(item) {
  const at = state.dislikes.indexOf(item);
  say(`${item.name} may be recommended again.`);
  setHistory(state.history, state.whose, without(state.dislikes, item));
  const buttons = find("disliked").querySelectorAll("button");
  (buttons[Math.min(at, buttons.length - 1)] ?? find("search-input")).focus({ preventScroll: true });
}

function remove(item) {
  const at = state.history.indexOf(item);
  const rest = state.history.filter((one) => one !== item);
  say(`Removed ${item.name}.`);
  setHistory(rest, rest.length ? state.whose : null);
  const buttons = find("history").querySelectorAll("button");
  (buttons[Math.min(at, buttons.length - 1)] ?? find("search-input")).focus({ preventScroll: true });
}

let spoken = 0;
function say(words) {
  clearTimeout(spoken);
  spoken = setTimeout(() => { find("spoken").textContent = words; }, 50);
}

function drawHistory() {
  const none = state.history.length === 0;
  find("history").replaceChildren(...state.history.map((item) =>
    make("li", { "data-id": item.item_id },
      make("span", { class: "dot", "data-hue": hueOf(item.item_id), "aria-hidden": "true" }),
      make("span", { class: "name" }, item.name),
      make("button", { class: "quiet", type: "button", "aria-label": `Remove ${item.name}`, onclick: () => remove(item) }, "✕"),
    )));
  const count = `${whole(state.history.length)} item${state.history.length === 1 ? "" : "s"}`;
  find("history-note").textContent = none ? "" : state.whose ? `${count}, from ${state.whose}` : count;
  find("disliked").replaceChildren(...state.dislikes.map((item) =>
    make("li", {},
      make("span", { class: "name" }, item.name),
      make("button", { class: "quiet", type: "button", "aria-label": `Undo: ${item.name}`, onclick: () => undo(item) }, "Undo"),
    )));
  find("disliked-part").hidden = state.dislikes.length === 0;
  find("clear").hidden = none && state.dislikes.length === 0;
  find("start").hidden = !none;
}

// An item that was copied from a known user keeps its weight and its time; one that was picked here is of now.
function sent({ item_id, weight = 1, time = null }) {
  return weight === 1 && time === null ? item_id : { item_id, weight, time };
}

async function refresh() {
  turn?.abort();
  const mine = (turn = new AbortController());
  const started = performance.now();
  const body = { history: state.history.map(sent), n: LENGTH, explain: true, reasons: REASONS };
  if (state.dislikes.length) body.dislikes = state.dislikes.map((item) => item.item_id);
  if (state.limit !== null) body.max_popularity = state.limit;
  try {
    const answer = await ask("/v1/recommend", { body, signal: mine.signal });
    if (mine !== turn) return;
    show(answer, performance.now() - started);
  } catch (error) {
    if (error.name === "AbortError") return;
    find("list-note").textContent = error instanceof Problem ? error.message : "The service does not answer.";
  }
}

function show(answer, took) {
  const before = state.answer && !state.answer.fallback && !answer.fallback
    ? new Map(state.answer.items.map((row) => [row.item_id, row.rank])) : null;
  state.answer = answer;
  colour(answer);
  drawCards(find("cards"), answer, before, { hueOf, add, dislike, similar });
  find("list-title").textContent = answer.fallback ? "Most popular" : "Recommended";
  find("list-note").textContent = answer.fallback
    ? "Pick something you like, and this list becomes yours."
    : answer.items.length ? "" : "Nothing is left to recommend under this limit.";
  find("took").textContent = `answered in ${Math.max(1, Math.round(took))} ms`;
  const fresh = before ? answer.items.filter((row) => !before.has(row.item_id)).length : 0;
  if (answer.items.length) {
    say(`${answer.fallback ? "Most popular" : "Recommended first"}: ${answer.items[0].name}.${before ? ` ${fresh} new in the list.` : ""}`);
  }
  drawPlot();
}

function drawPlot() {
  if (!state.curve || !state.answer) return;
  const marked = state.history.filter((item) => item.popularity_rank);
  drawTail(find("plot"), state.curve, { history: marked, recommended: state.answer.items, hidden: above(state.limit, state.curve) });
  find("tail-caption").textContent = describe(state.answer.items, marked, state.curve);
  const hidden = above(state.limit, state.curve);
  find("rare-note").textContent = state.limit === null
    ? "Anything may be recommended. Move right to leave out popular items; scores stay the same."
    : `Only items that at most ${whole(state.limit)} ${state.limit === 1 ? "user" : "users"} chose: the ${whole(hidden)} most popular are left out.`;
}

async function similar(item) {
  const { items } = await ask(`/v1/items/${id(item.item_id)}/similar?n=8`);
  find("similar-title").textContent = `Similar to ${item.name}`;
  const most = Math.max(...items.map((one) => one.similarity), 0);
  find("similar-list").replaceChildren(
    ...items.map((one) => make("li", {},
      make("span", { class: "name" }, one.name,
        make("span", { class: "likeness" }, make("span", { style: { width: `${(100 * one.similarity) / most}%` } }))),
      make("span", { class: "number soft" }, one.similarity.toFixed(2)),
      make("button", { class: "plain", type: "button", "aria-label": `Add ${one.name}`, onclick: () => { find("similar").close(); add(one); } }, "Add"))),
    ...(items.length ? [] : [make("li", { class: "soft" }, "Nothing is similar to it.")]));
  find("similar").showModal();
}

async function showUser(user) {
  const found = await ask(`/v1/users/${id(user)}`);
  const known = found.items.filter((item) => item.in_model);
  state.answer = null; // another user: no ranks to compare with
  const disliked = found.disliked.filter((item) => item.in_model);
  await setHistory(known.slice(-2000), user, disliked.slice(-2000));
  say(`${known.length} items of ${user}.`);
}

async function begin() {
  themed();
  combobox("search", {
    search: async (query) => (await ask(`/v1/items?n=8&q=${id(query)}`)).items,
    show: (item) => [
      make("span", { class: "name" }, item.name),
      make("span", { class: "soft" }, Object.values(item.details)[0]?.slice(0, 40) ?? `${whole(item.popularity)} users`)],
    take: (item) => { add(item); find("search-input").focus(); },
    empty: "No item has this name.",
  });
  combobox("users", {
    search: async (query) => (await ask(`/v1/users?n=8&prefix=${id(query)}`)).users,
    show: (user) => [make("span", { class: "name" }, user)],
    take: showUser,
    empty: "No user has this id.",
  });
  find("clear").addEventListener("click", () => { setHistory([], null, []); find("search-input").focus(); });
  find("rare").addEventListener("input", (event) => {
    state.limit = limitAt(Number(event.target.value), state.curve);
    event.target.setAttribute("aria-valuetext", state.limit === null ? "anything" : `chosen by at most ${state.limit}`);
    refresh();
  });
  for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
  find("similar").addEventListener("click", (event) => { if (event.target === event.currentTarget) event.target.close(); });

  const [model, curve, popular] = await Promise.all([ask("/v1/model"), ask("/v1/popularity"), ask("/v1/items?n=8")]);
  state.curve = curve;
  find("about").textContent = `${whole(model.items)} items, ${whole(model.users)} users, ${whole(model.interactions)} choices`;
  find("suggestions").replaceChildren(...popular.items.map((item) =>
    make("li", {}, make("button", { class: "chip", type: "button", onclick: () => add(item) }, item.name))));
  const given = location.hash.slice(1).split("&").filter(Boolean).slice(0, 200);
  const named = (texts) => Promise.all(texts.map((text) => ask(`/v1/items/${text}`).catch(() => null)));
  const disliked = given.filter((text) => text.startsWith(DISLIKED)).map((text) => text.slice(DISLIKED.length));
  const [items, dislikes] = await Promise.all([named(given.filter((text) => !text.startsWith(DISLIKED))), named(disliked)]);
  await setHistory(items.filter(Boolean), null, dislikes.filter(Boolean));
}

begin().catch((error) => {
  find("list-note").textContent = error instanceof Problem ? error.message : "The service does not answer.";
});
