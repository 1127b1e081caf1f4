// The page: a history and dislikes in this tab, and the recommendations for them. Nothing is stored.

import { bannered, tell } from "./banner.js";
import { drawCards } from "./cards.js";
import { ask, id } from "./client.js";
import { combobox } from "./combobox.js";
import { find, make, whole } from "./dom.js";
import { USED, counted, drawHistory, newestFirst, request } from "./history.js";
import { itemDialog } from "./item_dialog.js";
import { image, name, summary } from "./item_parts.js";
import { REASONS } from "./reasons.js";
import { retried } from "./retry.js";
import { above, describe, drawTail, limitAt } from "./tail.js";
import { themed } from "./theme.js";

const STEP = 10; // recommendations at first, and how many "Show more" adds
const MOST = 50; // the longest list with reasons
const HUES = 8;
const SLOW = 400; // milliseconds after which the page says that it waits for an answer
const AT_ONCE = 6; // requests for the names of items at the same time

const DISLIKED = "not="; // before the id of a disliked item in the address; ids have no = there

const state = {
  history: [], dislikes: [], whose: null, // the newest first
  length: STEP, limit: null,
  answer: null, best: null, curve: null, cleared: null, hues: new Map(),
};
let turn = new AbortController(); // of the question for the list
let loading = new AbortController(); // of the question for a known user

const hueOf = (item) => state.hues.get(item) ?? "rest";

function remember() {
  const disliked = state.dislikes.map((item) => DISLIKED + id(item.item_id));
  const fragment = [...state.history.map((item) => id(item.item_id)), ...disliked].join("&");
  history.replaceState(null, "", fragment.length < 4000 && fragment ? `#${fragment}` : location.pathname);
}

