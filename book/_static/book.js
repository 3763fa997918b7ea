// What Sphinx leaves out for readers who use a keyboard or a screen reader, and what a page keeps in
// its address.
"use strict";

// Wide content that scrolls by itself must be reachable by keyboard, and nothing else.
function makeScrollable() {
  const wide = "table, pre, div.math, mjx-container";
  for (const element of document.querySelectorAll(`article :is(${wide})`)) {
    // A formula also holds words for screen readers, out of sight, which may be longer.
    const formula = element.querySelector(":scope > mjx-math");
    const width = formula ? formula.getBoundingClientRect().width : element.scrollWidth;
    const scrolls = width > element.clientWidth + 1
      && /auto|scroll/.test(getComputedStyle(element).overflowX);
    element.classList.toggle("scrolls", scrolls);
    if (scrolls) element.tabIndex = 0;
    else element.removeAttribute("tabindex");
  }
}

// Printed columns stay columns on a phone, and scroll; sentences go on in the next line.
function keepColumns() {
  for (const printed of document.querySelectorAll("article .cell_output pre")) {
    const rows = printed.textContent.split("\n").filter((line) => /\S {2,}\S/.test(line));
    printed.classList.toggle("columns", rows.length > 2);
  }
}

// Where there is no room for a picture's own size, a tap shows it at that size, to be moved about.
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

// Pictures that a tap enlarges, the Enter key enlarges too; where they have room, neither does.
function offerEnlarging() {
  for (const image of document.querySelectorAll("article :is(figure, .explorer) img")) {
    const small = image.naturalWidth >= 1.2 * image.width && image.width > 0;
    if (small) image.tabIndex = 0;
    else image.removeAttribute("tabindex");
  }
}

// What a reader has chosen is kept behind the # of the address, as name=value, so that it can be
// shared; `bookState` is used by explorers and by the plane.
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
    // Frames are loaded before they are shown, and not before somebody comes near.
    const load = () => {
      for (const image of control.closest(".explorer").querySelectorAll("img")) image.loading = "eager";
    };
    for (const event of ["focus", "pointerenter", "touchstart"]) {
      control.addEventListener(event, load, { once: true, passive: true });
    }
  }
}

// A browser may break a line between a formula and the comma behind it.
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

// On the file system a page cannot be fetched: the search finds the words of all pages in a script.
function answerFromScript() {
  if (!/search\.html$/.test(location.pathname) || location.protocol !== "file:") return;
  const root = document.documentElement.dataset.content_root;
  const loaded = new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = `${root}_static/search_texts.js`;
    script.addEventListener("load", () => resolve(window.searchTexts));
    document.head.append(script);
  });
  window.fetch = async (address) => {
    const page = String(address).replace(root, "").replace(/\.html$/, "");
    return new Response((await loaded)[page] ?? "");
  };
}

// There, a link to a notebook shows its text: beside it is a file that a browser saves.
function saveNotebooks() {
  for (const link of document.querySelectorAll("a.btn-download-source-button[href$='.ipynb']")) {
    if (location.protocol === "file:") link.setAttribute("href", `${link.getAttribute("href")}.zip`);
    else link.download = "";
  }
}

answerFromScript();
document.addEventListener("DOMContentLoaded", saveNotebooks);
document.addEventListener("DOMContentLoaded", keepPunctuation);
window.addEventListener("load", () => {
  const article = document.querySelector("article");
  if (!article) return;
  keepExplorers();
  offerEnlarging();
  unlistCitations();
  keepColumns();
  makeScrollable();
  article.addEventListener("click", enlarge);
  article.addEventListener("keydown", (event) => event.key === "Enter" && enlarge(event));
  window.MathJax?.startup?.promise?.then(makeScrollable);
});
window.addEventListener("resize", () => {
  makeScrollable();
  offerEnlarging();
});
