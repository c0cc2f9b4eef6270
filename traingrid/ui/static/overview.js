// Overview: the counts of states, the lanes of the Regions, and the failures with their recommended actions.
import { byId, el, setText, showItems } from "./dom.js";
import * as format from "./format.js";

const MOST_LINES = 3;
const ORDER = ["InProgress", "Waiting", "Pending", "Completed", "Failed", "Stopped"];
const figure = (text) => el("span", { class: "figure" }, text);
const title = (text) => el("span", { class: "label" }, text);

/** Draw everything above the table. */
export function drawOverview({ head }, summary, filters, open) {
  drawSummary(summary, filters);
  drawLanes(head, summary.regions, filters, open);
  drawNotices(head.notices);
}

function drawSummary({ states, spent, projected }, filters) {
  const shown = [...ORDER, ...[...states.keys()].filter((state) => !ORDER.includes(state))];
  const tiles = shown.map((state) => [state, states.get(state) ?? 0, () => el("li", {}, el("button",
    { type: "button", class: "tile", "data-state": format.stateClass(state), onclick: () => filters.set({ state }) },
    figure(format.count(states.get(state) ?? 0)), title(format.stateTitle(state))))]);
  const isMore = projected - spent >= 0.01;
  for (const [label, amount] of [["spent", spent], ["projected", isMore ? projected : 0]]) {
    const text = format.dollars(amount);
    if (text) tiles.push([label, text, () => el("li", {}, el("div", { class: "tile" }, figure(text), title(label)))]);
  }
  showItems(byId("summary"), tiles);
}

function drawLanes(head, found, filters, open) {
  const known = new Map(head.regions.map((region) => [region.name, region]));
  showItems(byId("lanes"), [...found].map(([name, { jobs, states, running, first }]) => {
    const { error = "", shortages = [] } = known.get(name) ?? {};
    const facts = { name, jobs, states: [...states], running, error, shortages, first: first.map(factsOfRunning) };
    return [name, facts, () => lane(facts, filters, open)];
  }));
}

function lane({ name, jobs, states, running, error, shortages, first }, filters, open) {
  const done = states.filter(([state]) => state !== "InProgress")
    .map(([state, number]) => `${format.count(number)} ${state.toLowerCase()}`).join(", ");
  const more = running - first.length;
  return el("li", { class: `lane ${error ? "down" : ""}` },
    el("div", { class: "lane-head" },
      el("button", { type: "button", class: "lane-name", onclick: () => filters.set({ region: name }) }, name),
      el("span", { class: "badge", "data-state": running ? "live" : "idle" }, `${format.count(running)} running`)),
    el("p", { class: "quiet small" }, done || (jobs ? " " : "no jobs")),
    error && el("p", { class: "problem small" }, `Does not answer. ${format.printable(error)}`),
    shortages.map((text) => el("p", { class: "warning small" }, format.printable(text))),
    first.length > 0 && el("ul", { class: "running" }, first.map((one) => runningJob(one, open))),
    more > 0 && el("p", { class: "quiet small" }, `and ${format.count(more)} more`));
}

function factsOfRunning(row) {
  const accuracy = format.metric(row, "accuracy"), epoch = format.epochText(row, " of "), left = format.remaining(row);
  const text = [
    epoch ? `epoch ${epoch}` : row.phase || row.state,
    accuracy !== undefined && `accuracy ${format.number(accuracy)}`,
    left > 0 ? `${format.rough(left)} left` : format.elapsed(row) > 0 && format.duration(format.elapsed(row)),
  ].filter(Boolean).join(" · ");
  return { key: row.key, name: format.printable(row.name), text: format.printable(text), epoch: row.metrics.epoch ?? 0, epochs: row.epochs };
}

