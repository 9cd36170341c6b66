// The keys: one table for what each does and for the list of them that the page shows.
import { h } from "./dom";

/** names: as KeyboardEvent calls them, each with its act     shown: in the list, the words for it */
export interface Key { shown: string; does: string; acts: Record<string, () => void> }

/** open: shows the list */
export function listenToKeys(keys: (openList: () => void) => Key[]): { list: HTMLDialogElement; open: () => void } {
  const list = h("dialog", { "aria-label": "Keys" }), open = (): void => list.showModal(), all = keys(open);
  const acts = Object.assign({}, ...all.map((key) => key.acts)) as Record<string, () => void>;
  list.append(h("h2", {}, "Keys"), h("table", {}, h("tbody", {}, ...all.map(({ shown, does }) => h("tr", {}, h("th", { scope: "row" }, shown), h("td", {}, does))))),
    h("p", { class: "small" }, "Drag on the time strip to look closer, double-click to see the whole run; the wheel zooms, with shift it moves. Click a record to follow it."),
    h("button", { class: "primary", click: () => list.close() }, "Close"));
  addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]") || isForTheControl(event)) return;
    const act = Object.hasOwn(acts, event.key) ? acts[event.key] : undefined;
    if (!act) return;
    event.preventDefault();
    act();
  });
  return { list, open };
}

/** What has the focus makes use of the key itself. */
function isForTheControl(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || target.matches("select, textarea, input:not([type=radio])")) return true;
  return event.key === " " && target.matches("button, input") || event.key.startsWith("Arrow") && target.matches("input");
}
