// Elements without markup: whatever a run is called, its names are text.
type Attributes = Record<string, string | number | boolean | undefined | ((event: never) => void)>;
type Child = Node | string | undefined | false;

const SVG = "http://www.w3.org/2000/svg";

function fill<T extends Element>(element: T, attributes: Attributes, children: Child[]): T {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value as EventListener);
    else element.setAttribute(name, value === true ? "" : visible(String(value)));
  }
  for (const child of children) if (child !== undefined && child !== false) element.append(typeof child === "string" ? visible(child) : child);
  return element;
}

// What a name could use to hide itself, or to turn the text around it: control characters, marks of direction, spaces without width.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
export const visible = (text: string): string => text.replace(UNSEEN, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

export function s<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Shortened to about so many pixels of text. */
export function fitted(text: string, width: number, letter = 7.2): string {
  const room = Math.max(2, Math.floor(width / letter));
  return text.length <= room ? text : `${text.slice(0, room - 1)}\u2026`;
}
