// An interactive plane: eight arms and theta, which are dragged or moved by arrow keys. The pair with
// the largest parallelogram is found here. The private design and the success rates come from the
// library, once Python has been started. The address holds all positions.
"use strict";

(() => {
  const ARMS = "90,20 30,80 70,60 20,40 50,10 10,90 60,30 40,50"; // in hundredths
  const START = { arms: ARMS, theta: "60,35", T: "400", epsilon: "0.5" };
  const SIDE = 360;
  const MARGIN = 24;
  const UNIT = (SIDE - 2 * MARGIN) / 1.15; // arms lie between 0 and 1, and beyond is room for the box
  const SVG = "http://www.w3.org/2000/svg";
  const POLICIES = ["DP-BAI", "DP-Design", "OD-LinBAI, not private"];

  const make = (name, attributes = {}, ...children) => {
    const svg = ["svg", "circle", "polygon", "line", "text", "g"].includes(name);
    const made = svg ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const x = (value) => MARGIN + value * UNIT;
  const y = (value) => SIDE - x(value);
  const read = (text) => text.split(" ").map((pair) => pair.split(",").map((part) => part / 100));
  const write = (points) => points.map((point) => point.map((part) => Math.round(part * 100)).join()).join(" ");
  const round = (exponent) => Number((10 ** exponent).toPrecision(2));
  const area = ([a, b], [c, d]) => Math.abs(a * d - b * c);

  function largestPair(arms) {
    let best = [0, 1];
    for (let i = 0; i < arms.length; i++) {
      for (let j = i + 1; j < arms.length; j++) {
        if (area(arms[i], arms[j]) > area(arms[best[0]], arms[best[1]]) + 1e-12) best = [i, j];
      }
    }
    return best;
  }

  class Plane {
    constructor(root) {
      this.root = root;
      this.build();
      this.load((name) => window.bookState.get(name) ?? START[name]);
    }

    build() {
      this.discs = make("g", { class: "discs" });
      this.box = make("polygon", { class: "box" });
      this.ray = make("line", { class: "theta" });
      this.arms = read(ARMS).map((_, index) => this.handle(`arm ${index + 1}`, "arm", () => this.points[index]));
      this.tip = this.handle("theta", "tip", () => this.theta);
      const drawing = make("svg", { viewBox: `0 0 ${SIDE} ${SIDE}`, role: "group", "aria-label": "The plane" });
      for (const side of [[0, 0, 1, 0], [0, 0, 0, 1]]) {
        const [x1, y1, x2, y2] = side;
        drawing.append(make("line", { class: "axis", x1: x(x1), y1: y(y1), x2: x(x2), y2: y(y2) }));
      }
      drawing.append(this.discs, this.box, this.ray, ...this.arms, this.tip);
      this.drawing = drawing;
      this.T = this.slider("T", "T, pulls in all", Math.log10(50), Math.log10(5000), round);
      this.epsilon = this.slider("epsilon", "ε, privacy", -1.5, 1, round);
      this.status = make("p", { role: "status" });
      this.bars = make("div", { class: "bars" });
      this.starter = this.button("Start Python for the design and success", () => this.start());
      const copy = this.button("Copy link", () => navigator.clipboard.writeText(location.href));
      const reset = this.button("Reset", () => this.load((name) => START[name]));
      this.root.append(
        drawing,
        make("div", {}, this.T.label, this.epsilon.label, this.status, this.bars, this.starter, " ", copy, " ", reset),
      );
      this.starter.hidden = !document.querySelector("script[src*='run.js']"); // no Python in this book
    }

    button(text, action) {
      const made = make("button", { type: "button" }, text);
      made.addEventListener("click", action);
      return made;
    }

    slider(name, text, min, max, value) {
      const shown = make("output");
      const input = make("input", { type: "range", min, max, step: 0.05, "aria-label": text });
      const control = { input, label: make("label", {}, `${text}: `, shown, input), value: () => value(input.value) };
      control.show = () => {
        shown.value = control.value();
        input.setAttribute("aria-valuetext", control.value());
      };
      input.addEventListener("input", () => this.changed());
      return control;
    }

    // A point that is dragged, or moved by arrow keys by 0.02.
    handle(name, kind, point) {
      const mark = make("text", {}, kind === "arm" ? name.slice(4) : "θ");
      const circle = make("g", { class: kind, tabindex: 0, role: "button" }, make("circle", { r: 9 }), mark);
      const move = (first, second) => {
        const kept = [first, second].map((part) => Math.min(1, Math.max(0, Math.round(part * 100) / 100)));
        if (kind === "tip") {
          const most = Math.max(1, kept[0] + kept[1]); // means stay at most 1
          kept.forEach((part, index) => { kept[index] = Math.floor((part / most) * 100) / 100; });
        }
        Object.assign(point(), kept);
        this.changed();
      };
      circle.addEventListener("pointerdown", (event) => {
        circle.setPointerCapture(event.pointerId);
        event.preventDefault();
        circle.focus();
      });
      circle.addEventListener("pointermove", (event) => {
        if (!circle.hasPointerCapture(event.pointerId)) return;
        const { left, top, width } = this.drawing.getBoundingClientRect();
        const scale = SIDE / width;
        move(
          ((event.clientX - left) * scale - MARGIN) / UNIT,
          (SIDE - MARGIN - (event.clientY - top) * scale) / UNIT,
        );
      });
      circle.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
        if (!step) return;
        event.preventDefault();
        event.stopPropagation();
        move(point()[0] + 0.02 * step[0], point()[1] + 0.02 * step[1]);
      });
      return circle;
    }

    load(get) {
      this.points = read(get("arms"));
      [this.theta] = read(get("theta"));
      this.T.input.value = Math.log10(get("T"));
      this.epsilon.input.value = Math.log10(get("epsilon"));
      clearTimeout(this.waiting);
      this.draw();
      this.ask();
    }

    changed() {
      const state = { arms: write(this.points), theta: write([this.theta]), T: this.T.value(), epsilon: this.epsilon.value() };
      for (const [name, value] of Object.entries(state)) window.bookState.set(name, value);
      this.answer = undefined;
      this.draw();
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.ask(), 300);
    }

    draw() {
      this.T.show();
      this.epsilon.show();
      const pair = largestPair(this.points);
      const [a, b] = pair.map((index) => this.points[index]);
      const corners = [[0, 0], a, [a[0] + b[0], a[1] + b[1]], b];
      this.box.setAttribute("points", corners.map((corner) => `${x(corner[0])},${y(corner[1])}`).join(" "));
      const means = this.points.map((arm) => arm[0] * this.theta[0] + arm[1] * this.theta[1]);
      const best = means.indexOf(Math.max(...means));
      for (const [index, arm] of this.arms.entries()) {
        const [first, second] = this.points[index];
        arm.setAttribute("transform", `translate(${x(first)} ${y(second)})`);
        arm.classList.toggle("pair", pair.includes(index));
        arm.classList.toggle("best", index === best);
        arm.setAttribute("aria-label", `arm ${index + 1} at ${first}, ${second}, mean ${means[index].toFixed(3)}`);
      }
      const [first, second] = this.theta;
      for (const [key, value] of Object.entries({ x1: x(0), y1: y(0), x2: x(first), y2: y(second) })) {
        this.ray.setAttribute(key, value);
      }
      this.tip.setAttribute("transform", `translate(${x(first)} ${y(second)})`);
      this.tip.setAttribute("aria-label", `theta at ${first}, ${second}`);
      this.status.textContent = `Max-Det pair: arms ${pair[0] + 1} and ${pair[1] + 1}, area ${area(a, b).toFixed(3)}. `
        + `Best: arm ${best + 1}, mean ${means[best].toFixed(3)}.`;
      this.drawAnswer();
    }

    // Discs whose areas are the shares of pulls in the private design, and bars of success rates.
    drawAnswer() {
      const { pulls = [], success = {} } = this.answer ?? {};
      const all = pulls.reduce((sum, n) => sum + n, 0);
      const discs = pulls.map((n, index) => {
        const [first, second] = this.points[index];
        return make("circle", { cx: x(first), cy: y(second), r: 60 * Math.sqrt(n / all) });
      });
      this.discs.replaceChildren(...discs);
      if (!this.python) return;
      this.bars.replaceChildren(...POLICIES.map((name) => {
        const rate = success[name];
        const bar = make("div", { class: "bar", style: `width: ${100 * (rate ?? 0)}%` });
        return make("div", {}, `${name}: ${rate === undefined ? "…" : rate.toFixed(3)}`, bar);
      }));
      if (all) {
        const shares = pulls.flatMap((n, index) => (n ? [`arm ${index + 1} ${Math.round((100 * n) / all)} %`] : []));
        this.status.append(` DP-Design's design: ${shares.join(", ")}.`);
      }
    }

    async start() {
      this.starter.disabled = true;
      const folder = new URL("live/", document.querySelector("script[src*='plane.js']").src).href;
      for (const name of ["files.js", "python.js"]) {
        await new Promise((resolve, reject) => {
          const script = make("script", { src: folder + name });
          script.addEventListener("load", resolve);
          script.addEventListener("error", reject);
          document.head.append(script);
        });
      }
      const python = new window.livePython.Python((text) => { this.starter.textContent = text; });
      await python.start();
      this.python = python;
      this.starter.remove();
      this.ask();
    }

    // One computation at a time. If a value has changed meanwhile, another one follows.
    async ask() {
      if (!this.python || this.asking) return;
      this.asking = true;
      this.draw();
      const state = [this.points, this.theta, this.T.value(), this.epsilon.value()];
      const before = JSON.stringify(state);
      const code = `from book.live.plane import told\nprint(told(*${before}))`;
      let text = "";
      const ok = await this.python.run(code, (output) => { text += output.text ?? output.evalue ?? ""; });
      this.asking = false;
      if (JSON.stringify([this.points, this.theta, this.T.value(), this.epsilon.value()]) !== before) {
        this.ask();
        return;
      }
      this.answer = ok ? JSON.parse(text) : {};
      this.draw();
      if (!ok) this.status.append(` ${text}`);
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const root of document.querySelectorAll("article .plane")) root.planeOf = new Plane(root);
  });
})();
