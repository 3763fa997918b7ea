// Names are kept: pictures of one page share them out among themselves (dpbai/field/figures/canvas.py).
export default {
  floatPrecision: 2,
  plugins: [{ name: "preset-default", params: { overrides: { cleanupIds: false } } }],
};
