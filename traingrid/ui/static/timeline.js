// Timeline: when each job waited, started and trained, and each of its attempts; of rounds, a line for each Region.
import { byId, el, setText, showItems } from "./dom.js";
import * as format from "./format.js";

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const MINUTE = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const SECOND = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const MOST_JOBS = 40, MOST_TICKS = 6, MOST_TICKS_IF_NARROW = 2;
const LAST = "~";
const narrow = matchMedia("(max-width: 700px)");
const STEPS = [10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800, 2592000];

/** Draw the section for some jobs. `merges` has the submissions of a group of rounds that merge. */
export function drawTimeline({ group, title, rows }, merges, open) {
  const lines = group?.rounds ? regionLines(rows, merges) : rows.slice(0, MOST_JOBS).map(lineOf);
  const shown = lines.filter(({ parts }) => parts.length > 0).sort(byOrder);
  byId("timeline-section").hidden = shown.length === 0;
  if (shown.length === 0) return;
  setText(byId("timeline-of"), title && `of ${title}`);
  const first = Math.min(...shown.map(({ parts }) => parts[0].from));
  const last = Math.max(first + STEPS[0], ...shown.map(({ parts }) => parts.at(-1).to));
  const place = (seconds) => `${(((seconds - first) / (last - first)) * 100).toFixed(2)}%`;
  showItems(byId("timeline"), shown.map(({ id, key, name, place: region, parts }) => {
    const bars = parts.map((part) => ({ ...part, left: place(part.from), width: place(first + part.to - part.from) }));
    const facts = { key, name: format.printable(name), place: format.printable(region), bars };
    return [id, facts, () => track(facts, open)];
  }));
  drawTicks(first, last, place);
  byId("timeline-more").hidden = group?.rounds || rows.length <= MOST_JOBS;
  setText(byId("timeline-more"), `and ${format.count(rows.length - MOST_JOBS)} more`);
}

const lineOf = (row) => ({ id: row.key, key: row.key, name: row.name, place: row.place, order: row.place, parts: partsOf(row) });
const byOrder = (a, b) => (a.order < b.order ? -1 : a.order > b.order ? 1 : a.parts[0].from - b.parts[0].from);

/** Return a line for each Region of rounds with all of its jobs, and one for the merges. Its key is that of the last job. */
function regionLines(rows, merges) {
  const lines = new Map();
  for (const row of [...rows].sort((a, b) => a.created - b.created)) {
    const isMerge = merges.has(row.submission), name = isMerge ? "merges" : row.region;
    if (!lines.has(name)) lines.set(name, { id: name, name, place: "", order: isMerge ? LAST : name, parts: [] });
    const line = lines.get(name);
    line.key = row.key;
    line.parts.push(...partsOf(row).map((part) => ({ ...part, text: `${format.printable(row.name)} ${part.text}` })));
  }
  return [...lines.values()];
}

/** Return the parts of a job's time: `kind` is the class of its bar, and times are in seconds since 1970. */
function partsOf(row) {
  const parts = [], add = (kind, text, from, to) => { if (to > from && from > 0) parts.push({ kind, text, from, to }); };
  let from = row.created;
  row.earlier.forEach(([place, state, failure, ended, seconds], index) => {
    const trained = Math.max(from, ended - seconds);
    add("wait", "waited", from, trained);
    add(state === "Failed" ? "bad" : "off", `attempt ${index + 1} in ${place} ${state.toLowerCase()}${failure ? ` (${failure})` : ""} after`, trained, ended);
    from = Math.max(from, ended);
  });
  const { started, requested } = row, end = row.ended || Math.max(Math.floor(Date.now() / 1000), started, requested);
  if (!started && row.seconds) { // a version that did not record the start
    add("wait", "waited", from, end - row.seconds);
    add(format.stateClass(row.state), format.stateTitle(row.state), Math.max(from, end - row.seconds), end);
    return parts;
  }
  add("wait", "waited", from, requested || started || end);
  if (requested) add("start", "started for", requested, started || end);
  if (started) add(format.stateClass(row.state), row.ended ? `${format.stateTitle(row.state)} after` : "has trained for", started, end);
  return parts;
}

function track({ key, name, place, bars }, open) {
  const texts = bars.map(({ text, from, to }) => `${text} ${format.duration(to - from)}`);
  const shown = el("span", { class: "bars", role: "img", "aria-label": texts.join(", ") }, bars.map(({ kind, left, width }, index) => {
    const part = el("span", { class: "part", "data-kind": kind, title: texts[index] });
    Object.assign(part.style, { left, width });
    return part;
  }));
  const last = bars.at(-1);
  return el("li", { class: "track" },
    el("button", { type: "button", class: "track-name", title: `${name}, ${place}`, onclick: () => open(key) }, name, el("span", { class: "quiet small" }, ` ${place}`)),
    shown, el("span", { class: "quiet small numeric" }, format.duration(last.to - bars[0].from)));
}

function drawTicks(first, last, place) {
  const step = STEPS.find((seconds) => (last - first) / seconds <= (narrow.matches ? MOST_TICKS_IF_NARROW : MOST_TICKS)) ?? STEPS.at(-1);
  const offset = new Date(first * 1000).getTimezoneOffset() * 60; // whole hours and days of the user's clock
  const start = Math.ceil((first - offset) / step) * step + offset;
  const ticks = [];
  for (let seconds = start; seconds <= last; seconds += step) ticks.push([seconds, { text: clock(seconds, step), left: place(seconds) }]);
  showItems(byId("timeline-ticks"), ticks.map(([seconds, { text, left }]) => [String(seconds), { text, left }, () => {
    const tick = el("li", {}, text);
    tick.style.left = left;
    return tick;
  }]));
}

function clock(seconds, step) {
  return (step >= 86400 ? DAY : step < 60 ? SECOND : MINUTE).format(seconds * 1000);
}
