// Light, dark, or as the system has it.

import { find } from "./dom.js";

const KEY = "komd-theme";
const NAMES = { auto: "Auto", light: "Light", dark: "Dark" };
const SIGNS = { auto: "◐", light: "☀", dark: "☾" };
const order = Object.keys(NAMES);

export function themed() {
  const button = find("theme");
  let now = localStorage.getItem(KEY);
  if (!(now in NAMES)) now = "auto";
  const apply = () => {
    document.documentElement.dataset.theme = now;
    button.textContent = `${SIGNS[now]} ${NAMES[now]}`;
    button.setAttribute("aria-label", `Colours: ${NAMES[now].toLowerCase()}`);
  };
  button.addEventListener("click", () => {
    now = order[(order.indexOf(now) + 1) % order.length];
    localStorage.setItem(KEY, now);
    apply();
  });
  apply();
}
