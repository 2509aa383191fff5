"use strict";
// Follows a sweep that runs: asks for a small stamp, and fetches the parts that it makes old. A part
// in which someone reads or selects stays as it is, and says that there is more.

const PACE = 3000; // milliseconds
const stamped = document.querySelector("[data-stamp]");
let stamp = stamped ? JSON.parse(stamped.dataset.seen) : { runs: false };
const fetchedAt = new Map(); // the stamp at which a part was fetched, by its id
const firstStamp = stamp;
let nextLook;

function stampOf(part) {
  return fetchedAt.get(part.id) ?? firstStamp;
}

function isOld(part) {
  return part.dataset.follows.split(" ").some((key) => stampOf(part)[key] !== stamp[key]);
}

function tellMore(part) {
  const more = stamp.trials - stampOf(part).trials;
  const what = more > 0 ? `${more} new trial${more > 1 ? "s" : ""}` : "newer numbers";
  let news = part.querySelector(":scope > .news");
  if (!news) {
    news = Object.assign(document.createElement("div"), { className: "news" });
    news.setAttribute("role", "status");
    news.append(Object.assign(document.createElement("button"), { type: "button" }));
    news.firstChild.addEventListener("click", () => renew(part));
    part.prepend(news);
  }
  const text = `${what} · show`;
  if (news.firstChild.textContent !== text) news.firstChild.textContent = text;
}

function renew(part) {
  fetchedAt.set(part.id, stamp);
  renewed(part);
}

function follow() {
  const old = [...document.querySelectorAll(".part[data-follows]")].filter(isOld);
  for (const part of old) {
    if (isRead(part)) tellMore(part);
    else renew(part);
  }
  return old.length > 0;
}

async function look() {
  clearTimeout(nextLook);
  if (document.hidden) return;
  let again = true;
  try {
    const answer = await fetch(stamped.dataset.stamp, { cache: "no-cache", headers: { "X-Part": "1" } });
    if (answer.ok) {
      stamp = await answer.json();
      if (stamped.querySelector(".refused")) fetchedAt.set(stamped.id, {}); // it is back
      const behind = follow();
      again = stamp.runs || behind;
    } else {
      await load(stamped, sourceOf(stamped)); // which says what is wrong
    }
  } catch {
    unreachable(stamped, sourceOf(stamped));
  }
  if (again) nextLook = setTimeout(look, PACE);
}

if (stamp.runs) {
  nextLook = setTimeout(look, PACE);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) look();
  });
}
