// How pictures get shorter (pages.py).

const properties = (style) => style.split(";").map((part) => part.split(":")[0]);

// Each style of marks is stated once. A mark has the style of the path that it shows, or else its own; a row
// of marks with the same style has it from the group around them.
const stateStylesOnce = {
  name: "stateStylesOnce",
  fn() {
    const set = new Map(); // the properties that a path sets, by its address
    return {
      element: {
        enter({ name, attributes }) {
          if (!attributes.style) return;
          if (name === "path" && attributes.id) set.set(`#${attributes.id}`, properties(attributes.style));
          if (name !== "use") return;
          const shown = set.get(attributes.href ?? attributes["xlink:href"]) ?? [];
          const own = attributes.style.split(";").filter((part) => !shown.includes(properties(part)[0]));
          if (own.length) attributes.style = own.join(";");
          else delete attributes.style;
        },
        exit({ name, attributes, children }) {
          if (name !== "g" || attributes.style || children.length < 2) return;
          const style = children[0].attributes?.style;
          if (!style || children.some((mark) => mark.name !== "use" || mark.attributes.style !== style)) return;
          attributes.style = style;
          for (const mark of children) delete mark.attributes.style;
        },
      },
    };
  },
};

export default {
  floatPrecision: 2,
  plugins: [
    // Forced, as it leaves a picture with a style sheet alone; Matplotlib's sheet names no element.
    { name: "preset-default", params: { overrides: { cleanupIds: { force: true } } } },
    stateStylesOnce,
  ],
};
