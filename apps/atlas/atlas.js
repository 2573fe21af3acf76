"use strict";
// What a person does with the page: search, click, move through time; and `window.atlas`, which does the same from a script.

const byId = (id) => document.getElementById(id);
const STEPS = 1000, PLAY_SECONDS = 14;

const atlas = {
  data, graph,
  // time: seconds or null for now; entity, fact: places or -1; focus: the place of the group that is lit, or null; past: where "Back" leads
  state: { time: null, entity: -1, fact: -1, focus: null, past: [] },
  get renderer() { return renderer; },
  /** Which lines are drawn, as pairs of names with the number of facts told. */
  shownEdges: () => edges.flatMap((edge, n) => (toldEdges[n] ? [[E.name[edge.s], E.name[edge.t], toldEdges[n]]] : [])),
  toldFacts: () => F.id.filter((id, f) => told[f]),
  isTold,

  setTime(seconds) {
    atlas.state.time = seconds;
    tellAt(seconds);
    showTime();
    if (atlas.state.entity >= 0 && atlas.state.fact < 0) drawPanel();
    refresh();
  },
  select(e, isQuiet) {
    remember();
    Object.assign(atlas.state, { entity: e, fact: -1, focus: null });
    Object.assign(look, { centre: e, fact: -1 });
    light([e, ...edgesOf[e].filter((n) => toldEdges[n]).map((n) => (edges[n].s === e ? edges[n].t : edges[n].s))]);
    drawPanel();
    if (!isQuiet) bringIntoView([e, ...edgesOf[e].map((n) => (edges[n].s === e ? edges[n].t : edges[n].s))]);
  },
  openFact(f) {
    remember();
    Object.assign(atlas.state, { fact: f, entity: F.s[f], focus: null });
    Object.assign(look, { centre: -1, fact: f });
    const ends = F.t[f] === null ? [F.s[f]] : [F.s[f], F.t[f]];
    light(ends);
    drawPanel();
    if (!ends.every(isInView)) bringIntoView(ends);
  },
  showGroup(n) {
    const isSame = atlas.state.focus === n, entities = isSame ? null : membersOf[n];
    Object.assign(atlas.state, { entity: -1, fact: -1, focus: isSame ? null : n });
    Object.assign(look, { centre: -1, fact: -1 });
    light(entities);
    drawPanel();
    bringIntoView(entities);
  },
  showGroups() {
    Object.assign(atlas.state, { entity: -1, fact: -1, focus: null, past: [] });
    Object.assign(look, { centre: -1, fact: -1 });
    light(null);
    drawPanel();
  },
  back() {
    const last = atlas.state.past.pop();
    if (!last || (last.entity < 0 && last.focus === null)) return atlas.showGroups();
    const past = atlas.state.past;
    if (last.fact >= 0) atlas.openFact(last.fact);
    else if (last.entity >= 0) atlas.select(last.entity, true);
    else atlas.showGroup(last.focus);
    atlas.state.past = past;
  },
  /** Write into the search box and list what fits. */
  search(query) {
    byId("search").value = query;
    return suggest();
  },
};
window.atlas = atlas;

function remember() {
  const { entity, fact, focus } = atlas.state;
  atlas.state.past = [...atlas.state.past.slice(-30), { entity, fact, focus }];
}

/** Let these entities stand out, a list of places; null: all. */
function light(entities) {
  look.lit = null;
  if (entities) {
    look.lit = new Uint8Array(entityCount);
    for (const e of entities) look.lit[e] = 1;
  }
  refresh();
}

function drawPanel() {
  const { entity, fact } = atlas.state, panel = byId("panel"), isList = entity < 0 && fact < 0;
  const content = fact >= 0 ? storyPanel(fact) : entity >= 0 ? entityPanel(entity) : groupsPanel();
  const height = panel.scrollTop, isSameView = panel.dataset.view === `${entity} ${fact}`;
  panel.replaceChildren(...content.filter(Boolean));
  panel.dataset.view = `${entity} ${fact}`;
  panel.scrollTop = isSameView ? height : 0;
  byId("groups").setAttribute("aria-pressed", String(isList));
}

