/* Order of search results: guide pages, then an object of exactly that name, then other pages, then the rest. */
var Scorer = {
  score: ([page, title, anchor, description, score, file, kind]) => {
    if (/^(guide\/|getting-started|tutorial|choosing|your-data|coming-from)/.test(page)) return score + (kind === "title" ? 45 : 30);
    if (kind === "object" && !anchor.startsWith("#module-")) return score > 15 ? score + 30 : score - 10;
    return /^(changelog|results|decisions\/|reference\/functions)/.test(page) ? score - 10 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
