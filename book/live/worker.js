// Python in a worker: it runs cells for page.js, and a page stops it by ending the worker.
// The page passes all files to the worker, so that nothing is fetched from anywhere else.
"use strict";

const HOME = "http://files/"; // not a real address: requests to it are answered below
const files = new Map();
const send = (message) => postMessage(message);

globalThis.fetch = async (address) => {
  const name = decodeURIComponent(String(address.url ?? address).split("/").pop());
  if (!files.has(name)) return new Response(null, { status: 404 });
  const type = name.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
  return new Response(files.get(name), { headers: { "Content-Type": type } });
};

async function start({ given, packages, archive }) {
  for (const [name, blob] of given) files.set(name, blob);
  // Loaded first, it is there when pyodide.js looks for it.
  for (const script of ["pyodide.asm.js", "pyodide.js"]) {
    const address = URL.createObjectURL(files.get(script));
    importScripts(address);
    URL.revokeObjectURL(address);
  }
  send({ type: "progress", text: "Starting Python" });
  const python = await loadPyodide({ indexURL: HOME, packages: [] });
  send({ type: "progress", text: "Loading NumPy, SciPy, pandas and Matplotlib" });
  await python.loadPackage(packages, { messageCallback() {} });
  send({ type: "progress", text: "Loading dpbai" });
  python.unpackArchive(await files.get(archive).arrayBuffer(), "zip", { extractDir: "/home/pyodide" });
  python.registerJsModule("page", { send: (text) => send(JSON.parse(text)) });
  const kernel = python.pyimport("book.live.kernel");
  send({ type: "ready" });
  return kernel;
}

let kernel;
onmessage = async ({ data }) => {
  try {
    if (data.type === "start") kernel = await start(data);
    else send({ type: "done", ok: kernel.run(data.code) });
  } catch (error) {
    send({ type: "failed", text: String(error) });
  }
};
