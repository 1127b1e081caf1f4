// Addresses of the web among the columns of an item: its own page, its image, and how to show others.

const PAGES = ["url", "link", "href"];
const CUT = 500; // the service cuts further columns here, and a part of an address leads nowhere

export function webAddress(text) {
  if (typeof text !== "string" || !/^\s*https?:\/\//i.test(text)) return null;
  try {
    return new URL(text.trim());
  } catch {
    return null;
  }
}

// The column with the address of the item's page, if it has one.
export function pageColumn(item) {
  for (const [column, value] of Object.entries(item.details ?? {})) {
    if (PAGES.includes(column.trim().toLowerCase()) && value.length < CUT && webAddress(value)) return column;
  }
  return null;
}

export function pageOf(item) {
  const column = pageColumn(item);
  return column === null ? null : webAddress(item.details[column]).href;
}

// A value as it is shown: of an address only the host.
export const shown = (value) => webAddress(value)?.host.replace(/^www\./, "") ?? value;
