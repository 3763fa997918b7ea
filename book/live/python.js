// Python in a worker (worker.js), and the files that it needs.
import workerSource from "./worker.js" with { type: "text" };

const { archive, packages, files } = window.liveBook; // live/files.js
const folder = new URL("./", document.currentScript.src).href;

export const element = (name, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};
export const button = (text, action) => {
  const made = element("button", { type: "button", textContent: text });
  made.addEventListener("click", action);
  return made;
};

/* ---- Files: each is a script that holds it in base64, the one form that file:// lets a page read. */

async function loadFile({ name, script, zipped }) {
  const tag = element("script", { src: folder + script });
  const text = await new Promise((resolve, reject) => {
    window.liveFile = resolve;
    tag.addEventListener("error", () => reject(new Error(`${script} is missing`)));
    document.head.append(tag);
  });
  tag.remove();
  const decoded = await (await fetch(`data:application/octet-stream;base64,${text}`)).blob();
  if (!zipped) return [name, decoded];
  const unzipped = decoded.stream().pipeThrough(new DecompressionStream("gzip"));
  return [name, await new Response(unzipped).blob()];
}

/* ---- Python: one worker, one cell at a time. */

export class Python {
  #worker;
  #answer;
  #given;
  constructor(tell) {
    this.tell = tell;
  }

  async start() {
    if (!this.#given) {
      const all = files.reduce((sum, file) => sum + file.bytes, 0);
      this.#given = [];
      let done = 0;
      for (const file of files) {
        this.#given.push(await loadFile(file));
        done += file.bytes;
        this.tell(`Loading Python: ${Math.round((done / all) * 100)} of 100`);
      }
    }
    const address = URL.createObjectURL(new Blob([workerSource], { type: "text/javascript" }));
    this.#worker = new Worker(address);
    await this.#ask({ type: "start", given: this.#given, packages, archive });
  }

  run(code, show) {
    return this.#ask({ type: "run", code }, show);
  }

  // Resolves to whether a cell ended without an error; undefined if it was stopped.
  #ask(message, show) {
    return new Promise((resolve, reject) => {
      this.#answer = resolve;
      this.#worker.onmessage = ({ data }) => {
        if (data.type === "output") show?.(data.output);
        else if (data.type === "progress") this.tell(data.text);
        else if (data.type === "failed") reject(new Error(data.text));
        else resolve(data.ok ?? true);
      };
      this.#worker.onerror = (event) => reject(new Error(event.message));
      this.#worker.postMessage(message);
    });
  }

  stop() {
    this.#worker.terminate();
    this.#answer(undefined);
  }
}
