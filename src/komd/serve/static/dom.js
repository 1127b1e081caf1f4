// Elements are made here and nowhere else. Text goes in as text: a name is never markup.

const SVG = "http://www.w3.org/2000/svg";

export function make(tag, about = {}, ...children) {
  return filled(document.createElement(tag), about, children);
}

export function svg(tag, about = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), about, children);
}

function filled(element, about, children) {
  for (const [name, value] of Object.entries(about)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, to] of Object.entries(value)) element.style.setProperty(key, to);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const find = (id) => document.getElementById(id);

export const whole = (number) => Math.round(number).toLocaleString("en");

export function signed(number, digits = 3) {
  const text = Math.abs(number).toFixed(digits);
  return Number(text) === 0 ? text : (number < 0 ? "−" : "+") + text;
}

// Three digits that matter, as scores of different models have very different sizes.
export function digitsFor(largest) {
  return largest > 0 ? Math.min(8, Math.max(0, 2 - Math.floor(Math.log10(largest)))) : 3;
}
