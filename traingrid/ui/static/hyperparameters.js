// Hyperparameters: those in which the jobs of a submission or a sweep differ, their effect on a metric, and the best job.
import { byId, el, setText } from "./dom.js";
import * as format from "./format.js";
import { colour, drawPlot, loadLibrary, resizePlots } from "./plots.js";
import { get } from "./requests.js";

const HEIGHT = 180, MOST_PLOTS = 8, FEWEST_JOBS = 3;

export class Hyperparameters {
  #group = null;
  #asked = "";
  #drawn = "";
  #plots = [];
  #known = { names: [], jobs: {}, left_out: 0, objective: null };

  constructor(store, { changed, open }) {
    this.store = store;
    this.changed = changed;
    this.open = open;
    this.select = byId("compared-metric");
    this.select.addEventListener("input", () => this.draw(this.rows));
    new ResizeObserver(() => resizePlots(this.#plots)).observe(byId("effects"));
  }

  /** Use the hyperparameters of a group; they are read again if it has more jobs or a retry. */
  use(group) {
    this.#group = group;
    const asked = group ? JSON.stringify(group.submissions) : "";
    if (asked === this.#asked) return;
    this.#asked = asked;
    if (group) this.#load(group, asked);
    else this.#set({ names: [], jobs: {}, left_out: 0, objective: null });
  }

  /** The columns of the table. */
  get columns() {
    return this.#known.names.map((name, position) => ({
      name: `hp-${position}`, title: name, numeric: true, width: "minmax(72px, .6fr)", needs: 80,
      sort: (row) => comparable(this.#known.jobs[row.key]?.[position]), show: (row) => shown(this.#known.jobs[row.key]?.[position]),
    }));
  }

  /** Draw the section: the best job, and a plot for each hyperparameter. */
  draw(rows = []) {
    this.rows = rows.filter((row) => this.#known.jobs[row.key]);
    const metrics = metricsOf(this.rows), hidden = !this.#known.names.length || !metrics.length || this.rows.length < FEWEST_JOBS;
    byId("effects-section").hidden = hidden;
    if (hidden) return;
    this.#offer(metrics);
    const metric = this.select.value, measured = this.rows.filter((row) => Number.isFinite(row.metrics[metric]));
    const best = bestOf(measured, metric, this.#isLowestBest(metric));
    const state = JSON.stringify([metric, best?.key, this.#known.names, measured.map((row) => [row.key, row.metrics[metric]])]);
    if (state === this.#drawn) return;
    this.#drawn = state;
    setText(byId("effects-of"), this.#group ? `of ${format.printable(this.#group.title)}` : "");
    this.#drawBest(best, metric);
    this.#drawPlots(measured, metric, best);
  }

  /** Draw again, with the colours of the current theme. */
  redraw() {
    this.#drawn = "";
    this.draw(this.rows);
  }

  async #load(group, asked) {
    const path = `/api/hyperparameters?${group.submissions.map((id) => `submission=${encodeURIComponent(id)}`).join("&")}`;
    let known;
    try {
      [known] = await Promise.all([get(path), loadLibrary()]);
    } catch { // a group with too many jobs has neither columns nor plots
      known = { names: [], jobs: {}, left_out: 0, objective: null };
    }
    if (asked === this.#asked) this.#set(known);
  }

  #set(known) {
    this.#known = known;
    this.#drawn = "";
    this.changed();
  }

  #offer(metrics) {
    const objective = this.#known.objective?.metric, before = this.select.value;
    if ([...this.select.options].map((option) => option.value).join("\n") === metrics.join("\n")) return;
    this.select.replaceChildren(...metrics.map((name) => el("option", { value: name }, name)));
    this.select.value = [before, objective, format.metricName(metrics, "accuracy"), format.metricName(metrics, "loss"), metrics[0]]
      .find((name) => metrics.includes(name));
  }

  #isLowestBest(metric) {
    const { objective } = this.#known;
    return objective?.metric === metric ? objective.direction === "minimize" : new RegExp(this.store.head.lower_is_better, "i").test(metric);
  }

  #drawBest(best, metric) {
    if (!best) return byId("best").replaceChildren("No completed job has a model and this metric yet.");
    const values = this.#known.jobs[best.key], names = this.#known.names.filter((_, position) => values[position] !== null);
    byId("best").replaceChildren("Best: ", el("button", { type: "button", class: "lane-name", onclick: () => this.open(best.key) }, format.printable(best.name)),
      ` with ${format.printable(metric)} ${format.number(best.metrics[metric])}`,
      el("span", { class: "quiet" }, names.map((name) => ` · ${format.printable(name)} ${shown(values[this.#known.names.indexOf(name)])}`).join("")));
  }

  #drawPlots(measured, metric, best) {
    for (const plot of this.#plots) plot.destroy();
    const plotted = this.#known.names.slice(0, MOST_PLOTS), hosts = plotted.map((name) =>
      el("div", { class: "curve", role: "group", "aria-label": `${metric} by ${name}` }, el("h3", {}, format.printable(name))));
    byId("effects").replaceChildren(...hosts);
    const others = this.#known.names.length - plotted.length + this.#known.left_out;
    byId("effects-more").hidden = others === 0;
    setText(byId("effects-more"), `${format.count(others)} more hyperparameters differ.`);
    this.#plots = plotted.map((_, position) => this.#plot(hosts[position], position, measured, metric, best));
  }

  #plot(host, position, measured, metric, best) {
    const points = measured.map((row) => ({ row, value: this.#known.jobs[row.key][position] })).filter(({ value }) => value !== null && value !== undefined);
    const isNumeric = points.every(({ value }) => value.trim() !== "" && Number.isFinite(Number(value)));
    const labels = isNumeric ? [] : [...new Set(points.map(({ value }) => value))].sort();
    const placed = points.map(({ row, value }) => ({ row, x: isNumeric ? Number(value) : labels.indexOf(value) })).sort((a, b) => a.x - b.x);
    const xs = placed.map(({ x }) => x), [low, high] = [Math.min(...xs), Math.max(...xs)], isLog = isNumeric && low > 0 && high / low >= 50;
    const column = (accepts) => placed.map(({ row }) => (accepts(row) ? row.metrics[metric] : null));
    const dots = (index, size) => ({ stroke: colour(index), paths: () => null, points: { show: true, size, fill: colour(index) } });
    const margin = isLog ? (high / low) ** 0.05 : (high - low || 1) * 0.05;
    return drawPlot(host, [xs, column((row) => row !== best && row.tier < 3), column((row) => row.tier === 3), column((row) => row === best)], {
      height: HEIGHT, cursor: { show: false }, series: [{}, dots(0, 6), dots(7, 5), dots(2, 10)],
      scales: { x: { time: false, distr: isLog ? 3 : 1, range: () => (isLog ? [low / margin, high * margin] : [low - margin, high + margin]) } },
      axes: [isNumeric ? { values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : format.number(tick))) }
        : { splits: () => labels.map((_, index) => index), values: () => labels.map((label) => label.slice(0, 12)) }, {}],
    });
  }
}

/** Return the names of the metrics that jobs have, without the place in the training. */
function metricsOf(rows) {
  return [...new Set(rows.flatMap((row) => Object.keys(row.metrics)))].filter((name) => name !== "epoch" && name !== "step").sort();
}

function bestOf(rows, metric, isLowest) {
  const sign = isLowest ? 1 : -1;
  return rows.filter((row) => row.tier === 0).sort((a, b) => sign * (a.metrics[metric] - b.metrics[metric]))[0];
}

const shown = (value) => (value === null || value === undefined ? "" : Number.isFinite(Number(value)) && value.trim() ? format.number(Number(value)) : format.printable(value));
const comparable = (value) => (value === null || value === undefined ? undefined : Number.isFinite(Number(value)) ? Number(value) : value);