function setHistory(items, whose = null, dislikes = state.dislikes) {
  Object.assign(state, { history: items, dislikes, whose, best: null, cleared: null });
  loading.abort();
  remember();
  drawPanel();
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

const drawPanel = () => drawHistory(state, { hueOf, remove, undo });

const without = (items, item) => items.filter((one) => one.item_id !== item.item_id);

function dislike(item) {
  say(`${item.name} is not for you.`);
  setHistory(state.history, state.whose, [item, ...without(state.dislikes, item)]);
}

// The button that takes the place of the one that was pressed gets the focus.
function focusOn(list, at) {
  const buttons = find(list).querySelectorAll("button");
  (buttons[Math.min(at, buttons.length - 1)] ?? find("search-input")).focus({ preventScroll: true });
}

function undo(item) {
  const at = state.dislikes.indexOf(item);
  say(`${item.name} may be recommended again.`);
  setHistory(state.history, state.whose, without(state.dislikes, item));
  focusOn("disliked", at);
}

function remove(item) {
  const at = state.history.indexOf(item);
  const rest = state.history.filter((one) => one !== item);
  say(`Removed ${item.name}.`);
  setHistory(rest, rest.length ? state.whose : null);
  focusOn("history", at);
}

function clearAll() {
  const { history, dislikes, whose, length } = state;
  state.length = STEP;
  setHistory([], null, []);
  state.cleared = { history, dislikes, whose, length };
  drawPanel();
  find("undo-clear").focus({ preventScroll: true });
}

function undoClear() {
  const { history, dislikes, whose, length } = state.cleared;
  state.length = length;
  say(`${counted(history.length + dislikes.length)} are back.`);
  setHistory(history, whose, dislikes);
  find("clear").focus({ preventScroll: true });
}

async function showMore() {
  const from = state.answer.items.length;
  state.length = Math.min(MOST, state.length + STEP);
  await refresh();
  find("cards").children[from]?.querySelector("[data-act]").focus();
}

let spoken = 0;
function say(words) {
  clearTimeout(spoken);
  spoken = setTimeout(() => { find("spoken").textContent = words; }, 50);
}

// The answer, and the best score that any item gets for this history: a limit of popularity does not change what is a
// strong match.
async function asked(signal) {
  const body = { ...request(state), n: state.length, explain: true, reasons: REASONS, impression: false };
  const limited = state.limit === null ? body : { ...body, max_popularity: state.limit };
  const started = performance.now();
  const [answer, first] = await Promise.all([
    ask("/v1/recommend", { body: limited, signal }),
    limited !== body && state.best === null ? ask("/v1/recommend", { body: { ...body, n: 1, explain: false }, signal }) : null,
  ]);
  const best = state.limit === null ? answer.items[0]?.score : first?.items[0]?.score ?? state.best;
  return { answer, best: best ?? null, took: performance.now() - started };
}

async function refresh() {
  turn.abort();
  const { signal } = (turn = new AbortController());
  const slow = setTimeout(() => { find("took").textContent = "asking …"; }, SLOW);
  const trouble = (words) => {
    tell(words);
    outdated(words !== null);
  };
  try {
    const { answer, best, took } = await retried(() => asked(signal), { signal, trouble });
    if (signal.aborted) return;
    state.best = best;
    show(answer, took);
  } catch (error) {
    if (signal.aborted) return;
    tell(null);
    outdated(true);
    find("list-note").textContent = error.message;
  } finally {
    clearTimeout(slow);
  }
}

// The list that is shown is not the answer to the history that is shown.
function outdated(yes) {
  find("recommendations").dataset.outdated = yes ? "yes" : "no";
  find("outdated-note").hidden = !yes || !state.answer;
  if (yes) find("took").textContent = "";
}

function show(answer, took) {
  const grown = state.answer && state.answer.items.length < answer.items.length && state.answer.items.every((row, k) => row.item_id === answer.items[k].item_id);
  const before = state.answer && !grown && !state.answer.fallback && !answer.fallback
    ? new Map(state.answer.items.map((row) => [row.item_id, row.rank])) : null;
  state.answer = answer;
  colour(answer);
  drawCards(find("cards"), answer, { before, best: state.best, hueOf, add, dislike, open });
  find("list-title").textContent = answer.fallback ? "Most popular" : "Recommended";
  find("list-note").textContent = answer.fallback
    ? "Pick something you like, and this list becomes yours."
    : answer.items.length ? "" : "Nothing is left to recommend under this limit.";
  find("took").textContent = `answered in ${Math.max(1, Math.round(took))} ms`;
  find("more").hidden = state.length >= MOST || answer.items.length < state.length;
  find("more-note").textContent = answer.items.length === MOST ? `The first ${MOST}: a list with reasons has no more.` : "";
  const fresh = before ? answer.items.filter((row) => !before.has(row.item_id)).length : 0;
  if (answer.items.length) {
    say(`${answer.fallback ? "Most popular" : "Recommended first"}: ${answer.items[0].name}.${before ? ` ${fresh} new in the list.` : ""}`);
  }
  drawPlot();
}

function drawPlot() {
  if (!state.curve || !state.answer) return;
  const marked = state.history.slice(0, USED).filter((item) => item.popularity_rank);
  drawTail(find("plot"), state.curve, { history: marked, recommended: state.answer.items, hidden: above(state.limit, state.curve) });
  find("tail-caption").textContent = describe(state.answer.items, marked, state.curve);
  const hidden = above(state.limit, state.curve);
  find("rare-note").textContent = state.limit === null
    ? "Anything may be recommended. Move right to leave out popular items; scores stay the same."
    : `Only items that at most ${whole(state.limit)} ${state.limit === 1 ? "user" : "users"} chose: the ${whole(hidden)} most popular are left out.`;
}

async function showUser(user) {
  loading.abort();
  const { signal } = (loading = new AbortController());
  try {
    const found = await retried(() => ask(`/v1/users/${id(user)}`, { signal }), { signal, trouble: tell });
    const known = newestFirst(found.items.filter((item) => item.in_model));
    const disliked = newestFirst(found.disliked.filter((item) => item.in_model));
    state.answer = null; // another user: no ranks to compare with
    state.length = STEP;
    await setHistory(known, user, disliked);
    say(`${counted(known.length)} of ${user}.`);
  } catch (error) {
    if (signal.aborted) return;
    tell(null);
    find("list-note").textContent = error.message;
  }
}

// The ids in an address, which anybody may have written: parts that are none are left out.
function decoded(texts) {
  return texts.flatMap((text) => {
    try {
      return [decodeURIComponent(text)];
    } catch {
      return [];
    }
  });
}

// Items by their ids, a few at a time. One that the model does not know any more is left out.
async function named(texts, signal) {
  const found = [];
  const next = texts.entries();
  const worker = async () => {
    for (const [k, text] of next) {
      found[k] = await retried(() => ask(`/v1/items/${id(text)}`, { signal }), { signal, trouble: tell }).catch((error) => {
        if (error.status !== 404 && error.status !== 422) throw error;
      });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return found.filter(Boolean);
}

const open = itemDialog({ taken: () => new Set([...state.history, ...state.dislikes].map((item) => item.item_id)), add });

function listen() {
  combobox("search", {
    search: async (query, signal) => (await ask(`/v1/items?n=8&q=${id(query)}`, { signal })).items,
    show: (item) => [
      image(item), name(item.name),
      make("span", { class: "soft" }, summary(item) ?? `${whole(item.popularity)} users`)],
    take: (item) => { add(item); find("search-input").focus(); },
    empty: "No item has this name.",
  });
  combobox("users", {
    search: async (query, signal) => (await ask(`/v1/users?n=8&prefix=${id(query)}`, { signal })).users,
    show: (user) => [name(user)],
    take: showUser,
    empty: "No user has this id.",
  });
  find("clear").addEventListener("click", clearAll);
  find("undo-clear").addEventListener("click", undoClear);
  find("more").addEventListener("click", showMore);
  find("rare").addEventListener("input", (event) => {
    state.limit = limitAt(Number(event.target.value), state.curve);
    event.target.setAttribute("aria-valuetext", state.limit === null ? "anything" : `chosen by at most ${state.limit}`);
    refresh();
  });
  for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
}

function suggest(items) {
  find("suggestions").replaceChildren(...items.map((item) =>
    make("li", {}, make("button", { class: "chip", type: "button", onclick: () => {
      add(item);
      find("recommendations").focus({ preventScroll: true }); // the button is gone
    } }, name(item.name)))));
}

async function begin() {
  themed();
  bannered();
  listen();
  const { signal } = new AbortController();
  const given = location.hash.slice(1).split("&").filter(Boolean).slice(0, 200);
  const load = () => Promise.all([ask("/v1/model"), ask("/v1/popularity"), ask("/v1/items?n=8")]);
  const [model, curve, popular] = await retried(load, { signal, trouble: tell });
  state.curve = curve;
  find("rare").disabled = false;
  find("about").textContent = `${whole(model.items)} items, ${whole(model.users)} users, ${whole(model.interactions)} choices`;
  suggest(popular.items);
  const disliked = given.filter((text) => text.startsWith(DISLIKED)).map((text) => text.slice(DISLIKED.length));
  const items = await named(decoded(given.filter((text) => !text.startsWith(DISLIKED))), signal);
  const dislikes = await named(decoded(disliked), signal);
  const taken = new Set([...state.history, ...state.dislikes].map((item) => item.item_id)); // picked while this was loaded
  const fresh = (all) => all.filter((item) => !taken.has(item.item_id));
  await setHistory([...state.history, ...fresh(items)], state.whose, [...state.dislikes, ...fresh(dislikes)]);
}

begin().catch((error) => {
  tell(null);
  find("list-note").textContent = error.message;
});
