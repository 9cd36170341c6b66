// Names that are too long for their place: cut so that no two of them look alike.
//
// 1. A name that fits stays whole.
// 2. Of the others goes what all names have in common at the beginning, then at the end; a number is never cut in two.
// 3. What is still too long keeps its end, else its two ends, else a stretch from within: the first of these that is
//    no other name's, too. Only where none is, its number in the list stands for it.
import { s } from "./dom";

const CUT = "\u2026";
/** So many times as many letters, or so many more, are squeezed into a place before a name is cut any further. */
const SQUEEZE = 1.6, MORE = 3;
/** The dots are as wide as two letters. */
const sizeOf = (written: string): number => written.length + written.split(CUT).length - 1;

/** Which part of a name is left. */
interface Part { start: string; middle: string; end: string }

const fits = (name: string, { start, middle, end }: Part): boolean =>
  name.length > start.length + middle.length + end.length && name.startsWith(start) && name.endsWith(end) && name.slice(start.length, name.length - end.length).includes(middle);
function write({ start, middle, end }: Part, most: number): string {
  const text = `${start}${CUT}${middle || end}`;
  return middle && sizeOf(text) + 2 <= most ? text + CUT : text;
}

/** By name how it is written. letters: that there is room for     rivals: names that stand beside them */
export function toldApart(names: readonly string[], letters: number, rivals: readonly string[] = names): Map<string, string> {
  const all = [...new Set([...names, ...rivals])], start = commonStart(all), end = commonEnd(all.map((name) => name.slice(start)));
  const most = Math.max(letters + MORE, Math.floor(letters * SQUEEZE));
  return new Map([...new Set(names)].map((name): [string, string] => {
    if (name.length <= letters) return [name, name];
    const others = all.filter((other) => other !== name);
    for (const part of parts(name, start, end, letters, most)) {
      const text = write(part, most);
      if (sizeOf(text) <= most && !others.some((other) => fits(other, part))) return [name, text];
    }
    return [name, `#${all.indexOf(name) + 1}`];
  }));
}

/** In the order in which they are preferred. */
function* parts(name: string, start: number, end: number, letters: number, most: number): Generator<Part> {
  if (start) yield { start: "", middle: "", end: name.slice(start) };
  if (start && end) yield { start: "", middle: name.slice(start, name.length - end), end: "" };
  for (let room = Math.max(1, letters - 2); room < most - 1; room += 1) {
    yield { start: "", middle: "", end: name.slice(-room) };
    for (let first = 1; first < room; first += 1) yield { start: name.slice(0, first), middle: "", end: name.slice(first - room) };
    for (let from = start; from + room < name.length; from += 1) yield { start: "", middle: name.slice(from, from + room), end: "" };
  }
}

const isDigit = (letter: string | undefined): boolean => letter !== undefined && letter >= "0" && letter <= "9";

/** How much is the same at the beginning of all names, up to the number that begins there. */
function commonStart(names: readonly string[]): number {
  const [first = "", ...others] = names;
  if (!others.length) return 0;
  let count = 0;
  while (count < first.length && others.every((other) => other[count] === first[count])) count += 1;
  while (count > 0 && isDigit(first[count - 1])) count -= 1;
  return count;
}

function commonEnd(names: readonly string[]): number {
  const [first = "", ...others] = names, shortest = Math.min(...names.map(({ length }) => length)) - 1;
  if (!others.length) return 0;
  let count = 0;
  while (count < shortest && others.every((other) => other.at(-1 - count) === first.at(-1 - count))) count += 1;
  while (count > 0 && isDigit(first.at(-count))) count -= 1;
  return count;
}

const LONG = 24;

/** Cuts the long names in a sentence of a list, whose lines end early: of nodes, and of the partition at `place`. */
export function shortener(nodes: readonly string[], partitions: readonly string[]): (text: string, place: number) => string {
  // A name may be the beginning of another one.
  const written = [...toldApart(nodes.filter(({ length }) => length > LONG), LONG, nodes)].sort(([one], [other]) => other.length - one.length);
  return (text, place) => {
    const name = partitions[place] ?? "", told = name.length > LONG ? text.replaceAll(name, toldApart([name], LONG / 2, partitions).get(name)!) : text;
    return written.reduce((cut, [node, short]) => cut.replaceAll(node, short), told);
  };
}

/** A name in a place of the stage, squeezed where it is a little too long. width: pixels     letter: width of one */
export function nameText(attributes: Record<string, string | number>, written: string, width: number, letter: number): SVGTextElement {
  const isTight = sizeOf(written) > lettersIn(width, letter);
  return s("text", { ...attributes, textLength: isTight ? width : undefined, lengthAdjust: isTight ? "spacingAndGlyphs" : undefined }, written);
}

export const lettersIn = (width: number, letter: number): number => Math.max(2, Math.floor(width / letter));
