"use strict";
// What stands beside the map. All stored text goes in as text, never as markup.

/** An element with properties, and children that are elements or text. */
function make(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (name === "class") made.className = value;
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

const button = (properties, ...children) => make("button", { type: "button", ...properties }, ...children);

function dot(group) {
  const made = make("span", { class: "dot" });
  made.style.background = shade(group);
  return made;
}

const counted = (count, one, many) => `${count.toLocaleString("en-GB")} ${count === 1 ? one : many || one + "s"}`;
const shortId = (id) => id.slice(id.lastIndexOf("_") + 1).slice(0, 8);
const plain = (name) => (name || "").replaceAll("_", " ");

/** Words in a text that lead to something on this page. */
const link = (open, text) => make("a", { class: "link", href: "#", onclick: (event) => { event.preventDefault(); open(); } }, text);
const entityLink = (e) => link(() => atlas.select(e), E.name[e]);

/** A list that shows `first` items and, on request, all others. */
function listed(items, draw, first) {
  const list = make("ul", { class: "rows" }, ...items.slice(0, first).map(draw));
  const rest = items.slice(first);
  if (!rest.length) return [list];
  const more = button({ class: "link", onclick: () => { list.append(...rest.map(draw)); more.remove(); } },
    `Show ${rest.length.toLocaleString("en-GB")} more`);
  return [list, more];
}

// Communities, or types where there are none.

function groupsPanel() {
  const { focus } = atlas.state, rows = groups.map((group, n) => n).filter((n) => membersOf[n].length);
  const draw = (n) => make("li", {},
    button({ "aria-pressed": String(focus === n), onclick: () => atlas.showGroup(n) },
      dot(n), make("span", {}, hasCommunities ? groups[n].name : plain(groups[n].name)),
      make("span", { class: "count" }, membersOf[n].length.toLocaleString("en-GB"))),
    focus === n && (groups[n].summary || groups[n].is_outdated)
      ? make("p", { class: "note" }, groups[n].summary || "Changed since; told anew by the next refresh.") : null);
  const alone = groupOf.filter((group) => group < 0).length;
  return [
    hasCommunities ? null : make("p", { class: "note" }, "No communities were found yet; colours tell types. ",
      make("code", {}, "slowwave communities refresh"), " finds them."),
    ...listed(rows, draw, focus >= 24 ? rows.length : 24),
    alone ? make("p", { class: "note" }, `${counted(alone, "entity", "entities")} in no community`) : null,
    leftOut(),
  ];
}

function leftOut() {
  const { entities, facts } = data.left_out;
  const parts = [[entities, "entity", "entities"], [facts, "fact"]].filter((part) => part[0]);
  return parts.length ? make("p", { class: "note" }, `Not on this page: ${parts.map((part) => counted(...part)).join(", ")}.`) : null;
}

function svg(tag, properties) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  return made;
}

// Reasons

/** A reason as text; facts that it names by id become links to their stories. */
function reasonText(reason) {
  return reason.split(/\b([a-z]{1,3}_\w+)/).map((part) => {
    const f = factIndex().get(part);
    if (f !== undefined) return factLink(f);
    return /^[a-z]{1,3}_[0-9a-f_]{8,}$/.test(part) ? shortId(part) : plain(part);
  });
}

let placesOfFacts = null;
const factIndex = () => (placesOfFacts = placesOfFacts || new Map(F.id.map((id, f) => [id, f])));
const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const factLink = (f) => link(() => atlas.openFact(f), `“${shortened(F.text[f], 90)}”`);

// One entity

function factItem(f, seenFrom) {
  const other = F.t[f] === null ? -1 : F.s[f] === seenFrom ? F.t[f] : F.s[f];
  const meta = [validity(f), other >= 0 ? `${plain(F.predicates[F.p[f]])} · ${E.name[other]}` : null].filter(Boolean).join(" · ");
  return make("li", {}, button({ class: told[f] ? "fact" : "fact over", onclick: () => atlas.openFact(f) },
    make("span", { class: "words" }, F.text[f]), make("span", { class: "meta" }, meta)));
}

