// A page that runs: an editor for each cell, and Python in a worker (worker.js).
// This is loaded when a reader presses "Run this page" (run.js), and takes over the bar it is in.
import { AnsiUp } from "ansi_up";
import { basicSetup } from "codemirror";
import { python as language } from "@codemirror/lang-python";
import { syntaxHighlighting } from "@codemirror/language";
import { Prec } from "@codemirror/state";
import { EditorView, keymap } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { Python, button, element } from "./python.js";

const NEEDS_MORE = "This cell needs an installed Python: a browser has no other processes, and no OpenDP.";

/* ---- Cells */

// One output of a notebook as an element.
function drawn({ output_type: type, name, text, data, traceback }) {
  if (type === "stream") {
    return element("div", { className: `output ${name}` }, element("pre", { textContent: text }));
  }
  if (type === "error") {
    const pre = element("pre", { className: "traceback" });
    const ansi = new AnsiUp();
    ansi.use_classes = true;
    pre.innerHTML = ansi.ansi_to_html(traceback.join("\n"));
    return element("div", { className: "output error", role: "alert" }, pre);
  }
  const made = element("div", { className: "output text_html" });
  if (data["text/html"]) made.innerHTML = data["text/html"];
  else if (data["image/svg+xml"]) {
    const svg = new Blob([data["image/svg+xml"]], { type: "image/svg+xml" });
    made.append(element("img", { src: URL.createObjectURL(svg), alt: "" }));
  } else if (data["image/png"]) {
    made.append(element("img", { src: `data:image/png;base64,${data["image/png"]}`, alt: "" }));
  } else made.append(element("pre", { textContent: data["text/plain"] }));
  return made;
}

class Cell {
  constructor(root, number, page) {
    this.root = root;
    const stored = root.querySelector(".cell_input pre");
    this.original = stored.textContent.trimEnd();
    this.beyond = root.classList.contains("tag_not-in-browser");
    this.quiet = root.classList.contains("tag_remove-output"); // controls of a running notebook
    this.output = root.querySelector(":scope > .cell_output");
    this.ran = undefined; // the code that was run last
    const run = Prec.highest(
      keymap.of([{ key: "Shift-Enter", run: () => (page.runTo(this), true) }]),
    );
    this.editor = new EditorView({
      doc: this.original,
      extensions: [
        run,
        basicSetup,
        language(),
        syntaxHighlighting(classHighlighter),
        EditorView.contentAttributes.of({ "aria-label": `Code of cell ${number}` }),
      ],
    });
    // The theme's keys, such as / for the search, must not act while a reader types code.
    this.editor.dom.addEventListener("keydown", (event) => event.stopPropagation());
    this.mark = element("span", { className: "live-mark" });
    const name = (control) => {
      control.setAttribute("aria-label", `${control.textContent} cell ${number}`);
      return control;
    };
    const tools = element("div", { className: "live-tools" }, this.mark);
    if (this.beyond) this.mark.textContent = NEEDS_MORE;
    else tools.prepend(name(button("Run", () => page.runTo(this))), name(button("Reset", () => this.reset())));
    const place = stored.closest("div.highlight")?.parentElement ?? stored;
    place.replaceWith(element("div", { className: "live-cell" }, this.editor.dom, tools));
  }

  get code() {
    return this.editor.state.doc.toString();
  }

  get stale() {
    return !this.beyond && this.ran !== this.code;
  }

  reset() {
    this.editor.dispatch({ changes: { from: 0, to: this.editor.state.doc.length, insert: this.original } });
    this.shown?.replaceWith(...(this.output ? [this.output] : []));
    if (this.shown && !this.output) this.shown.remove();
    this.shown = undefined;
    this.mark.textContent = "";
  }

  // New outputs replace the stored ones, whose caption stays.
  #clear() {
    const place = element("div", { className: "cell_output docutils container" });
    const before = this.shown ?? this.output;
    if (before) before.replaceWith(place);
    else this.root.append(place);
    this.shown = place;
    this.stream = undefined;
  }

  #show(output) {
    if (this.quiet && output.output_type !== "error") return;
    const { output_type: type, name, text } = output;
    if (type === "stream" && this.stream?.name === name) {
      this.stream.pre.append(text);
      return;
    }
    const made = drawn(output);
    this.stream = type === "stream" ? { name, pre: made.querySelector("pre") } : undefined;
    const image = made.querySelector(":scope > img");
    const figure = this.output?.querySelector("figure");
    if (image && figure && !this.shown.querySelector("figure")) {
      const copy = figure.cloneNode(true);
      const old = copy.querySelector("img");
      image.alt = `Drawn anew. As it was: ${old.alt}`;
      old.replaceWith(image);
      this.shown.prepend(copy);
    } else {
      if (image) image.alt = "A picture that this cell has drawn";
      this.shown.append(made);
    }
  }

  async run(python) {
    const code = this.code;
    this.mark.textContent = "running";
    this.root.classList.add("live-running");
    this.#clear();
    const ok = await python.run(code, (output) => this.#show(output));
    this.root.classList.remove("live-running");
    this.ran = ok ? code : undefined;
    this.mark.textContent = ok ? "done" : ok === undefined ? "stopped" : "error";
    return ok;
  }
}

/* ---- The page */

class Page {
  constructor(bar) {
    this.status = bar.querySelector("[role=status]");
    this.python = new Python((text) => this.tell(text));
    const roots = [...document.querySelectorAll("article div.cell")].filter((root) =>
      root.querySelector(".cell_input pre"),
    );
    this.cells = roots.map((root, index) => new Cell(root, index + 1, this));
    this.all = button("Run all", () => this.runAll());
    this.end = button("Stop", () => this.stop());
    this.back = button("Reset all", () => this.cells.forEach((cell) => cell.reset()));
    bar.replaceChildren(this.all, this.end, this.back, this.status);
    this.busy(true);
  }

  tell(text) {
    this.status.textContent = text;
  }

  busy(is) {
    this.working = is;
    document.documentElement.dataset.live = is ? "busy" : "ready";
    this.all.disabled = is;
    this.end.disabled = !is;
  }

  async start() {
    this.busy(true);
    try {
      await this.python.start();
    } catch (error) {
      this.tell(`Python did not start: ${error.message}`);
      document.documentElement.dataset.live = "failed";
      return;
    }
    this.tell("Python is ready. Change a cell and run it: Shift and Enter.");
    this.busy(false);
  }

  async run(cells) {
    if (this.working) return;
    this.busy(true);
    for (const [index, cell] of cells.entries()) {
      this.tell(`Running cell ${index + 1} of ${cells.length}`);
      const ok = await cell.run(this.python);
      if (ok === undefined) return; // stopped, which starts Python again
      if (!ok) {
        this.tell("A cell ended with an error, which stands below it.");
        this.busy(false);
        return;
      }
    }
    this.tell("Done.");
    this.busy(false);
  }

  runAll() {
    return this.run(this.cells.filter((cell) => !cell.beyond));
  }

  // Cells above that have not been run are run first, since this one may need what they define.
  runTo(last) {
    const above = this.cells.slice(0, this.cells.indexOf(last)).filter((cell) => cell.stale);
    return this.run([...above, last]);
  }

  stop() {
    this.python.stop();
    for (const cell of this.cells) cell.ran = undefined;
    this.start();
  }
}

const bar = document.querySelector(".live-bar");
const page = new Page(bar);
window.livePage = page;
page.start();
