"use strict";
// Draws pictures (templates/picture.html) with Plotly, those near the view first, in light or dark,
// and saves them as files. Plotly itself (data-library of this script) is asked for once one is near.
// A page that changes html[data-theme] dispatches the event `theme` on document.

const { library, trials } = document.currentScript.dataset; // trials: how addresses of trials begin
const SAVED = { width: 900, height: 560 }; // pixels of a saved image, where the figure has no size
const NARROW = 560; // pixels
const LOW = 320; // pixels of a plot beside which a title takes two lines
const WIDE = 900; // pixels of a low plot with its legend beside it
const BESIDE = { orientation: "v", x: 1.01, y: 1.1, yanchor: "top", maxheight: 200, tracegroupgap: 0, font: { size: 11 } };
const LETTERS = 44; // of a line of a legend below a narrow plot
const PANEL = 340; // pixels of a panel's height, where panels stand one below another
const COARSE = matchMedia("(pointer: coarse)");
const DARK = matchMedia("(prefers-color-scheme: dark)");
const SMALL = matchMedia("(max-width: 40rem)");

function pictureTheme() {
  return document.documentElement.dataset.theme || (DARK.matches ? "dark" : "light");
}

function pictureTemplate(theme) {
  return JSON.parse(document.getElementById("picture-templates").textContent)[theme];
}

// Parsed anew each time: Plotly writes into what it is given.
function figureOf(picture) {
  return JSON.parse(picture.querySelector("script").textContent);
}

// What is said of the trials that points and lines stand for: [key, text] by their ids.
function trialNotes(picture) {
  const told = picture.closest("section, main")?.querySelector("script.trials");
  return told ? JSON.parse(told.textContent) : {};
}

function sayTrials(data, notes) {
  for (const trace of data) {
    const trial = trace.meta?.trial;
    if (trial !== undefined) trace.text = trace.x.map(() => notes[trial]?.[1] ?? "");
    else if (trace.ids) trace.text = trace.ids.map((id) => notes[id]?.[1] ?? "");
  }
}

let asked;
async function loadPlotly() {
  if (window.Plotly) return; // a report that holds it
  asked ??= new Promise((loaded, failed) => {
    const script = document.createElement("script");
    Object.assign(script, { src: library, onload: loaded, onerror: failed });
    document.head.append(script);
  });
  try {
    await asked;
  } catch (error) {
    asked = undefined; // so that the next one asks again
    throw error;
  }
}

async function drawPicture(picture) {
  const plot = picture.querySelector(".plot");
  if (!plot) return;
  try {
    await loadPlotly();
  } catch {
    plot.textContent = "The figure cannot be drawn: cse-dashboard does not answer. Load the page again.";
    return;
  }
  if (!plot.isConnected) return;
  const { data, layout } = figureOf(picture);
  sayTrials(data, trialNotes(picture));
  const dressed = { ...layout, template: pictureTemplate(pictureTheme()), title: undefined };
  // The title, for which there is room above, is that of the card.
  dressed.margin = { ...layout.margin, t: (layout.margin?.t ?? 56) - 32 };
  if (plot.clientHeight < LOW) breakTitles(dressed, "y");
  if (plot.clientHeight < LOW && plot.clientWidth > WIDE) dressed.legend = BESIDE;
  // A finger that moves over a figure scrolls the page.
  if (COARSE.matches) dressed.dragmode = false;
  const narrow = plot.clientWidth < NARROW;
  if (narrow) narrowed(data, dressed);
  // No bar of Plotly's: it offers to upload the figure, and saves dark letters on nothing. What it
  // does otherwise, the mouse does too: drag to zoom, twice to see all.
  const options = { responsive: true, displayModeBar: false, showSendToCloud: false, plotlyServerURL: "" };
  const first = !plot.classList.contains("js-plotly-plot");
  await Plotly.react(plot, data, dressed, options);
  if (first) plot.dispatchEvent(new Event("drawn", { bubbles: true }));
  if (narrow) await makeRoom(plot);
}

// Little stands beside a narrow plot: legends go below it, scales of colours above it, names and titles
// take two lines, and panels stand one below another.
function narrowed(data, layout) {
  layout.legend = { ...layout.legend, orientation: "h", x: 0, xanchor: "left", y: 0, yanchor: "bottom", yref: "container" };
  const above = { orientation: "h", x: 0.5, xanchor: "center", xpad: 0, y: 1, yanchor: "bottom", len: 1, thickness: 12 };
  for (const holder of [layout.coloraxis, ...data, ...data.map((trace) => trace.marker)]) {
    if (holder?.colorbar) holder.colorbar = { ...holder.colorbar, ...above, title: { ...holder.colorbar.title, side: "top" } };
  }
  layout.margin = { ...layout.margin, l: Math.min(layout.margin.l ?? 64, 48), r: Math.min(layout.margin.r ?? 24, 64) };
  breakTitles(layout, "xy");
  for (const trace of data) trace.name = trace.name && breakName(trace.name);
  const names = layout.yaxis?.categoryarray;
  if (names) {
    const broken = names.map((name) => name.replace(/ (\S+)$/, "<br>$1"));
    layout.yaxis = { ...layout.yaxis, tickvals: names, ticktext: broken, tickfont: { size: 10 } };
  }
  if (layout.xaxis?.autotickangles) layout.height = PANEL; // room for names that stand upright
  stack(layout);
}

