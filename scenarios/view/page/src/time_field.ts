// A small field in which a time is typed.
import { microsecondsOf } from "./contract";
import { h } from "./dom";

/** take: gets the time that was typed, in microseconds, null of an empty field     whenEmpty: what the field says then */
export function timeField(label: string, whenEmpty: string, value: string, take: (time: number | null, field: HTMLInputElement) => void): HTMLElement {
  const says = h("span", { class: "small bad", role: "alert" });
  const field = h("input", { class: "time-field", size: 8, autocomplete: "off", "aria-label": label, title: label, placeholder: whenEmpty, value,
    input: () => says.replaceChildren(),
    change: () => {
      const text = field.value.trim(), time = text ? microsecondsOf(text) : null;
      if (Number.isNaN(time)) says.textContent = " A time is written like 10.3 s or 300 ms.";
      else take(time, field);
    } });
  return h("span", {}, field, says);
}