// Time

const timeAt = (value) => timeAtShare(value / STEPS);
const valueAt = (time) => Math.round(shareAt(time) * STEPS);

function showTime() {
  const { time } = atlas.state;
  const text = time === null ? day(data.now) : day(time);
  byId("slider").value = valueAt(time === null ? data.now : time);
  byId("slider").setAttribute("aria-valuetext", text);
  byId("moment").textContent = text;
  byId("now").setAttribute("aria-pressed", String(time === null));
  const things = toldEntities.reduce((sum, one) => sum + one, 0), facts = told.reduce((sum, one) => sum + one, 0);
  byId("tally").textContent = `${counted(facts, "fact")} about ${counted(things, "entity", "entities")}`
    + (time === null ? "" : `, ${day(time)}`);
}

function drawTide() {
  const steps = 160, heights = tide(steps), top = Math.max(...heights, 1), picture = byId("tide");
  picture.setAttribute("viewBox", `0 0 ${steps} 24`);
  const points = Array.from(heights, (height, n) => `${n},${(24 - (22 * height) / top).toFixed(2)}`);
  const now = shareAt(data.now) * steps;
  picture.replaceChildren(svg("path", { d: `M0,24L${points.join("L")}L${steps},24Z` }), svg("line", { x1: now, x2: now, y1: 0, y2: 24 }));
}
function drawMarks() {
  const layer = byId("marks"), width = layer.clientWidth, taken = [];
  layer.replaceChildren();
  for (const [share, text] of marks()) {
    const x = share * width;
    if (x < 14 || x > width - 14 || taken.some((other) => Math.abs(other - x) < 46)) continue;
    taken.push(x);
    const mark = make("span", {}, text);
    mark.style.left = `${x}px`;
    layer.append(mark);
  }
}

let playing = 0;
const ICONS = { play: "M4 2.5v11l9-5.5z", pause: "M4 2.5h3v11H4zM9 2.5h3v11H9z" };

function stop() {
  cancelAnimationFrame(playing);
  playing = 0;
  byId("play").setAttribute("aria-label", "Play");
  byId("play").querySelector("path").setAttribute("d", ICONS.play);
}

function play() {
  if (playing) return stop();
  byId("play").setAttribute("aria-label", "Pause");
  byId("play").querySelector("path").setAttribute("d", ICONS.pause);
  const isAtEnd = atlas.state.time === null || atlas.state.time >= reach.last - 1;
  let value = isAtEnd ? 0 : valueAt(atlas.state.time), before = performance.now();
  const step = (at) => {
    value += ((at - before) / 1000 / PLAY_SECONDS) * STEPS;
    before = at;
    if (value >= STEPS) {
      stop();
      return atlas.setTime(reach.last > data.now ? reach.last : null);
    }
    atlas.setTime(timeAt(value));
    playing = requestAnimationFrame(step);
  };
  playing = requestAnimationFrame(step);
}

// Search

let chosen = -1;

function suggest() {
  const list = byId("suggestions"), query = byId("search").value, { entities, facts } = found(query, 8, 5);
  const rows = [
    ...entities.map((e) => item("", () => atlas.select(e), dot(groupOf[e]), make("span", {}, E.name[e]), make("span", { class: "kind" }, plain(E.type[e])))),
    ...facts.map((f) => item("told", () => atlas.openFact(f), make("span", {}, shortened(F.text[f], 110)))),
  ];
  if (!rows.length && query.trim()) rows.push(make("li", { class: "none" }, "Nothing of that name"));
  list.replaceChildren(...rows);
  list.hidden = !rows.length;
  byId("search").setAttribute("aria-expanded", String(!list.hidden));
  choose(entities.length || facts.length ? 0 : -1);
  return rows.map((row) => row.textContent);
}

