// How a broker looks: its colour and its dash, the same as in the report, so Python states them.
import { type BrokerMark, type Place, type Run, type Tape, brokersOf } from "./contract";

let marks = 1;
const classesBy = new WeakMap<Tape, { nodes: number; of: Map<Place, string> }>();

export function setMarks(stated: BrokerMark[]): void {
  const sheet = new CSSStyleSheet();
  stated.forEach(([light, dark, dash], place) => {
    sheet.insertRule(`.broker-${place} { --broker: ${light}; --dash: ${dash}; }`, sheet.cssRules.length);
    sheet.insertRule(`[data-theme="dark"] .broker-${place} { --broker: ${dark}; }`, sheet.cssRules.length);
  });
  document.adoptedStyleSheets = [sheet];
  marks = stated.length;
}

/** `broker-2`: the class of the third broker of the cluster. */
export function brokerClass(run: Run, node: Place): string {
  let classes = classesBy.get(run.tape);
  if (classes?.nodes !== run.tape.nodes.length) {
    classes = { nodes: run.tape.nodes.length, of: new Map(brokersOf(run.tape).map((broker, place) => [broker, `broker-${place % marks}`])) };
    classesBy.set(run.tape, classes);
  }
  return classes.of.get(node) ?? "broker-0";
}
