// What Sphinx lacks for readers who use a keyboard or a screen reader; cards for links; and settings
// that are kept in the address.
"use strict";

const WIDE = "article :is(table, pre, div.math, mjx-container, .cell_output > .output)";

// Wide content that scrolls by itself must be reachable by keyboard, and nothing else.
function makeScrollable() {
  for (const element of document.querySelectorAll(WIDE)) {
    // A formula also holds words for screen readers, out of sight, which may be longer.
    const formula = element.querySelector(":scope > mjx-math");
    const width = formula ? formula.getBoundingClientRect().width : element.scrollWidth;
    const scrolls = width > element.clientWidth + 1
      && /auto|scroll/.test(getComputedStyle(element).overflowX);
    element.classList.toggle("scrolls", scrolls);
    if (scrolls && element.tabIndex !== 0) element.tabIndex = 0;
    else if (!scrolls && element.hasAttribute("tabindex")) element.removeAttribute("tabindex");
  }
}

// Which elements scroll changes with the window, when a fold opens, and when a font is loaded. The theme
// also makes code focusable when the page changes, by another rule, which is undone here.
function keepScrollable(article) {
  const sizes = new ResizeObserver(makeScrollable);
  for (const element of document.querySelectorAll(WIDE)) sizes.observe(element);
  const theirs = new MutationObserver(makeScrollable);
  theirs.observe(article, { subtree: true, attributes: true, attributeFilter: ["tabindex"] });
}

// On a phone, printed columns stay columns and scroll, and sentences are wrapped.
function keepColumns() {
  for (const printed of document.querySelectorAll("article :is(.cell_output, .highlight-none) pre")) {
    const rows = printed.textContent.split("\n").filter((line) => /\S {2,}\S/.test(line));
    printed.classList.toggle("columns", rows.length > 1);
  }
}

// A tap on a picture that is shown smaller than its size shows it at that size, in a box that scrolls.
function enlarge({ target }) {
  const picture = target.matches("article :is(figure, .explorer) img");
  if (!picture || target.naturalWidth < 1.2 * target.width) return;
  const dialog = document.createElement("dialog");
  dialog.className = "enlarged";
  dialog.ariaLabel = "The picture at full size";
  const close = document.createElement("button");
  close.textContent = "Close";
  const image = target.cloneNode();
  dialog.append(close, image);
  dialog.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  target.closest("article").append(dialog);
  dialog.showModal();
}

// The Enter key enlarges the same pictures as a tap: those that are shown smaller than their size.
function offerEnlarging() {
  for (const image of document.querySelectorAll("article :is(figure, .explorer) img")) {
    const small = image.naturalWidth >= 1.2 * image.width && image.width > 0;
    if (small) image.tabIndex = 0;
    else image.removeAttribute("tabindex");
  }
}

// The values that a reader has chosen are kept after the # of the address, as name=value, so that they
// can be shared. Explorers and the plane use `bookState`.
window.bookState = {
  read: () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : ""),
  get: (name) => window.bookState.read().get(name),
  set(name, value) {
    const state = window.bookState.read();
    if (value === undefined) state.delete(name);
    else state.set(name, value);
    history.replaceState(null, "", `#${state}`);
  },
};

function keepExplorers() {
  const controls = document.querySelectorAll("article .explorer :is(input, select)");
  for (const [number, control] of controls.entries()) {
    const name = `explorer${number + 1}`;
    const chosen = window.bookState.get(name);
    if (chosen !== null) {
      control.value = chosen;
      control.dispatchEvent(new Event("input"));
      control.closest(".explorer").scrollIntoView({ block: "center" });
    }
    control.addEventListener("input", () => window.bookState.set(name, control.value));
    // Frames are loaded when the pointer or the focus reaches the control, before they are shown.
    const load = () => {
      for (const image of control.closest(".explorer").querySelectorAll("img")) image.loading = "eager";
    };
    for (const event of ["focus", "pointerenter", "touchstart"]) {
      control.addEventListener(event, load, { once: true, passive: true });
    }
  }
}

// Without this, a browser may break a line between a formula and the comma after it.
function keepPunctuation() {
  for (const math of document.querySelectorAll("article span.math")) {
    const [mark] = /^[^\s\p{L}\p{N}(]+/u.exec(math.nextSibling?.nodeValue ?? "") ?? [];
    if (!mark) continue;
    math.nextSibling.splitText(mark.length);
    const together = document.createElement("span");
    together.style.whiteSpace = "nowrap";
    math.replaceWith(together);
    together.append(math, together.nextSibling);
  }
}

// Docutils calls the bibliography a list, but not its entries the items of one.
function unlistCitations() {
  for (const list of document.querySelectorAll(".citation-list")) {
    list.removeAttribute("role");
    for (const entry of list.children) entry.removeAttribute("role");
  }
}

const root = document.documentElement.dataset.content_root;

function loadScript(name) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `${root}_static/${name}`;
    script.addEventListener("load", resolve);
    script.addEventListener("error", reject);
    document.head.append(script);
  });
}

// The search shows words as they are read on the pages. The script search_texts.js holds them, since no
// page can be fetched on the file system, and since fetched ones have the code of formulas.
function answerFromScript() {
  if (!/search\.html$/.test(location.pathname)) return;
  window.fetch = async (address) => {
    const page = String(address).replace(root, "").replace(/\.html$/, "");
    return new Response(window.searchTexts[page] ?? "");
  };
}

// A link to a theorem, a formula, an erratum or a term shows it on a card, when the pointer rests on
// it, or it has the focus. A finger's first tap shows the card, the second one follows the link.
const CARDS = /#(alg|cor|def|equation|erratum|lem|obs|prop|remark|term|thm)-/;
const REST = 250; // milliseconds that a pointer rests before a card comes, and is away before it goes

