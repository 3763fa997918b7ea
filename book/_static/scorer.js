// How search results are ordered: titles before text, chapters before the back matter.
"use strict";

// An entry of the glossary counts 100.
const BACK_MATTER = /^book\/(notation|api|ledger|status|cite|bibliography|questions)/;

var Scorer = {
  score: ([page, , , , points]) => points - (BACK_MATTER.test(page) ? 110 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 30,
  partialTitle: 20,
  term: 5,
  partialTerm: 2,
};
