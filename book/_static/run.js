// The button that starts Python in the page. Everything else is loaded when it is pressed.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const here = document.currentScript ?? document.querySelector("script[src*='run.js']");
  const folder = new URL("live/", here.src).href;
  const title = document.querySelector("article h1");
  const bar = document.createElement("div");
  bar.className = "live-bar";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Run this page");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Run this page";
  const status = document.createElement("span");
  status.setAttribute("role", "status");
  status.textContent = "Change its code and see what follows: Python starts in your browser.";
  bar.append(button, status);
  title.after(bar);
  const load = (name) => new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = folder + name;
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error(`${name} is missing`)));
    document.head.append(script);
  });
  button.addEventListener("click", async () => {
    button.disabled = true;
    status.textContent = "Loading";
    try {
      await load("files.js");
      await load("page.js");
    } catch (error) {
      status.textContent = `Python could not be loaded: ${error.message}`;
      button.disabled = false;
    }
  });
});