// Titles of axes are small, and those of these sides have a line for each part.
function breakTitles(layout, sides) {
  for (const [name, axis] of Object.entries(layout)) {
    if (!/^[xy]axis\d*$/.test(name) || !axis.title?.text) continue;
    const text = sides.includes(name[0]) ? axis.title.text.replaceAll(", ", ",<br>") : axis.title.text;
    axis.title = { ...axis.title, text, font: { size: 12 } };
  }
}

// Names have lines that fit below a narrow plot.
function breakName(name) {
  const lines = [];
  for (const part of name.replaceAll("<br>", " ").split(", ")) {
    const longer = `${lines.at(-1)}, ${part}`;
    if (lines.length && longer.length <= LETTERS) lines[lines.length - 1] = longer;
    else lines.push(part);
  }
  return lines.join(",<br>");
}

function stack(layout) {
  const axes = Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name) && layout[name].domain);
  const across = axes.filter((name) => name[0] === "x");
  if (across.length < 2) return;
  const share = 1 / across.length;
  across.forEach((name, place) => {
    const top = 1 - place * share;
    const number = name.slice("xaxis".length);
    Object.assign(layout[name], { domain: [0, 1] });
    Object.assign(layout[`yaxis${number}`], { domain: [top - 0.74 * share, top - 0.08 * share], showticklabels: true });
    const title = layout.annotations?.[place];
    if (title) Object.assign(title, { x: 0.5, xanchor: "center", y: top - 0.08 * share, yanchor: "bottom" });
  });
  layout.height = PANEL * across.length;
}

// The legend stands below the title of the axis, in room of its own for all of its entries.
async function makeRoom(plot) {
  const entries = plot.querySelector(".legend .scrollbox");
  if (!entries) return;
  const shown = entries.getBBox(); // below a gap; one more stands under it, or the legend scrolls
  const room = Math.ceil(shown.height + 2 * shown.y);
  const { height, margin } = plot._fullLayout;
  await Plotly.relayout(plot, { height: height + room, "margin.b": Math.max(margin.b, 64) + room, "legend.maxheight": room });
}

const near = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    drawPicture(target).then(() => whenIdle(drawNext));
  }
}, { rootMargin: "200px 0px" });

// Then the others, one at a time: who prints the page, or takes a picture of all of it, wants them.
const whenIdle = window.requestIdleCallback ?? setTimeout;
function drawNext() {
  const left = [...document.querySelectorAll("figure[data-figure] .plot:not(.js-plotly-plot)")];
  const next = left.find((plot) => window.Plotly && plot.clientWidth)?.closest("figure"); // not folded
  if (!next) return;
  near.unobserve(next);
  drawPicture(next).then(() => whenIdle(drawNext));
}

function drawPictures(root) {
  for (const picture of root.querySelectorAll("figure[data-figure]")) near.observe(picture);
}

function forgetPictures(root) {
  for (const picture of root.querySelectorAll("figure[data-figure]")) near.unobserve(picture);
  for (const plot of root.querySelectorAll(".js-plotly-plot")) Plotly.purge(plot);
}

function drawAgain() {
  for (const plot of document.querySelectorAll(".js-plotly-plot")) drawPicture(plot.closest("figure"));
}

async function savePicture(picture, format) {
  await loadPlotly();
  const { data, layout } = figureOf(picture);
  const size = { width: layout.width || SAVED.width, height: layout.height || SAVED.height };
  const onWhite = { ...layout, ...size, template: pictureTemplate("light"), paper_bgcolor: "white" };
  const file = { format, filename: picture.dataset.figure, ...size };
  return Plotly.downloadImage({ data, layout: onWhite }, format === "png" ? { ...file, scale: 2 } : file);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-save]");
  if (button) savePicture(button.closest("figure"), button.dataset.save);
});
for (const change of [DARK, SMALL, COARSE]) change.addEventListener("change", drawAgain);
document.addEventListener("theme", drawAgain);
drawPictures(document);

// A point that stands for a trial has its key as `ids`, a line as `meta`: a click leads to the trial.
// A finger shows what it is at the first touch, and follows at the second.
function trialAt(event, notes) {
  const found = event.points.map((one) => notes[one.id ?? one.data.meta?.trial]).find(Boolean);
  return found?.[0];
}

document.addEventListener("drawn", ({ target: plot }) => {
  if (trials === undefined) return;
  const notes = trialNotes(plot);
  let touched;
  plot.on("plotly_hover", (event) => plot.classList.toggle("leads", Boolean(trialAt(event, notes))));
  plot.on("plotly_unhover", () => plot.classList.remove("leads"));
  plot.on("plotly_click", (event) => {
    if (COARSE.matches && event.event.type === "mousedown") return; // a slow browser's echo of the touch
    const trial = trialAt(event, notes);
    if (trial && (!COARSE.matches || trial === touched)) leadTo(trials + trial, event.event);
    touched = trial;
  });
});

function leadTo(address, { ctrlKey, metaKey }) {
  if (ctrlKey || metaKey) open(address, "_blank", "noopener");
  else location.assign(address);
}
