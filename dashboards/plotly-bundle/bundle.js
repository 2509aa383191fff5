// plotly.js with what the figures of cse_dashboards are made of, and nothing else: plotly.js's own
// src/core.js, without the components for sliders, menus, images and three dimensions.
const registry = require("plotly.js/src/registry");
const api = require("plotly.js/src/plot_api");
require("native-promise-only");
require("plotly.js/build/plotcss");

exports.version = require("plotly.js/src/version").version;
for (const [name, fn] of Object.entries(api)) {
  if (!name.startsWith("_")) exports[name] = fn;
  registry.register({ moduleType: "apiMethod", name, fn });
}
registry.register([
  require("plotly.js/src/components/annotations"),
  require("plotly.js/src/components/selections"),
  require("plotly.js/src/components/shapes"),
  require("plotly.js/src/components/errorbars"),
  require("plotly.js/src/components/colorscale"),
  require("plotly.js/src/components/colorbar"),
  require("plotly.js/src/components/legend"), // after shapes
  require("plotly.js/src/components/fx"), // after legend
  require("plotly.js/src/components/modebar"),
  require("plotly.js/src/locale-en"),
  require("plotly.js/src/locale-en-us"),
  require("plotly.js/lib/scatter"),
  require("plotly.js/lib/bar"),
  require("plotly.js/lib/contour"),
  require("plotly.js/lib/heatmap"),
  require("plotly.js/lib/violin"),
]);
