// Campaigns: the jobs, the runs and the planned copies of data of each campaign of the catalog.
import { byId, el, setText, showItems } from "./dom.js";
import * as format from "./format.js";

/** Draw the section; a grid without a catalog has none. */
export function drawCampaigns({ head }, found, filters) {
  const known = head.campaigns;
  byId("campaigns-section").hidden = !known || (!known.names.length && !known.error);
  if (!known) return;
  byId("campaigns-error").hidden = !known.error;
  setText(byId("campaigns-error"), known.error ? `The catalog does not answer. ${format.printable(known.error)}` : "");
  showItems(byId("campaigns"), known.names.map((name) => {
    const moves = known.moves.filter((move) => move.campaign === name);
    const facts = { name, states: [...found.get(name) ?? []], runs: known.runs[name] ?? { runs: 0, dollars: 0 }, moves };
    return [name, facts, () => campaign(facts, filters)];
  }));
}

function campaign({ name, states, runs, moves }, filters) {
  const jobs = states.map(([state, number]) => `${format.count(number)} ${format.stateTitle(state)}`).join(", ");
  const past = runs.runs ? `${format.count(runs.runs)} ${runs.runs === 1 ? "run" : "runs"} in the catalog` : "";
  return el("li", { class: "lane" },
    el("div", { class: "lane-head" }, el("button", { type: "button", class: "lane-name", onclick: () => filters.set({ campaign: name }) },
      format.printable(name))),
    el("p", { class: "quiet small" }, jobs || "no jobs on this page"),
    past && el("p", { class: "quiet small" }, [past, format.dollars(runs.dollars)].filter(Boolean).join(", ")),
    moves.length > 0 && el("ul", { class: "moves" }, moves.map(move)));
}

function move({ source, target, from, to, bytes, dollars, state, percent, jobs }) {
  const facts = [state === "copying" ? `copying, ${percent} %` : state, bytes === null ? "" : format.size(bytes), format.dollars(dollars),
    `for ${format.count(jobs)} ${jobs === 1 ? "job" : "jobs"}`].filter(Boolean).join(" · ");
  return el("li", { title: `${format.printable(source)} to ${format.printable(target)}` },
    el("span", {}, `${from || "?"} → ${to}`), " ", el("span", { class: "quiet small" }, facts));
}
