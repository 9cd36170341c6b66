// How a broker looks: its colour and its dash, the same as in the report, so Python states them.
import type { BrokerMark, Place, Run } from "./contract";

export function setMarks(stated: BrokerMark[]): void {
  const sheet = new CSSStyleSheet();
  stated.forEach(([light, dark, dash], place) => {
    sheet.insertRule(`.broker-${place} { --broker: ${light}; --dash: ${dash}; }`, sheet.cssRules.length);
    sheet.insertRule(`[data-theme="dark"] .broker-${place} { --broker: ${dark}; }`, sheet.cssRules.length);
  });
  document.adoptedStyleSheets = [sheet];
}

/** `broker-2`: the class of a broker with the third mark. */
export const brokerClass = (run: Run, node: Place): string => `broker-${run.tape.brokers.find(([broker]) => broker === node)?.[1] ?? 0}`;
