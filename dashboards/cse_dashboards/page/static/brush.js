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

// What a brush from `low` to `high`, in [0, 1], leaves of an axis: conditions, none if that is all of it.
function condition(axis, low, high) {
  if (axis.choices) {
    const last = Math.max(1, axis.choices.length - 1);
    const kept = axis.choices.filter((_, place) => place / last >= low && place / last <= high);
    if (!kept.length || kept.length === axis.choices.length) return [];
    return [kept.length > 1 ? `${axis.name} in [${kept.join(", ")}]` : `${axis.name} = ${kept[0]}`];
  }
  const ends = [low > 0 && `>= ${valueAt(axis, low)}`, high < 1 && `<= ${valueAt(axis, high)}`];
  return ends.filter(Boolean).map((end) => `${axis.name} ${end}`);
}

// The address with these conditions, each list with its name, instead of those on the same names.
function narrowedBy(changed) {
  const url = new URL(location.href);
  const said = url.searchParams.get("where") ?? "";
  const held = said.match(/(?:"(?:[^"\\]|\\.)*"|(?! and )[^"])+/g) ?? []; // `and` within quotes joins nothing
  const others = held
    .map((one) => one.replace(/^ ?and /, ""))
    .filter((one) => !changed.some(([name]) => one.startsWith(`${name} `)));
  const where = [...others, ...changed.flatMap(([, conditions]) => conditions)].join(" and ");
  if (where) url.searchParams.set("where", where);
  else url.searchParams.delete("where");
  url.searchParams.delete("page");
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
    plot.on(all, () => showAddress(narrowedBy(axes.map((axis) => [axis.name, []])), { replace: true }));
  }
});
