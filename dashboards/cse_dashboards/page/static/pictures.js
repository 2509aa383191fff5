"use strict";
// Draws pictures (templates/picture.html) with Plotly, in light or dark, and saves them as files.
// A page that changes html[data-theme] dispatches the event `theme` on document.

const SAVED = { width: 900, height: 560 }; // pixels of a saved image, where the figure has no size
const NARROW = 560; // pixels

function pictureTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return document.documentElement.dataset.theme || (dark ? "dark" : "light");
}

function pictureTemplate(theme) {
  return JSON.parse(document.getElementById("picture-templates").textContent)[theme];
}

function drawPicture(picture) {
  const plot = picture.querySelector(".plot");
  if (!plot) return;
  // Parsed anew each time: Plotly writes into what it is given.
  const { data, layout } = JSON.parse(picture.querySelector("script").textContent);
  const dressed = { ...layout, template: pictureTemplate(pictureTheme()), title: undefined };
  // Beside a narrow figure a legend would take half of it.
  if (plot.clientWidth < NARROW) dressed.legend = { ...layout.legend, orientation: "h", x: 0, y: -0.25, yanchor: "top" };
  if (layout.margin === undefined) dressed.margin = { l: 64, r: 24, t: 24, b: 56 };
  // No bar of Plotly's: it offers to upload the figure, and saves dark letters on nothing. What it
  // does otherwise, the mouse does too: drag to zoom, twice to see all.
  const options = { responsive: true, displayModeBar: false, showSendToCloud: false, plotlyServerURL: "" };
  Plotly.react(plot, data, dressed, options);
}

function drawPictures(root) {
  for (const picture of root.querySelectorAll("figure[data-figure]")) drawPicture(picture);
}

function savePicture(picture, format) {
  const { data, layout } = JSON.parse(picture.querySelector("script").textContent);
  const size = { width: layout.width || SAVED.width, height: layout.height || SAVED.height };
  const onWhite = { ...layout, ...size, template: pictureTemplate("light"), paper_bgcolor: "white" };
  const file = { format, filename: picture.dataset.figure, ...size };
  return Plotly.downloadImage({ data, layout: onWhite }, format === "png" ? { ...file, scale: 2 } : file);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-save]");
  if (button) savePicture(button.closest("figure"), button.dataset.save);
});
document.addEventListener("theme", () => drawPictures(document));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawPictures(document));
drawPictures(document);