function factList(title, facts, e, isFolded) {
  if (!facts.length) return [];
  const rows = listed(facts, (f) => factItem(f, e), 30);
  if (!isFolded) return [make("h3", {}, title), ...rows];
  return [make("details", {}, make("summary", {}, `${title} (${facts.length})`), ...rows)];
}

function entityPanel(e) {
  const time = atlas.state.time, own = factsOf[e], holding = own.filter((f) => told[f]);
  const at = time === null ? data.now : time;
  const isAhead = (f) => !told[f] && F.from[f] !== null && F.from[f] > at && F.statuses[F.st[f]] !== "retracted";
  const group = hasCommunities ? E.community[e] : -1;
  return [
    back(),
    make("h2", {}, E.name[e]),
    make("p", { class: "lead" }, plain(E.type[e]), E.archived[e] ? " · archived" : "",
      group >= 0 ? " · " : null, group >= 0 ? link(() => atlas.showGroup(group), groups[group].name) : null),
    E.aliases[e].length ? make("p", { class: "note" }, `Also called ${E.aliases[e].join(", ")}`) : null,
    E.summary[e] ? make("p", { class: "note" }, E.summary[e]) : null,
    holding.length ? null : make("p", { class: "note" }, time === null ? "Nothing holds now." : `Nothing held on ${day(time)}.`),
    ...factList("Related to", holding.filter((f) => F.t[f] !== null), e),
    ...factList("Known", holding.filter((f) => F.t[f] === null), e),
    ...factList("No longer", own.filter((f) => !told[f] && !isAhead(f)), e, true),
    ...factList("Not yet", own.filter(isAhead), e, true),
  ];
}

const back = () => button({ class: "back", onclick: () => atlas.back() }, "← Back");

// One fact

function storyPanel(f) {
  const status = F.statuses[F.st[f]], count = F.said_count[f] || (F.said[f] || []).length, previous = replaces.get(f) || [];
  const rows = [];
  const row = (name, ...value) => rows.push(make("dt", {}, name), make("dd", {}, ...value));
  row("About", entityLink(F.s[f]), ` ${plain(F.predicates[F.p[f]])} `, F.t[f] !== null ? entityLink(F.t[f]) : F.object[f] || "");
  row("Valid", validity(f) || "nobody said since when");
  const reason = (F.reason[f] || "").replace(F.by[f] >= 0 ? /:? ?\w+ by [a-z]{1,3}_\w+\.?$/ : /$^/, "");  // it has a row of its own
  row("State", F.live[f] ? "holds now" : `${status === "active" ? "no longer holds" : status}${reason ? ": " : ""}`,
    ...(F.live[f] ? [] : reasonText(reason)));
  if (F.by[f] >= 0) row("Replaced by", factLink(F.by[f]));
  if (previous.length) row("Took over", ...previous.slice(0, 5).map((old) => make("div", {}, factLink(old))));
  row("Confidence", `${Math.round(100 * F.confidence[f])} %`, F.pinned[f] ? ", pinned" : "");
  const said = (F.said[f] || []).map(([where, message, who, at, quote]) => make("div", { class: "said" },
    quote ? make("q", {}, quote) : null,
    make("cite", {}, [F.speakers[who], day(at), F.conversations[where] || message].filter(Boolean).join(" · "))));
  return [
    back(), make("blockquote", {}, F.text[f]),
    make("dl", {}, ...rows),
    make("h3", {}, count > 1 ? `Said ${count} times` : "Who said it"),
    ...(said.length ? said : [make("p", { class: "note" }, "Nobody said it in so many words.")]),
    count > said.length && said.length ? make("p", { class: "note" }, `and ${count - said.length} more`) : null,
    make("code", { class: "ask" }, `slowwave why ${shortId(F.id[f])}`),
  ];
}