function offerCards(article) {
  const base = new URL(root, location.href).href;
  const pointed = ({ target }) => {
    const link = target.closest?.("a[href]:not(.headerlink)");
    return link && CARDS.test(link.href) && link.href.startsWith(base) ? link : null;
  };
  const card = document.createElement("div");
  card.id = "card";
  card.className = "book-card";
  card.popover = "manual";
  card.setAttribute("role", "tooltip");
  article.append(card);
  let shown = null; // the link whose card is shown, and its place when it was
  let wanted = null; // the link whose card was asked for last
  let place = 0;
  let timer;

  function hide() {
    clearTimeout(timer);
    shown?.removeAttribute("aria-describedby");
    shown = wanted = null;
    if (card.matches(":popover-open")) card.hidePopover();
  }

  async function show(link) {
    if (link === shown) return true;
    hide();
    wanted = link;
    if (!window.cardTexts) await loadScript("card_texts.js");
    const text = window.cardTexts[decodeURI(link.href.slice(base.length))];
    if (!text) return false;
    if (link !== wanted) return true;
    shown = link;
    place = link.getBoundingClientRect().top;
    card.innerHTML = text;
    for (const inner of card.querySelectorAll("a[href]")) {
      if (!/^[a-z]+:/.test(inner.getAttribute("href"))) inner.href = base + inner.getAttribute("href");
    }
    link.setAttribute("aria-describedby", card.id);
    card.showPopover();
    await window.MathJax?.typesetPromise?.([card]);
    const { left, top, bottom } = link.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = card;
    const below = bottom + 8 + height <= innerHeight || bottom < innerHeight - top;
    card.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
    card.style.top = `${below ? bottom + 4 : Math.max(4, top - height - 4)}px`;
    card.style.maxHeight = `${below ? innerHeight - bottom - 8 : top - 8}px`;
    return true;
  }

  const later = (task) => {
    clearTimeout(timer);
    timer = setTimeout(task, REST);
  };
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const link = pointed(event);
    if (card.contains(event.target)) clearTimeout(timer);
    else if (link) later(() => show(link));
    else if (shown && shown !== document.activeElement) later(hide);
    else if (!shown) hide();
  });
  article.addEventListener("focusin", (event) => {
    const link = pointed(event);
    if (link?.matches(":focus-visible") && !card.contains(link)) show(link);
  });
  article.addEventListener("focusout", ({ target }) => target === shown && hide());
  document.addEventListener("keydown", ({ key }) => key === "Escape" && hide());
  document.addEventListener("click", (event) => {
    const link = pointed(event);
    if (card.contains(event.target) && !link) return;
    if (event.pointerType === "touch" && link && link !== shown) {
      event.preventDefault();
      show(link).then((there) => there || location.assign(link.href));
    } else hide();
  });
  const scrolled = () => Math.abs(shown.getBoundingClientRect().top - place) > 100 && hide();
  window.addEventListener("scroll", () => shown && scrolled(), { passive: true });
}

// On the file system, a link to a notebook would show its text: a ZIP file of it is linked instead.
function saveNotebooks() {
  for (const link of document.querySelectorAll("a.btn-download-source-button[href$='.ipynb']")) {
    if (location.protocol === "file:") link.setAttribute("href", `${link.getAttribute("href")}.zip`);
    else link.download = "";
  }
}

// The arrows of the sidebar are named after what they open. A button of the theme that loses the focus
// when it is pressed by a key gets it back.
function nameArrows() {
  for (const arrow of document.querySelectorAll(".bd-sidebar details > summary")) {
    const page = arrow.closest("li")?.querySelector("a")?.textContent.trim();
    arrow.ariaLabel = `Pages of ${page}`;
  }
}

function keepFocus({ target, detail }) {
  const button = target.closest?.(".sidebar-toggle, .theme-switch-button");
  if (!button || detail) return;
  setTimeout(() => document.activeElement === document.body && button.focus());
}

// A page is printed in light colours and with its folded tables open. Afterwards both are undone.
function printLight() {
  const root = document.documentElement;
  let before;
  let closed = [];
  const begin = () => {
    before ??= root.dataset.theme;
    root.dataset.theme = "light";
    const found = document.querySelectorAll(".bd-article details.sd-dropdown:not([open])");
    for (const part of found) part.open = true;
    closed.push(...found);
  };
  const end = () => {
    if (before) root.dataset.theme = before;
    before = undefined;
    for (const part of closed) part.open = false;
    closed = [];
  };
  window.addEventListener("beforeprint", begin);
  window.addEventListener("afterprint", end);
  matchMedia("print").addEventListener("change", ({ matches }) => (matches ? begin() : end()));
}

printLight();
document.addEventListener("click", keepFocus, true);
document.addEventListener("DOMContentLoaded", nameArrows);
answerFromScript();
document.addEventListener("DOMContentLoaded", saveNotebooks);
document.addEventListener("DOMContentLoaded", keepPunctuation);
window.addEventListener("load", () => {
  const article = document.querySelector("article");
  if (!article) return;
  keepExplorers();
  offerEnlarging();
  offerCards(article);
  unlistCitations();
  keepColumns();
  makeScrollable();
  keepScrollable(article);
  article.addEventListener("click", enlarge);
  article.addEventListener("keydown", (event) => event.key === "Enter" && enlarge(event));
  window.MathJax?.startup?.promise?.then(makeScrollable);
});
window.addEventListener("resize", () => {
  makeScrollable();
  offerEnlarging();
});
