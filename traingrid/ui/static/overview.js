// Overview: the counts of states, the lanes of the Regions, and the failures with their recommended actions.
import { byId, el, setText } from "./dom.js";
import * as format from "./format.js";

const MOST_RUNNING = 5;
const ORDER = ["InProgress", "Waiting", "Pending", "Completed", "Failed", "Stopped"];
const TITLES = { InProgress: "running" };
const figure = (text) => el("span", { class: "figure" }, text);
const title = (text) => el("span", { class: "label" }, text);

/** Draw everything above the table. */
export function drawOverview(store, filters, open) {
  const rows = [...store.rows.values()];
  drawSummary(rows, filters);
  drawLanes(store.head, rows, filters, open);
  drawFailures(store.head, rows, filters);
  drawNotices(store.head.notices);
}

function count(rows, key) {
  const found = new Map();
  for (const row of rows) found.set(row[key], (found.get(row[key]) ?? 0) + 1);
  return found;
}

function drawSummary(rows, filters) {
  const states = count(rows, "state");
  const shown = [...ORDER, ...[...states.keys()].filter((state) => !ORDER.includes(state))];
  const sum = (amount) => rows.reduce((total, row) => total + amount(row), 0);
  const spent = sum(format.spent), projected = sum(format.projected);
  const tiles = shown.map((state) => el("li", {}, el("button",
    { type: "button", class: "tile", "data-state": format.stateClass(state), onclick: () => filters.set({ state }) },
    figure((states.get(state) ?? 0).toLocaleString("en-US")), title(TITLES[state] ?? state.toLowerCase()))));
  const isMore = projected - spent >= 0.01;
  for (const [label, amount] of [["spent", spent], ["projected", isMore ? projected : 0]]) {
    if (amount) tiles.push(el("li", {}, el("div", { class: "tile" }, figure(format.dollars(amount)), title(label))));
  }
  replaceKeepingFocus(byId("summary"), tiles);
}

function drawLanes(head, rows, filters, open) {
  const names = new Map(head.regions.map((region) => [region.name, region]));
  for (const row of rows) if (row.region && !names.has(row.region)) names.set(row.region, { name: row.region, error: "", shortages: [] });
  const byRegion = new Map([...names.keys()].map((name) => [name, []]));
  for (const row of rows) byRegion.get(row.region)?.push(row);
  replaceKeepingFocus(byId("lanes"), [...names.values()].map((region) => lane(region, byRegion.get(region.name), filters, open)));
}

function lane(region, rows, filters, open) {
  const running = rows.filter((row) => row.state === "InProgress" || row.state === "Stopping");
  const states = count(rows, "state");
  const done = [...states].filter(([state]) => state !== "InProgress")
    .map(([state, number]) => `${number.toLocaleString("en-US")} ${state.toLowerCase()}`).join(", ");
  const more = running.length - MOST_RUNNING;
  return el("li", { class: `lane ${region.error ? "down" : ""}` },
    el("div", { class: "lane-head" },
      el("button", { type: "button", class: "lane-name", onclick: () => filters.set({ region: region.name }) }, region.name),
      el("span", { class: "badge", "data-state": running.length ? "live" : "idle" }, `${running.length.toLocaleString("en-US")} running`)),
    el("p", { class: "quiet small" }, done || (rows.length ? " " : "no jobs")),
    region.error && el("p", { class: "problem small" }, `Does not answer. ${format.printable(region.error)}`),
    region.shortages.map((text) => el("p", { class: "warning small" }, format.printable(text))),
    running.length > 0 && el("ul", { class: "running" }, running.slice(0, MOST_RUNNING).map((row) => runningJob(row, open))),
    more > 0 && el("p", { class: "quiet small" }, `and ${more.toLocaleString("en-US")} more`));
}

function runningJob(row, open) {
  const accuracy = format.metric(row, "accuracy"), epoch = format.epochText(row, " of "), left = format.remaining(row);
  const facts = [
    epoch ? `epoch ${epoch}` : row.phase || row.state,
    accuracy !== undefined && `accuracy ${format.number(accuracy)}`,
    left > 0 ? `${format.rough(left)} left` : format.elapsed(row) > 0 && format.duration(format.elapsed(row)),
  ].filter(Boolean).join(" · ");
  return el("li", {}, el("button", { type: "button", class: "job", onclick: () => open(row) },
    el("span", { class: "job-name" }, format.printable(row.name)), el("span", { class: "quiet small" }, format.printable(facts)),
    row.epochs > 0 && el("progress", { max: row.epochs, value: row.metrics.epoch ?? 0, "aria-label": `epochs of ${format.printable(row.name)}` })));
}

function drawFailures(head, rows, filters) {
  const failed = rows.filter((row) => row.state === "Failed");
  const classes = [...count(failed, "failure")].sort((a, b) => b[1] - a[1]);
  byId("failures-section").hidden = classes.length === 0;
  replaceKeepingFocus(byId("failures"), classes.map(([name, number]) => {
    const known = head.failures[name] ?? { sentence: "The class of this failure is not recorded.", next_step: "Open a job to see its reason and log." };
    return el("li", { class: "failure" },
      el("button", { type: "button", class: "lane-name", onclick: () => filters.set({ text: name, state: "Failed" }) },
        `${number.toLocaleString("en-US")} × ${format.printable(name || "unknown")}`),
      el("p", {}, known.sentence),
      known.next_step && el("p", { class: "next" }, el("strong", {}, "Next: "), known.next_step));
  }));
}

function drawNotices(notices) {
  const host = byId("notices"), texts = notices.map((notice) => format.printable(notice.text));
  if ([...host.children].map((child) => child.textContent).join("\n") === texts.join("\n")) return;
  host.replaceChildren(...notices.map((notice, index) => el("p", { class: `notice ${notice.kind}` }, texts[index])));
}

/** Replace the items of a list; an item that has the keyboard's focus keeps it. */
function replaceKeepingFocus(list, items) {
  const buttons = [...list.querySelectorAll("button")], position = buttons.indexOf(document.activeElement);
  list.replaceChildren(...items);
  if (position >= 0) list.querySelectorAll("button")[position]?.focus({ preventScroll: true });
}

/** Show the state of the connection. */
export function showConnection(state) {
  const texts = {
    live: "live",
    reconnecting: "connection lost, reconnecting",
    closed: "closed: open the address that `traingrid ui` has printed last",
  };
  byId("connection").dataset.state = state;
  setText(byId("connection"), texts[state]);
}
