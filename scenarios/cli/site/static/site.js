// The search, the copy buttons, and the chapters that are done. Everything else works without a script.
"use strict";
(() => {
  const root = document.currentScript.dataset.root;
  document.documentElement.classList.add("with-script");

  // ------------------------------------------------------------------------------------------------------- search

  const form = document.querySelector(".search");
  const input = document.getElementById("q");
  const box = document.getElementById("hits");
  const HITS_MAX = 12;
  let entries = null;
  let vocabulary = null;

  // The index is a script, not JSON: a page that was opened from a disk may not fetch.
  window.highwaterSearch = (found) => {
    entries = found.map(([page, kind, title, about, subject, words, rest]) => ({
      page, kind, title, about, fields: [[title, 6], [subject, 5], [words, 3], [about, 2], [rest, 1]].map(([text, worth]) => [new Set(wordsOf(text)), worth]),
    }));
    vocabulary = new Set(entries.flatMap((entry) => entry.fields.flatMap(([words]) => [...words])));
    show();
  };

  // Words that say nothing about a failure, and words that mean the same as another one.
  const STOP = new Set("a an and are as at be by can do does for from has have how i if in is it its my no not of on or the then there to was what when where which who why with".split(" "));
  const SAME = new Map(Object.entries({
    loss: "lost", lose: "lost", los: "lost", miss: "lost", disappear: "lost", vanish: "lost", messag: "record", dead: "kill", die: "kill", died: "kill", dy: "kill", crash: "kill",
    hang: "stuck", hung: "stuck", stall: "stuck", frozen: "stuck", stand: "stuck", hw: "watermark", duplicat: "twice", server: "broker", powercut: "power", reboot: "restart",
  }));
  const stemOf = (word) => {
    const stem = /[0-9._=]/.test(word) ? word : word.replace(/(ations?|ions?|ies|ing|es|ed|s|e)$/, "");
    return SAME.get(word) || SAME.get(stem) || (stem.length > 2 ? stem : word);
  };

  // A setting with its value is one word, and says most; an error code and its exception are one: acks=1, offset_out_of_range.
  const TOKEN = /kip-[0-9]+|kafka-[0-9]+|[a-z0-9]+(?:[._=][a-z0-9]+)*/g;
  // A Java package before it says nothing.
  const plain = (text) => text.replace(/\b(?:[a-z]+\.)+(?=[A-Z])/g, "").replace(/([a-z])([A-Z])/g, "$1_$2").toLowerCase().replace(/_exception\b/g, "");
  const partsOf = (token) => (/[._=]/.test(token) ? [token, token.split("=")[0], ...token.split(/[._=]/).filter((part) => part.length > 2)] : [token]);
  const wordsOf = (text) => (plain(text).match(TOKEN) || []).flatMap(partsOf).filter((word) => !STOP.has(word)).map(stemOf);

  // Each word that is searched for, with what may stand for it and how much that is worth.
  const askedFor = (query) => {
    const tokens = plain(query).replace(/\b(acks|[a-z]+(?:\.[a-z]+)+)[ =:]+([0-9]+|all|true|false)\b/g, "$1=$2").match(TOKEN) || [];
    const found = new Map();
    for (const token of tokens) {
      const [whole, key, ...parts] = partsOf(token);
      if (token.length > 1 && !STOP.has(token) && !/^[0-9]+$/.test(token)) found.set(token, [[stemOf(whole), /[=_]/.test(whole) ? 3 : 1], ...(key ? [[stemOf(key), 0.6]] : []), ...parts.map((part) => [stemOf(part), 0.1])]);
    }
    return [...found.values()];
  };
  const KIND_WORTH = { symptom: 1.5, scenario: 1.2, lesson: 1, document: 0.6 };

  const matchOf = (words, word) => {
    if (words.has(word)) return 1;
    if (word.length < 3) return 0;
    let best = 0;
    for (const one of words) best = Math.max(best, one.startsWith(word) ? 0.6 : word.length > 3 && one.includes(word) ? 0.4 : 0);
    return best;
  };

  // A query's word counts once in an entry, where it is worth most.
  const worthOf = (entry, alternatives) => Math.max(0, ...alternatives.flatMap(([word, share]) => entry.fields.map(([words, worth]) => matchOf(words, word) * worth * share)));

  // At most one letter is added, left out, wrong, or exchanged with the next one.
  const isNear = (word, other) => {
    let same = 0;
    while (same < word.length && word[same] === other[same]) same++;
    const [left, right] = [word.slice(same), other.slice(same)];
    const isExchanged = left[0] === right[1] && left[1] === right[0] && left.slice(2) === right.slice(2);
    return isExchanged || left.slice(1) === right || left === right.slice(1) || left.slice(1) === right.slice(1);
  };
  const nearest = ([[word]]) => (word.length < 4 ? [] : [...vocabulary].filter((one) => isNear(one, word)).map((one) => [one, 0.5]));
  const isKnown = (alternatives) => entries.some((entry) => worthOf(entry, alternatives) > 0);

  const isCode = ([[word] = [""]]) => /^[a-z]+(_[a-z]+)+$|^(kip|kafka)-/.test(word) && entries.some((entry) => entry.kind !== "document" && entry.fields.some(([words]) => words.has(word)));

  const search = (query) => {
    const asked = askedFor(query).map((alternatives) => (isKnown(alternatives) ? alternatives : nearest(alternatives)));
    if (!asked.length) return [];
    const worths = entries.map((entry) => asked.map((alternatives) => worthOf(entry, alternatives)));
    // A word that few entries have, or most only in passing, says more than one that many are about.
    const rare = asked.map((_, place) => Math.log(1 + entries.length / (1 + worths.reduce((sum, one) => sum + one[place] / 5, 0))));
    // Of a pasted line with an error code or a ticket, these should be there, and the rest says less.
    const codes = asked.flatMap((one, place) => (isCode(one) ? [place] : []));
    const counted = codes.length ? codes : [...asked.keys()];
    return entries
      .map((entry, number) => {
        const found = Math.max(0.1, counted.filter((place) => worths[number][place] > 0).length / counted.length);
        const sum = worths[number].reduce((total, one, place) => total + one * rare[place] * (counted.includes(place) ? 1 : 0.2), 0);
        return { entry, score: sum * found * found * KIND_WORTH[entry.kind] };
      })
      .filter((one) => one.score > 0)
      .sort((one, other) => other.score - one.score)
      .slice(0, HITS_MAX)
      .map((one) => one.entry);
  };

  const show = () => {
    const query = input.value.trim();
    box.hidden = !query || !entries;
    if (box.hidden) return;
    const found = search(query);
    box.replaceChildren();
    if (!found.length) {
      const all = element("a", "Nothing has these words. See the list of symptoms.");
      all.href = `${root}symptoms/index.html`;
      box.append(all);
      return;
    }
    const list = document.createElement("ol");
    for (const entry of found) {
      const link = element("a", "");
      link.href = root + entry.page;
      link.append(element("strong", entry.title), element("span", ` ${entry.kind}`, "quiet"));
      if (entry.about) link.append(document.createElement("br"), entry.about.length > 140 ? `${entry.about.slice(0, 140)}...` : entry.about);
      const item = document.createElement("li");
      item.append(link);
      list.append(item);
    }
    box.append(list);
  };

  const element = (name, text, kind) => {
    const made = document.createElement(name);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  const load = () => {
    if (document.getElementById("index")) return;
    const script = document.createElement("script");
    script.id = "index";
    script.src = `${root}search.js`;
    document.head.append(script);
  };

  form.hidden = false;
  input.addEventListener("focus", load);
  input.addEventListener("input", () => { load(); show(); });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const first = box.querySelector("a");
    if (first) location.href = first.href;
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "/" && !typing) { event.preventDefault(); input.focus(); }
    if (event.key === "Escape") box.hidden = true;
    if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !box.hidden && form.contains(event.target)) {
      const links = [input, ...box.querySelectorAll("a")];
      const next = links.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
      if (links[next]) { event.preventDefault(); links[next].focus(); }
    }
  });
  document.addEventListener("click", (event) => { if (!form.contains(event.target)) box.hidden = true; });

  // ------------------------------------------------------------------------------------- runs, copies and chapters

  // A run is loaded when it is opened: Chromium loads a lazy frame in a closed <details> as well.
  for (const player of document.querySelectorAll(".player")) {
    const frame = player.querySelector("iframe");
    player.addEventListener("toggle", () => { if (player.open && !frame.src) frame.src = frame.dataset.src; });
  }

  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copies).textContent);
      button.textContent = "Copied";
    });
  }

  // A chapter asks before it answers: what one sees, and the verdicts, are shown row by row.
  for (const row of document.querySelectorAll(".lesson tbody tr")) {
    const heads = row.closest("table").tHead.rows[0].cells;
    if (heads[1].textContent !== "predict") continue;
    const button = element("button", "Show");
    button.setAttribute("aria-label", `Show what one sees in ${row.cells[0].textContent}`);
    button.addEventListener("click", () => { row.classList.remove("asks"); button.remove(); });
    row.classList.add("asks");
    row.cells[2].prepend(button);
  }

  const keyOf = (chapter) => `highwater-done-${chapter}`;
  const remembered = (chapter) => { try { return localStorage.getItem(keyOf(chapter)) === "1"; } catch { return false; } };
  for (const check of document.querySelectorAll("[data-done]")) {
    check.closest(".done").hidden = false;
    check.checked = remembered(check.dataset.done);
    check.addEventListener("change", () => {
      try { localStorage.setItem(keyOf(check.dataset.done), check.checked ? "1" : "0"); } catch { /* It remembers nothing. */ }
    });
  }
  for (const item of document.querySelectorAll("[data-chapter]")) item.classList.toggle("is-done", remembered(item.dataset.chapter));
})();
