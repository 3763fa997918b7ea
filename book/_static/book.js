// What Sphinx and the widgets leave out for readers who use a keyboard or a screen reader.
"use strict";

// Wide content that scrolls by itself must be reachable by keyboard.
function makeScrollable() {
  const wide = "table, pre, div.math, mjx-container";
  for (const element of document.querySelectorAll(`article :is(${wide})`)) {
    if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
  }
}

// The handle of a slider gets the slider's label as its name.
function nameSliders() {
  for (const handle of document.querySelectorAll(".noUi-handle:not([aria-label])")) {
    const label = handle.closest(".widget-inline-hbox")?.querySelector(".widget-label");
    if (label?.textContent) handle.setAttribute("aria-label", label.textContent);
  }
}

// Docutils calls the bibliography a list, but not its entries the items of one.
function unlistCitations() {
  for (const list of document.querySelectorAll(".citation-list")) {
    list.removeAttribute("role");
    for (const entry of list.children) entry.removeAttribute("role");
  }
}

// Widgets ask for the interface of MathJax 2 to typeset their labels; the book has MathJax 3.
function typesetLabels() {
  if (!window.MathJax?.startup) return;
  window.MathJax.Hub = {
    Queue([, , element]) {
      element.classList.add("mathjax_process");
      window.MathJax.startup.promise.then(() => window.MathJax.typesetPromise([element]));
    },
  };
}

document.addEventListener("DOMContentLoaded", typesetLabels);
window.addEventListener("load", () => {
  const article = document.querySelector("article");
  if (!article) return;
  new MutationObserver(nameSliders).observe(article, { childList: true, subtree: true });
  nameSliders();
  unlistCitations();
  makeScrollable();
  window.MathJax?.startup?.promise?.then(makeScrollable);
});
window.addEventListener("resize", makeScrollable);
