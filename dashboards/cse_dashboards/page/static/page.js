"use strict";
// Fetches the parts of a page after it stands, swaps those that a link or a form of the same view
// changes, carries the rows that are ticked, and switches the theme.

const latest = new WeakMap(); // by part: the last request for it
const madeFor = new WeakMap(); // by part: the query that it was made for, if it is not the first one
const firstQuery = location.search;
const awaited = new Set(); // parts that nobody has come near yet

// A part is asked for once it comes near the view, or is what the address leads to.
const coming = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) {
    if (!isIntersecting && `#${target.id}` !== location.hash) continue;
    load(target, target.dataset.src);
  }
}, { rootMargin: "600px 0px" });

function kept(part) {
  // What the reader has done in a part, to be done again in its successor.
  const inside = part.contains(document.activeElement);
  return {
    inside,
    focus: inside ? document.activeElement.id : "",
    ticked: [...part.querySelectorAll("input:checked, input[data-carried]")].map((one) => [one.name, one.value]),
    open: [...part.querySelectorAll("details[open]")].map((one) => one.id),
    scrolled: [...part.querySelectorAll(".scroll")].map((one) => one.scrollLeft),
  };
}

function restore(part, before) {
  for (const [name, value] of before.ticked) tick(part, name, value);
  part.querySelectorAll("form.compared").forEach(countTicked);
  before.open.forEach((id) => part.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", ""));
  part.querySelectorAll(".scroll").forEach((one, place) => { one.scrollLeft = before.scrolled[place] ?? 0; });
  if (!before.inside) return;
  // Without it, who walks by keyboard would begin at the top of the page again.
  const place = (before.focus && document.getElementById(before.focus)) || part;
  if (place === part) part.tabIndex = -1;
  place.focus({ preventScroll: true });
}

function tick(part, name, value) {
  const form = part.querySelector("form.compared");
  if (!form || name !== "rows") return; // other boxes stand as the address has them
  const box = form.querySelector(`input[type="checkbox"][value="${CSS.escape(value)}"]`);
  if (box) box.checked = true;
  else form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
  if (!box) form.lastElementChild.dataset.carried = ""; // it is on another page of the table
}

function countTicked(form) {
  const count = form.querySelectorAll("input[name=rows]:checked, input[data-carried]").length;
  const told = form.querySelector("[data-selected]"); // not there where one row stands alone
  if (told) told.textContent = count ? `${count} selected` : "";
}

function swap(part, html) {
  const before = kept(part);
  forgetPictures(part);
  part.innerHTML = html;
  restore(part, before);
  drawPictures(part);
  markAllCut();
  if (!moved && location.hash) document.querySelector(location.hash)?.scrollIntoView();
}

// What an anchor leads to is pushed down by parts that come later, until the reader scrolls.
let moved = false;
for (const way of ["wheel", "touchmove", "keydown", "pointerdown"]) {
  addEventListener(way, () => { moved = true; }, { once: true, passive: true });
}

function sourceOf(part) {
  return `/parts/${part.id}${location.pathname}${location.search}`;
}

async function load(part, source) {
  coming.unobserve(part);
  awaited.delete(part);
  const mine = {};
  latest.set(part, mine);
  madeFor.set(part, new URL(source, location).search);
  part.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(source, { headers: { "X-Part": "1" } });
    const html = await answer.text();
    if (latest.get(part) === mine) swap(part, html);
    // What is made anew behind is there a little later.
    const again = answer.ok && part.querySelector("[data-again]");
    if (again) loadAgain(part, source, again);
  } catch {
    unreachable(part, source);
  }
  if (latest.get(part) === mine) part.removeAttribute("aria-busy");
}

function loadAgain(part, source, sign) {
  setTimeout(() => {
    if (!sign.isConnected) return;
    if (isRead(part)) loadAgain(part, source, sign);
    else load(part, source);
  }, 1000 * sign.dataset.again);
}

// Someone reads or selects there: it is left as it is.
const HELD = ":focus-visible, input:focus, select:focus, textarea:focus, .hoverlayer .hovertext";

