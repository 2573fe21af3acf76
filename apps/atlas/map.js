"use strict";
// The map: nodes and lines in WebGL, names of communities above them, what is faded and what is not.

// Ten colours that stay apart for colour-blind eyes (after Paul Tol); more communities get lighter and darker shades.
const HUES = ["#4477aa", "#cc6677", "#228833", "#c98a1b", "#aa4499", "#44a8a0", "#8f8f33", "#7b5fc0", "#d4653a", "#5b9bd5"];
const isDark = window.matchMedia("(prefers-color-scheme: dark)");
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function mixed(hex, other, share) {
  const part = (text, n) => parseInt(text.slice(1 + 2 * n, 3 + 2 * n), 16);
  const both = [0, 1, 2].map((n) => Math.round(part(hex, n) * (1 - share) + part(other, n) * share));
  return "#" + both.map((value) => value.toString(16).padStart(2, "0")).join("");
}

/** The colour of the n-th community or type; -1 is grey. */
function shade(n) {
  if (n < 0) return isDark.matches ? "#7d848c" : "#9aa0a6";
  const round = Math.floor(n / HUES.length) % 4, hue = HUES[n % HUES.length];
  const base = isDark.matches ? mixed(hue, "#ffffff", 0.18) : hue;
  return [base, mixed(base, "#ffffff", 0.38), mixed(base, "#000000", 0.3), mixed(base, "#888888", 0.5)][round];
}

// Without communities the legend tells types.
const types = [...new Set(E.type)].map((type) => ({ name: type, size: E.type.filter((one) => one === type).length }))
  .sort((a, b) => b.size - a.size || (a.name < b.name ? -1 : 1));
const typeIndex = new Map(types.map((type, n) => [type.name, n]));
const hasCommunities = data.communities.length > 0;
const groupOf = hasCommunities ? E.community : E.type.map((type) => typeIndex.get(type));
const groups = hasCommunities ? data.communities : types;
const membersOf = groups.map(() => []);
groupOf.forEach((group, e) => { if (group >= 0) membersOf[group].push(e); });

const graph = new graphology.Graph({ type: "undirected" });
const sizeOf = (e) => Math.min(2.6 + 1.5 * Math.sqrt(E.degree[e]), 17) * (entityCount > 1500 ? 0.72 : entityCount < 200 ? 1.25 : 1);
for (let e = 0; e < entityCount; e++) graph.addNode(e, { x: E.x[e], y: E.y[e], size: sizeOf(e), label: E.name[e] });
edges.forEach((edge, n) => graph.addEdgeWithKey(n, edge.s, edge.t));

/** What the map shows: `lit` (entities, or null for all) stay as they are while all else fades; `fact` is shown even if it is over. */
const look = { lit: null, centre: -1, fact: -1, hovered: -1, near: null, colours: null };
const isOf = (e, f) => f >= 0 && (F.s[f] === e || F.t[f] === e);
let renderer = null;

function paint() {
  const ink = css("--ink"), paper = css("--paper");
  look.ink = ink;
  look.paper = paper;
  look.faded = mixed(paper, isDark.matches ? "#ffffff" : "#000000", 0.1);
  look.colours = groupOf.map((group) => shade(group));
  const strength = Math.max(0.22, Math.min(0.7, 900 / (edges.length + 1)));
  look.lines = edges.map((edge) => (groupOf[edge.s] === groupOf[edge.t] && groupOf[edge.s] >= 0
    ? mixed(paper, look.colours[edge.s], strength) : mixed(paper, "#8a9097", 0.75 * strength)));
}

const isLit = (e) => (look.near ? look.near.has(e) : look.lit ? look.lit[e] === 1 : true);

function nodeLook(key, attributes) {
  const e = Number(key), shown = { ...attributes, color: look.colours[e], zIndex: 1 };
  const isStrong = look.hovered === e || look.centre === e;
  if (isOf(e, look.fact) && isLit(e)) return { ...shown, forceLabel: true, zIndex: 3 };
  if (!isLit(e) || (!toldEntities[e] && !isStrong)) {
    return { ...shown, color: look.faded, label: isLit(e) && (look.lit || look.near) ? shown.label : "", zIndex: 0 };
  }
  if (look.lit || look.near) shown.zIndex = 2;
  if (isStrong) return { ...shown, highlighted: true, forceLabel: true, zIndex: 3 };
  if (look.near || look.centre >= 0) shown.forceLabel = E.degree[e] > 0 && (look.near || edgesOf[look.centre]).size < 40;
  return shown;
}

