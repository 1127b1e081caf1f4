// The parts of an item that every list shows: its title, its image, a line about it.

import { make } from "./dom.js";
import { pageColumn, pageOf, shown, webAddress } from "./web_address.js";

// The direction of a name is its own: right-to-left names leave the text around them alone.
export const name = (text) => make("span", { class: "name", dir: "auto" }, text);

// Leads to the item's page if it has one, else opens what is known of the item.
export function title(item, open) {
  const page = pageOf(item);
  const about = { class: "go", dir: "auto", "data-act": "title" };
  return page
    ? make("a", { ...about, href: page, target: "_blank", rel: "noopener noreferrer" }, item.name)
    : make("button", { ...about, type: "button", "aria-haspopup": "dialog", onclick: () => open(item) }, item.name);
}

// An image that cannot be loaded disappears.
export function image(item) {
  const address = webAddress(item.image);
  return address && make("img", {
    class: "image", alt: "", loading: "lazy", decoding: "async", referrerpolicy: "no-referrer",
    onerror: (event) => event.target.remove(), src: address.href,
  });
}

// The first further column that is not the item's own page; that page's host if there is no other.
export function summary(item) {
  const columns = Object.keys(item.details ?? {});
  const column = columns.find((one) => one !== pageColumn(item)) ?? columns[0];
  return column === undefined ? null : make("bdi", { class: "cut", title: item.details[column] }, shown(item.details[column]));
}
