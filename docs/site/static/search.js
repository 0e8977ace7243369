/* Ranks search results; build_site.py puts PAGES in front: what each page is about, and its section. */
const BONUS = { "Start here": 6, Guides: 6, Reference: 6, Gallery: 3, Benchmarks: 0, Development: -4 };

var Scorer = {
  score: (result) => {
    const [page, , , description, score] = result;
    const [section, summary] = PAGES[page] || ["", ""];
    /* Opened from a folder, a page cannot read others to quote them. */
    if (location.protocol === "file:" && !description) result[3] = summary;
    return score + (BONUS[section] || 0);
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
