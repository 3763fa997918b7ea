// The order of search results: first statements and headings with these names, then pages by BM25,
// with chapters before the back matter.
"use strict";

const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
const asked = words(new URLSearchParams(location.search).get("q") ?? "");
const BACK_MATTER = /^book\/(notation|api|ledger|status|cite|bibliography|questions|check_it)/;
const GLOSSARY = /^book\/notation/;
const SATURATION = 1.2;
const counted = new Map(); // words of each page, and how many there are

function countAll() {
  for (const [page, text] of Object.entries(window.searchTexts ?? {})) {
    const times = new Map();
    const all = words(text.replace(/<[^>]*>/g, " "));
    for (const word of all) times.set(word, (times.get(word) ?? 0) + 1);
    counted.set(page, { times, length: all.length });
  }
}

function relevance(page) {
  if (!counted.size) countAll();
  const found = counted.get(page);
  if (!found) return 0;
  const pages = [...counted.values()];
  const mean = pages.reduce((sum, { length }) => sum + length, 0) / pages.length;
  const points = asked.map((word) => {
    const having = pages.filter(({ times }) => times.has(word)).length;
    const rarity = Math.log(1 + (pages.length - having + 0.5) / (having + 0.5));
    const times = found.times.get(word) ?? 0;
    return (rarity * times) / (times + SATURATION * (0.25 + (0.75 * found.length) / mean));
  });
  return points.reduce((sum, x) => sum + x, 0);
}

var Scorer = {
  score([page, title, , description, points]) {
    if (description) { // an object of the reference: it counts where its whole name has been asked for
      const name = words(title).join();
      return points + (name === asked.join() ? 60 : name === `dpbai,${asked}` ? 15 : -20);
    }
    const named = points >= 100 && !GLOSSARY.test(page); // an entry of the index, like "Theorem 4.2"
    const heading = words(title.replace(/.* > /, ""));
    const titled = asked.every((word) => heading.includes(word));
    return (named ? points : Math.min(points, 30)) + 10 * relevance(page)
      + (titled ? 20 + (20 * asked.length) / heading.length : 0)
      - (BACK_MATTER.test(page) ? 40 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 30,
  partialTitle: 20,
  term: 5,
  partialTerm: 2,
};