function isRead(part) {
  const selection = getSelection();
  const selects = !selection.isCollapsed && selection.containsNode(part, true);
  const scrolled = [...part.querySelectorAll(".scroll")].some((one) => one.scrollLeft || one.scrollTop);
  return selects || scrolled || part.querySelector(HELD) !== null;
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

function renewed(part) {
  // A part that nobody has come near yet is asked for when someone does.
  if (awaited.has(part)) part.dataset.src = sourceOf(part);
  else load(part, sourceOf(part));
}

// Another choice in the same view: the address changes, and the parts that read what has changed.
let shownAddress = new URL(location.href);

function showAddress(url) {
  history.pushState(null, "", url);
  addressChanged();
}

function addressChanged() {
  const before = shownAddress;
  shownAddress = new URL(location.href);
  const differs = (name) => `${before.searchParams.getAll(name)}` !== `${shownAddress.searchParams.getAll(name)}`;
  for (const part of document.querySelectorAll(".part[data-reads]")) {
    if (part.dataset.reads.split(" ").some(differs)) renewed(part);
  }
}

function mergedInto(url, part) {
  // A part knows what was chosen when it was made. What its link or form changes is put into what is
  // chosen now.
  const before = new URLSearchParams((part && madeFor.get(part)) ?? firstQuery);
  const now = new URLSearchParams(location.search);
  for (const name of new Set([...before.keys(), ...url.searchParams.keys()])) {
    const wanted = url.searchParams.getAll(name);
    if (`${wanted}` === `${before.getAll(name)}`) continue;
    now.delete(name);
    wanted.forEach((value) => now.append(name, value));
  }
  url.search = now;
  return url;
}

function staysHere(url) {
  return url.origin === location.origin && url.pathname === location.pathname && document.querySelector(".part[data-reads]");
}

addEventListener("popstate", addressChanged);
document.addEventListener("submit", (event) => {
  const form = event.target;
  const url = new URL(form.action);
  if (form.method !== "get" || !staysHere(url)) return;
  event.preventDefault();
  url.search = new URLSearchParams(new FormData(form, event.submitter));
  showAddress(mergedInto(url, form.closest(".part")));
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || link.hasAttribute("download") || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const part = link.closest(".part");
  const url = new URL(link.href);
  if (part && link.matches(".load")) {
    event.preventDefault();
    load(part, link.getAttribute("href"));
    if (link.dataset.shown) history.replaceState(null, "", link.dataset.shown);
  } else if (staysHere(url) && url.search !== location.search) {
    event.preventDefault();
    showAddress(mergedInto(url, part));
    const there = url.hash && document.querySelector(url.hash);
    if (there && there !== part) there.scrollIntoView();
  }
});

document.addEventListener("change", ({ target }) => {
  const form = target.closest("form");
  if (form?.matches(".compared")) countTicked(form);
  else if (form?.matches(".redraw")) form.requestSubmit();
});

// A table that goes on beyond its right edge is paler there.
function markCut(scrolled) {
  const left = scrolled.scrollWidth - scrolled.clientWidth - scrolled.scrollLeft;
  scrolled.toggleAttribute("data-more", left > 1);
}
function markAllCut() {
  document.querySelectorAll(".scroll").forEach(markCut);
}
document.addEventListener("scroll", ({ target }) => {
  if (target.matches?.(".scroll")) markCut(target);
}, true);
document.addEventListener("toggle", markAllCut, true); // what was folded has no width
addEventListener("resize", markAllCut);
markAllCut();
document.addEventListener("reset", ({ target }) => {
  target.querySelectorAll("input[data-carried]").forEach((one) => one.remove());
  if (target.matches(".compared")) setTimeout(() => countTicked(target)); // once the boxes are empty
});

document.addEventListener("formdata", ({ formData }) => {
  // One more condition joins the others, as the server would join it.
  const [name, to] = [formData.get("narrow"), formData.get("to")];
  if (name && to) {
    const equals = /^\s*([<>=]|in\s*\[)/.test(to) ? "" : "= ";
    const one = `${/^[\w./-]+$/.test(name) ? name : JSON.stringify(name)} ${equals}${to}`;
    formData.set("where", [formData.get("where"), one].filter(Boolean).join(" and "));
  }
  if (name) ["narrow", "to"].forEach((field) => formData.delete(field));
  // What is left empty would make the address that a form leads to long, and says nothing in it.
  for (const [field, value] of [...formData]) if (!value) formData.delete(field);
});

const theme = document.getElementById("theme");
theme.value = document.documentElement.dataset.theme || "";
theme.addEventListener("change", () => {
  if (theme.value) document.documentElement.dataset.theme = theme.value;
  else delete document.documentElement.dataset.theme;
  localStorage.setItem("theme", theme.value);
  document.dispatchEvent(new Event("theme"));
});

document.querySelectorAll("form.compared").forEach(countTicked); // a browser keeps boxes on its way back

for (const part of document.querySelectorAll(".part[data-src]")) {
  awaited.add(part);
  coming.observe(part);
}
