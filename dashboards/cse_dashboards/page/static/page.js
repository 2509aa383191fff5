"use strict";
// Fetches the parts of a page after it stands, keeps some of them fresh, and switches the theme.

const timers = new WeakMap();
const paces = new WeakMap(); // seconds between two looks, by part

function kept(part) {
  // What the reader has done in a part, to be done again in its successor.
  const inside = part.contains(document.activeElement);
  return {
    inside,
    focus: inside ? document.activeElement.id : "",
    ticked: [...part.querySelectorAll("input:checked")].map((one) => [one.name, one.value]),
    open: [...part.querySelectorAll("details[open]")].map((one) => one.id),
    scrolled: [...part.querySelectorAll(".scroll")].map((one) => one.scrollLeft),
  };
}

function restore(part, before) {
  for (const [name, value] of before.ticked) {
    const same = `input[name="${CSS.escape(name)}"][value="${CSS.escape(value)}"]`;
    part.querySelectorAll(same).forEach((one) => { one.checked = true; });
  }
  before.open.forEach((id) => part.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", ""));
  part.querySelectorAll(".scroll").forEach((one, place) => { one.scrollLeft = before.scrolled[place] ?? 0; });
  if (!before.inside) return;
  // Without it, who walks by keyboard would begin at the top of the page again.
  const place = (before.focus && document.getElementById(before.focus)) || part;
  if (place === part) part.tabIndex = -1;
  place.focus({ preventScroll: true });
}

function swap(part, html) {
  const before = kept(part);
  forgetPictures(part);
  part.innerHTML = html;
  restore(part, before);
  drawPictures(part);
  if (!moved && location.hash) document.querySelector(location.hash)?.scrollIntoView();
}

// What an anchor leads to is pushed down by parts that come later, until the reader scrolls.
let moved = false;
for (const way of ["wheel", "touchmove", "keydown", "pointerdown"]) {
  addEventListener(way, () => { moved = true; }, { once: true, passive: true });
}

async function load(part, source) {
  clearTimeout(timers.get(part));
  part.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(source, { headers: { "X-Part": "1" } });
    swap(part, await answer.text());
    // What could not be made is asked for again at the old pace.
    if (answer.ok) paces.set(part, Number(part.querySelector("[data-every]")?.dataset.every ?? 0));
  } catch {
    unreachable(part, source);
  }
  part.removeAttribute("aria-busy");
  if (paces.get(part)) timers.set(part, setTimeout(() => load(part, source), 1000 * paces.get(part)));
}

function unreachable(part, source) {
  // What is shown stays; the server may have been restarted.
  part.querySelector(".unreachable")?.remove();
  const told = document.createElement("p");
  told.className = "refused unreachable";
  told.setAttribute("role", "alert");
  const again = Object.assign(document.createElement("a"), { className: "load", href: source, textContent: "Try again" });
  told.append("cse-dashboard does not answer. ", again);
  part.prepend(told);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a.load");
  const part = link?.closest(".part");
  if (!part || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  load(part, link.getAttribute("href"));
  if (link.dataset.shown) history.replaceState(null, "", link.dataset.shown);
});

// What is left empty would make the address that a form leads to long, and says nothing in it.
document.addEventListener("formdata", ({ formData }) => {
  for (const [name, value] of [...formData]) if (!value) formData.delete(name);
});

const theme = document.getElementById("theme");
theme.value = document.documentElement.dataset.theme || "";
theme.addEventListener("change", () => {
  if (theme.value) document.documentElement.dataset.theme = theme.value;
  else delete document.documentElement.dataset.theme;
  localStorage.setItem("theme", theme.value);
  document.dispatchEvent(new Event("theme"));
});

// A part is asked for once it comes near the view, or is what the address leads to.
const coming = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) {
    if (!isIntersecting && `#${target.id}` !== location.hash) continue;
    coming.unobserve(target);
    load(target, target.dataset.src);
  }
}, { rootMargin: "600px 0px" });
document.querySelectorAll(".part[data-src]").forEach((part) => coming.observe(part));