function item(kind, open, ...children) {
  const made = make("li", { role: "option", class: kind }, ...children);
  made.addEventListener("mousedown", (event) => event.preventDefault());
  made.addEventListener("click", () => { closeSuggestions(); byId("search").blur(); open(); });
  return made;
}

function choose(n) {
  const options = byId("suggestions").querySelectorAll("[role=option]");
  chosen = options.length ? (n + options.length) % options.length : -1;
  options.forEach((option, place) => {
    option.id = `option-${place}`;
    option.setAttribute("aria-selected", String(place === chosen));
    if (place === chosen) option.scrollIntoView({ block: "nearest" });
  });
  byId("search").setAttribute("aria-activedescendant", chosen < 0 ? "" : `option-${chosen}`);
}

function closeSuggestions() {
  byId("suggestions").hidden = true;
  byId("search").setAttribute("aria-expanded", "false");
}

function searchKey(event) {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
  } else if (event.key === "Enter" && chosen >= 0) {
    byId("suggestions").querySelectorAll("[role=option]")[chosen].click();
  }
}

/** Esc: what is open closes, the innermost first. */
function escape() {
  if (!byId("suggestions").hidden) closeSuggestions();
  else if (playing) stop();
  else if (document.activeElement === byId("search")) byId("search").blur();
  else atlas.showGroups();
}

// Start

function wireMap() {
  renderer.on("clickNode", ({ node }) => atlas.select(Number(node), true));
  renderer.on("clickStage", () => { if (atlas.state.entity >= 0 || atlas.state.focus !== null) atlas.showGroups(); });
  renderer.on("enterNode", ({ node }) => {
    look.hovered = Number(node);
    look.near = new Set([look.hovered]);
    for (const n of edgesOf[look.hovered]) if (toldEdges[n]) look.near.add(edges[n].s).add(edges[n].t);
    byId("map").style.cursor = "pointer";
    refresh();
  });
  renderer.on("leaveNode", () => {
    look.hovered = -1;
    look.near = null;
    byId("map").style.cursor = "";
    refresh();
  });
}

function drawAll() {
  try {
    drawMap(byId("map"));
    wireMap();
  } catch (error) {
    console.warn(`The map cannot be drawn: ${error.message}`);
    renderer = null;
    byId("no-map").hidden = false;
    byId("lens").hidden = true;
  }
}

function wirePage() {
  byId("slider").addEventListener("input", (event) => { stop(); atlas.setTime(timeAt(Number(event.target.value))); });
  byId("now").addEventListener("click", () => { stop(); atlas.setTime(null); });
  byId("play").addEventListener("click", play);
  byId("search").addEventListener("input", suggest);
  byId("search").addEventListener("focus", suggest);
  byId("search").addEventListener("blur", closeSuggestions);
  byId("search").addEventListener("keydown", searchKey);
  byId("groups").addEventListener("click", atlas.showGroups);
  byId("closer").addEventListener("click", () => renderer.getCamera().animatedZoom({ duration: 250 }));
  byId("farther").addEventListener("click", () => renderer.getCamera().animatedUnzoom({ duration: 250 }));
  byId("whole").addEventListener("click", () => bringIntoView(null));
  isDark.addEventListener("change", () => { if (renderer) drawAll(); drawPanel(); });
  window.addEventListener("resize", drawMarks);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") escape();
    else if (event.key === "/" && document.activeElement !== byId("search")) {
      event.preventDefault();
      byId("search").focus();
    }
  });
}

if (entityCount) {
  if (!hasCommunities) byId("groups").textContent = "Types";
  tellAt(null);
  drawAll();
  wirePage();
  drawTide();
  drawMarks();
  atlas.setTime(null);
  drawPanel();
} else {
  for (const id of ["stage", "side"]) byId(id).hidden = true;
  byId("empty").hidden = false;
}
document.documentElement.dataset.ready = "true";