function runningJob({ key, name, text, epoch, epochs }, open) {
  return el("li", {}, el("button", { type: "button", class: "job", onclick: () => open(key) },
    el("span", { class: "job-name" }, name), el("span", { class: "quiet small" }, text),
    epochs > 0 && el("progress", { max: epochs, value: epoch, "aria-label": `epochs of ${name}` })));
}

/** Draw the failures of the jobs that the filters accept. They are closed if the jobs in focus have none. */
export function drawFailures(head, found, { filters, focus, open }) {
  const classes = [...found].sort((a, b) => b[1].jobs - a[1].jobs), details = byId("failures-details");
  byId("failures-section").hidden = classes.length === 0;
  setText(byId("failures-of"), classes.map(([name, { jobs }]) => titleOf(name, jobs)).join(", "));
  const isOwn = filters.isSet || classes.some(([, { groups }]) => groups.has(focus)), state = `${focus?.key} ${isOwn}`;
  if (details.dataset.state !== state) details.open = isOwn; // the user's choice stays until the focus changes
  details.dataset.state = state;
  showItems(byId("failures"), classes.map(([name, { jobs, first }]) => {
    const facts = { name, jobs, first: first.map((row) => ({ key: row.key, job: format.printable(row.name), place: placeOf(row), reason: excerpt(row.reason) })) };
    return [name, facts, () => failure(head, facts, filters, open)];
  }));
}

const titleOf = (name, jobs) => `${format.count(jobs)} × ${format.printable(name || "unknown")}`;
const placeOf = (row) => [row.group?.title, row.place].filter(Boolean).map(format.printable).join(" · ");

/** Return the first lines of a reason: SageMaker's has the last output of the script. */
function excerpt(reason) {
  const lines = reason.split("\n").map((line) => format.printable(line).trimEnd()).filter(Boolean);
  return [...lines.slice(0, MOST_LINES), ...(lines.length > MOST_LINES ? ["…"] : [])].join("\n");
}

function failure(head, { name, jobs, first }, filters, open) {
  const known = head.failures[name] ?? { sentence: "The class of this failure is not recorded.", next_step: "Open a job to see its reason and log." };
  return el("li", { class: "failure" },
    el("button", { type: "button", class: "lane-name", onclick: () => filters.set({ text: name, state: "Failed" }) },
      titleOf(name, jobs)),
    el("p", {}, known.sentence),
    el("ul", { class: "failed" }, first.map(({ key, job, place, reason }) => el("li", {},
      el("button", { type: "button", class: "job-link", onclick: () => open(key) }, job, el("span", { class: "quiet small" }, ` ${place}`)),
      reason && el("p", { class: "verbatim small" }, reason)))),
    jobs > first.length && el("p", { class: "quiet small" }, `and ${format.count(jobs - first.length)} more`),
    known.next_step && el("p", { class: "next" }, el("strong", {}, "Next: "), known.next_step));
}

let drawnNotices = "";

/** Draw the notices; those of several rejected manifests can be opened, because they would fill a phone. */
function drawNotices(notices) {
  const state = JSON.stringify(notices);
  if (state === drawnNotices) return;
  drawnNotices = state;
  const notice = ({ kind, text }) => el("p", { class: `notice ${kind}` }, format.printable(text));
  const rejections = notices.filter(({ kind }) => kind === "rejection"), others = notices.filter(({ kind }) => kind !== "rejection");
  const isLong = rejections.length > 1;
  byId("notices").replaceChildren(...others.map(notice), ...(isLong ? [] : rejections.map(notice)),
    ...(isLong ? [el("details", { class: "rejections" }, el("summary", {}, "Several manifests were rejected; nothing of them trains."), rejections.map(notice))] : []));
}

/** Show the state of the connection. */
export function showConnection(state) {
  const texts = {
    live: "live",
    reconnecting: "connection lost, reconnecting",
    closed: "closed: reload the page, or open the address that `traingrid ui` has printed last",
  };
  byId("connection").dataset.state = state;
  setText(byId("connection"), texts[state]);
}
