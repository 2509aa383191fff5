"use strict";
// Brushes parallel coordinates: a box over an axis becomes a condition of `where` in the address, which
// narrows the table of trials and all figures. Axes come as `meta.axes` of the figure's layout.

const DIGITS = 4;

function valueAt(axis, place) {
  const scaled = axis.log ? Math.log : (value) => value;
  const value = scaled(axis.low) + place * (scaled(axis.high) - scaled(axis.low));
  const short = Number((axis.log ? Math.exp(value) : value).toPrecision(DIGITS));
  return short && Math.abs(short) < 1e-3 ? short.toExponential() : String(short);
}

// What a brush from `low` to `high`, in [0, 1], leaves of an axis; nothing if that is all of it.
function condition(axis, low, high) {
  if (axis.choices) {
    const last = Math.max(1, axis.choices.length - 1);
    const kept = axis.choices.filter((_, place) => place / last >= low && place / last <= high);
    return kept.length && kept.length < axis.choices.length ? kept.join("|") : "";
  }
  const ends = [low > 0 ? valueAt(axis, low) : "", high < 1 ? valueAt(axis, high) : ""];
  return ends.some(Boolean) ? ends.join("..") : "";
}

// The conditions of the address by name, with these instead of those of the same names.
function narrowedBy(changed) {
  const url = new URL(location.href);
  const held = (url.searchParams.get("where") ?? "").split(",").filter(Boolean);
  const found = new Map(held.map((one) => [one.slice(0, one.indexOf(":")), one.slice(one.indexOf(":") + 1)]));
  for (const [name, allowed] of changed) {
    if (allowed) found.set(name, allowed);
    else found.delete(name);
  }
  const where = [...found].map(([name, allowed]) => `${name}:${allowed}`).join(",");
  if (where) url.searchParams.set("where", where);
  else url.searchParams.delete("where");
  url.searchParams.delete("page");
  url.search = url.search.replaceAll("%3A", ":").replaceAll("%2C", ",").replaceAll("%7C", "|");
  return url;
}

function brushed(axes, { x, y }) {
  const [left, right] = [...x].sort((a, b) => a - b);
  const [low, high] = [...y].sort((a, b) => a - b);
  const over = axes.filter((_, at) => at >= left && at <= right);
  const nearest = axes[Math.max(0, Math.min(axes.length - 1, Math.round((left + right) / 2)))];
  return (over.length ? over : [nearest]).map((axis) => [axis.name, condition(axis, low, high)]);
}

document.addEventListener("drawn", ({ target: plot }) => {
  const axes = plot.layout.meta?.axes;
  if (!axes) return;
  plot.on("plotly_selected", (event) => {
    if (event?.range) showAddress(narrowedBy(brushed(axes, event.range)), { replace: true });
  });
  for (const all of ["plotly_deselect", "plotly_doubleclick"]) {
    plot.on(all, () => showAddress(narrowedBy(axes.map((axis) => [axis.name, ""])), { replace: true }));
  }
});
