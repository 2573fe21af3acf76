"use strict";
// What is known, as arrays, and when each fact is told. Reads the data of the page; touches nothing else.

const data = JSON.parse(document.getElementById("data").textContent);
const E = data.entities, F = data.facts;
const entityCount = E.id.length, factCount = F.id.length;
const NEVER_TRUE = new Set(["retracted"]);

const factsOf = Array.from({ length: entityCount }, () => []);
const edges = [];            // one line on the map for all relations between two entities: { s, t, facts }
const edgesOf = Array.from({ length: entityCount }, () => []);
const replaces = new Map();  // place of a fact -> places of those whose place it took

(function connect() {
  const known = new Map();
  for (let f = 0; f < factCount; f++) {
    factsOf[F.s[f]].push(f);
    if (F.by[f] >= 0) replaces.set(F.by[f], [...(replaces.get(F.by[f]) || []), f]);
    if (F.t[f] === null) continue;
    factsOf[F.t[f]].push(f);
    const ends = F.s[f] < F.t[f] ? [F.s[f], F.t[f]] : [F.t[f], F.s[f]];
    const key = ends[0] * entityCount + ends[1];
    if (!known.has(key)) {
      known.set(key, edges.length);
      edges.push({ s: ends[0], t: ends[1], facts: [] });
      edgesOf[ends[0]].push(edges.length - 1);
      edgesOf[ends[1]].push(edges.length - 1);
    }
    edges[known.get(key)].facts.push(f);
  }
})();

/** The intervals [from, to) in which a fact is told, in seconds; `to` is null while it holds. */
function spansOf(f) {
  const odd = F.spans[f];
  if (odd) return odd;
  return F.from[f] === null || NEVER_TRUE.has(F.statuses[F.st[f]]) ? [] : [[F.from[f], F.to[f]]];
}

/** Whether a fact is told at a time in seconds, or now, if that is null. */
function isTold(f, time) {
  if (time === null) return F.live[f] === 1;
  for (const [from, to] of spansOf(f)) if (from <= time && (to === null || time < to)) return true;
  return false;
}

const told = new Uint8Array(factCount), toldEntities = new Uint8Array(entityCount), toldEdges = new Uint16Array(edges.length);

/** Fill `told`, `toldEntities` and `toldEdges` for a time. */
function tellAt(time) {
  toldEntities.fill(0);
  for (let f = 0; f < factCount; f++) {
    told[f] = isTold(f, time) ? 1 : 0;
    if (!told[f]) continue;
    toldEntities[F.s[f]] = 1;
    if (F.t[f] !== null) toldEntities[F.t[f]] = 1;
  }
  edges.forEach((edge, e) => { toldEdges[e] = edge.facts.reduce((sum, f) => sum + told[f], 0); });
}

/** The ends of the axis, in seconds; changes that lie far off are slips, and beyond it. */
const reach = { first: data.reach[0], last: data.reach[1] };

// Much happens in some weeks and little in some years: the scale of time is half even, half by how much changed.
const KNOTS = 400;
const knots = (function () {
  let changes = [];
  for (let f = 0; f < factCount; f++) for (const [from, to] of spansOf(f)) changes.push(from, ...(to === null ? [] : [to]));
  changes = changes.filter((time) => reach.first <= time && time <= reach.last);
  changes.sort((a, b) => a - b);
  const even = (n) => reach.first + ((reach.last - reach.first) * n) / KNOTS;
  const share = new Float64Array(KNOTS + 1);
  for (let n = 0, met = 0; n <= KNOTS; n++) {
    while (met < changes.length && changes[met] <= even(n)) met++;
    share[n] = (n / KNOTS + (n === KNOTS || !changes.length ? 1 : met / changes.length)) / 2;
  }
  share[0] = 0;
  return { even, share };
})();

/** Where a time lies between first (0) and last (1). */
function shareAt(time) {
  const place = Math.min(Math.max(((time - reach.first) / (reach.last - reach.first)) * KNOTS, 0), KNOTS);
  const n = Math.min(Math.floor(place), KNOTS - 1);
  return knots.share[n] + (knots.share[n + 1] - knots.share[n]) * (place - n);
}

