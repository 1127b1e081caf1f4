// What is wrong with the service, above the page, while it is wrong.

import { find } from "./dom.js";
import { hurryAnyway } from "./retry.js";

export function tell(words) {
  const banner = find("banner");
  const held = banner.contains(document.activeElement);
  banner.hidden = words === null;
  if (words === null) {
    find("banner-words").textContent = "";
    if (held) find("recommendations").focus({ preventScroll: true });
  } else if (find("banner-words").textContent !== words) find("banner-words").textContent = words; // said once
}

export const bannered = () => find("retry-now").addEventListener("click", hurryAnyway);