function lineLook(key) {
  const n = Number(key), edge = edges[n];
  if (look.fact >= 0 && look.hovered < 0 && edge.facts.includes(look.fact)) return { color: look.ink, size: 2, zIndex: 3 };
  if (!toldEdges[n]) return { hidden: true };
  const size = 0.7 + 0.5 * Math.min(Math.sqrt(toldEdges[n]), 3);
  const centre = look.hovered >= 0 ? look.hovered : look.centre;
  if (centre >= 0) {
    const isOwn = edge.s === centre || edge.t === centre;
    return isOwn ? { color: mixed(look.paper, look.colours[centre], 0.75), size: size + 0.6, zIndex: 2 } : { hidden: true };
  }
  if (look.lit && !(look.lit[edge.s] && look.lit[edge.t])) return { hidden: true };
  return { color: look.lines[n], size, zIndex: 1 };
}

// Names are drawn when all of a frame are known: the larger first, and none over another. Each is drawn once, with its
// halo, and then copied: outlines of letters are what costs most on a canvas.
const LABEL_HEIGHT = 22, PICTURES = 3000;
let labels = [], pictures = new Map();
const keepLabel = (context, node, settings) => { if (node.label) labels.push({ context, node, settings, isStrong: node.highlighted }); };

function keepHover(context, node, settings) {
  context.beginPath();
  context.arc(node.x, node.y, node.size + 3, 0, 2 * Math.PI);
  context.lineWidth = 2;
  context.strokeStyle = look.ink;
  context.stroke();
  if (node.label) copyLabel(context, node, settings, "600");
}

/** The picture of a name and how wide it is, in pixels of the page. */
function labelPicture(text, settings, weight) {
  const key = `${weight} ${text}`;
  if (pictures.has(key)) return pictures.get(key);
  if (pictures.size > PICTURES) pictures.clear();
  const canvas = document.createElement("canvas"), context = canvas.getContext("2d"), scale = window.devicePixelRatio || 1;
  context.font = `${weight} ${settings.labelSize}px ${settings.labelFont}`;
  const width = Math.ceil(context.measureText(text).width) + 8;
  canvas.width = width * scale;
  canvas.height = LABEL_HEIGHT * scale;
  context.scale(scale, scale);
  Object.assign(context, {
    font: `${weight} ${settings.labelSize}px ${settings.labelFont}`, lineJoin: "round", lineWidth: 3.5, textBaseline: "middle",
    strokeStyle: look.paper, fillStyle: look.ink,
  });
  context.strokeText(text, 4, LABEL_HEIGHT / 2);
  context.fillText(text, 4, LABEL_HEIGHT / 2);
  const made = { canvas, width };
  pictures.set(key, made);
  return made;
}

function copyLabel(context, node, settings, weight) {
  const { canvas, width } = labelPicture(node.label, settings, weight);
  context.drawImage(canvas, Math.round(node.x + node.size), Math.round(node.y - LABEL_HEIGHT / 2), width, LABEL_HEIGHT);
}

const overlaps = (a, b) => a[0] < b[0] + b[2] && b[0] < a[0] + a[2] && a[1] < b[1] + b[3] && b[1] < a[1] + a[3];

/** Draw the kept names, but none over the boxes that are taken. */
function drawLabels(taken) {
  labels.sort((a, b) => Number(b.isStrong) - Number(a.isStrong) || b.node.size - a.node.size);
  for (const { context, node, settings, isStrong } of labels) {
    const box = [node.x + node.size + 2, node.y - 8, labelPicture(node.label, settings, "400").width - 4, 16];
    if (!isStrong && taken.some((other) => overlaps(box, other))) continue;
    taken.push(box);
    if (!isStrong) copyLabel(context, node, settings, "400");
  }
  labels = [];
}

/** Draw the map, or draw it anew in other colours; false where the browser cannot. */
function drawMap(container) {
  const camera = renderer ? renderer.getCamera().getState() : null;
  if (renderer) renderer.kill();
  paint();
  pictures.clear();
  const border = Sigma.rendering.createNodeBorderProgram({
    borders: [{ size: { value: 0.1 }, color: { value: look.paper } }, { size: { fill: true }, color: { attribute: "color" } }],
  });
  renderer = new Sigma(graph, container, {
    defaultNodeType: "bordered", nodeProgramClasses: { bordered: border },
    nodeReducer: nodeLook, edgeReducer: lineLook, zIndex: true,
    defaultDrawNodeLabel: keepLabel, defaultDrawNodeHover: keepHover,
    labelFont: css("--sans"), labelSize: 12.5, labelWeight: "400",
    labelDensity: entityCount > 600 ? 1 : 6, labelGridCellSize: 110, labelRenderedSizeThreshold: entityCount > 600 ? 7 : 0,
    minCameraRatio: 0.02, maxCameraRatio: 2.5, stagePadding: 46,
    allowInvalidContainer: true,
  });
  if (camera) renderer.getCamera().setState(camera);
  renderer.on("afterRender", () => drawLabels(placeRegions()));
  renderer.getCamera().on("updated", watchPace);
  makeRegions();
  return renderer;
}