/** The time, in whole seconds, that lies at a share from 0 to 1. */
function timeAtShare(share) {
  let low = 0, high = KNOTS;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (knots.share[middle] <= share) low = middle;
    else high = middle;
  }
  const part = (share - knots.share[low]) / (knots.share[high] - knots.share[low] || 1);
  return Math.round(knots.even(low) + (knots.even(high) - knots.even(low)) * Math.min(Math.max(part, 0), 1));
}

/** Months and years for the scale, as [share, text], the more telling first. */
function marks() {
  const first = new Date(reach.first * 1000), months = [];
  const count = Math.min(Math.ceil((reach.last - reach.first) / 2500000), 2400);
  for (let n = 1; n <= count; n++) {
    const at = Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + n, 1) / 1000, month = new Date(at * 1000).getUTCMonth();
    if (at < reach.last) months.push([month === 0 ? 0 : month % 6 === 0 ? 1 : month % 3 === 0 ? 2 : 3, at, month]);
  }
  const name = (at, month) => (month ? monthFormat.format(new Date(at * 1000)) : String(new Date(at * 1000).getUTCFullYear()));
  // A month is told where it is wide enough to be told from the next.
  const isWide = ([, at]) => shareAt(at + 2600000) - shareAt(at) > 0.015;
  return months.filter((mark) => mark[0] === 0 || isWide(mark)).sort((a, b) => a[0] - b[0] || b[1] - a[1]).map(([, at, month]) => [shareAt(at), name(at, month)]);
}

/** How many facts are told at `steps` places of the scale. */
function tide(steps) {
  const heights = new Float64Array(steps + 1);
  const step = (time) => Math.min(Math.ceil(shareAt(time) * steps), steps + 1);
  for (let f = 0; f < factCount; f++) {
    for (const [from, to] of spansOf(f)) {
      for (let n = step(from), end = to === null ? steps + 1 : step(to); n < end; n++) heights[n]++;
    }
  }
  return heights;
}

/** Words without accents and case, for comparing. */
const folded = (text) => (text || "").normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
const foldedNames = E.name.map((name, e) => [name, ...E.aliases[e]].map(folded));
let foldedTexts = null;

/** The entities and facts that fit the words best: names that begin so, then words that do, then the rest. */
function found(query, entitiesAtMost, factsAtMost) {
  const asked = folded(query).trim();
  if (!asked) return { entities: [], facts: [] };
  const rank = (name) => {
    const at = name.indexOf(asked);
    return name === asked ? 0 : at === 0 ? 1 : at < 0 ? 9 : /\W/.test(name[at - 1]) ? 2 : 3;
  };
  const entities = [];
  for (let e = 0; e < entityCount; e++) {
    const best = Math.min(...foldedNames[e].map(rank));
    if (best < 9) entities.push([best, e]);
  }
  entities.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  foldedTexts = foldedTexts || F.text.map(folded);
  const words = asked.split(/\s+/), facts = [];
  for (let f = 0; f < factCount && facts.length < factsAtMost; f++) {
    if (asked.length > 1 && words.every((word) => foldedTexts[f].includes(word))) facts.push(f);
  }
  return { entities: entities.slice(0, entitiesAtMost).map((pair) => pair[1]), facts };
}

const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
const monthFormat = new Intl.DateTimeFormat("en-GB", { month: "short", timeZone: "UTC" });
const day = (seconds) => (seconds === null || seconds === undefined ? "" : dayFormat.format(new Date(seconds * 1000)));

/** "since 2 Mar 2026", "2 Mar 2026 – 5 May 2026". */
function validity(f) {
  const from = F.from[f], to = F.to[f];
  if (to !== null) return from === null ? `until ${day(to)}` : `${day(from)} – ${day(to)}`;
  return from === null ? "" : `${F.live[f] ? "since" : "from"} ${day(from)}`;
}