// Where drawing is slow (no graphics card), lines and names are left out while the map moves.
const SLOW_MS = 50, SLOW_FRAMES = 4;
const pace = { isMeasuring: false, slow: 0 };

function watchPace() {
  if (pace.isMeasuring || renderer.getSetting("hideEdgesOnMove")) return;
  pace.isMeasuring = true;
  requestAnimationFrame((first) => requestAnimationFrame((second) => {
    pace.isMeasuring = false;
    pace.slow = second - first > SLOW_MS ? pace.slow + 1 : 0;
    if (pace.slow >= SLOW_FRAMES) renderer.setSettings({ hideEdgesOnMove: true, hideLabelsOnMove: true });
  }));
}

let refreshing = 0;
/** Show the look as it is now, in the next frame, once. */
function refresh() {
  if (!renderer || refreshing) return;
  refreshing = requestAnimationFrame(() => {
    refreshing = 0;
    renderer.refresh({ skipIndexation: true });
  });
}

// Names of communities, as on a map of a country: big text over the middle, the larger before the smaller.

const REGIONS = 60, SMALL = 300;
const MASTHEAD = [0, 0, 330, 150];  // where the title and the search box lie
let regions = [];

function makeRegions() {
  const layer = document.getElementById("regions");
  layer.replaceChildren();
  if (!hasCommunities) return;
  const largest = Math.max(...membersOf.map((members) => members.length));
  const isSmall = entityCount <= SMALL, named = membersOf.filter((members) => members.length > 2).slice(0, REGIONS);
  regions = named.map((members) => {
    const group = groupOf[members[0]];
    const label = document.createElement("span");
    label.textContent = groups[group].name;
    const size = (isSmall ? 14 : 13) + (isSmall ? 5 : 12) * Math.sqrt(members.length / largest);
    label.style.fontSize = `${size}px`;
    label.style.color = mixed(shade(group), look.ink, 0.5);
    layer.append(label);
    const xs = members.map((e) => E.x[e]), ys = members.map((e) => E.y[e]);
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const y = isSmall ? Math.max(...ys) : mean(ys);
    return { label, x: mean(xs), y, lift: isSmall ? 1.35 : 0.5, width: label.offsetWidth, height: label.offsetHeight, group };
  });
}

/** Place the names of communities; returns the boxes that they take. */
function placeRegions() {
  const ratio = renderer.getCamera().ratio, taken = [MASTHEAD];
  const nearness = Math.max(0, Math.min(1, (ratio - 0.22) / 0.2));
  for (const region of regions) {
    const at = renderer.graphToViewport(region);
    const box = [at.x - region.width / 2 - 6, at.y - region.height * region.lift, region.width + 12, region.height];
    const isFree = !taken.some((other) => overlaps(box, other));
    const isShown = isFree && nearness > 0 && !look.near && look.centre < 0 && look.fact < 0 && (!look.lit || membersOf[region.group].some((e) => look.lit[e]));
    if (isShown) taken.push(box);
    region.label.style.opacity = isShown ? 0.92 * nearness : 0;
    region.label.style.transform = `translate(${box[0] + 6}px, ${box[1]}px)`;
  }
  return taken;
}

function isInView(e) {
  if (!renderer) return true;
  const at = renderer.graphToViewport({ x: E.x[e], y: E.y[e] }), { width, height } = renderer.getDimensions();
  return at.x > 20 && at.y > 20 && at.x < width - 20 && at.y < height - 20;
}

/** Bring entities into view; without any, the whole map. */
function bringIntoView(entities) {
  if (!renderer) return;
  const camera = renderer.getCamera(), how = { duration: 450 };
  if (!entities || !entities.length) return void camera.animatedReset(how);
  const places = entities.map((e) => renderer.getNodeDisplayData(e)).filter(Boolean);
  const xs = places.map((p) => p.x), ys = places.map((p) => p.y);
  const span = Math.max(Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys));
  const middle = { x: (Math.max(...xs) + Math.min(...xs)) / 2, y: (Math.max(...ys) + Math.min(...ys)) / 2 };
  camera.animate({ ...middle, ratio: Math.min(1, Math.max(entityCount > SMALL ? 0.14 : 0.4, span * 1.35)) }, how);
}
