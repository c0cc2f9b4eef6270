// Hyperparameters: those in which the jobs of a submission or a sweep differ, their effect on a metric, and the best job.
import { byId, el, setText } from "./dom.js";
import * as format from "./format.js";
import { colour, drawPlot, loadLibrary, resizePlots } from "./plots.js";
import { get } from "./requests.js";

const HEIGHT = 180, MOST_PLOTS = 8, MOST_LABELS = 12, FEWEST_JOBS = 3, AGAIN_SECONDS = 30;
const NOTHING = { names: [], jobs: {}, left_out: 0, objective: null };

export class Hyperparameters {
  #group = null;
  #asked = "";
  #drawn = "";
  #plots = [];
  #known = NOTHING;
  #chosen = "";
  #error = "";
  /** The columns of the table. */
  columns = [];

  constructor(store, { changed, open }) {
    this.store = store;
    this.changed = changed;
    this.open = open;
    this.select = byId("compared-metric");
    this.select.addEventListener("input", () => {
      this.#chosen = this.select.value;
      this.draw(this.rows);
    });
    new ResizeObserver(() => resizePlots(this.#plots)).observe(byId("effects"));
  }

  /** Use the hyperparameters of a group; they are read again if it has more jobs or a retry. */
  use(group) {
    this.#group = group;
    const asked = group ? `${group.key}\n${group.revision}` : "";
    if (asked === this.#asked) return;
    if (!asked.startsWith(`${this.#asked.split("\n")[0]}\n`)) this.#chosen = "";
    this.#asked = asked;
    if (group) this.#load(group, asked);
    else this.#set(NOTHING);
  }

  /** Draw the section: the best job, and a plot for each hyperparameter. */
  draw(rows = []) {
    this.rows = rows.filter((row) => this.#known.jobs[row.key]);
    const metrics = metricsOf(this.rows), hidden = !this.#known.names.length || !metrics.length || this.rows.length < FEWEST_JOBS;
    byId("effects-section").hidden = hidden && !this.#error;
    byId("effects-error").hidden = !this.#error;
    setText(byId("effects-error"), this.#error);
    if (hidden) return;
    this.#offer(metrics);
    const metric = this.select.value, measured = this.rows.filter((row) => Number.isFinite(row.metrics[metric]));
    const best = bestOf(measured, metric, this.#isLowestBest(metric));
    const state = JSON.stringify([metric, best?.key, this.#known.names, measured.map((row) => [row.key, row.tier, row.metrics[metric]])]);
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
    let known = NOTHING, problem = "";
    try {
      [known] = await Promise.all([get(path), loadLibrary()]);
    } catch (error) {
      problem = `The hyperparameters cannot be shown. ${error.message}`;
    }
    if (asked !== this.#asked) return;
    if (problem) setTimeout(() => { if (asked === this.#asked) this.#asked = ""; }, AGAIN_SECONDS * 1000);
    this.#error = problem;
    this.#set(known);
  }

  #set(known) {
    this.#known = known;
    this.columns = this.#columns(); // once, because each update of the page uses them
    this.#drawn = "";
    this.changed();
  }

  #columns() {
    return [...this.#objective(), ...this.#known.names.map((name, position) => {
      const value = (row) => this.#known.jobs[row.key]?.[position] ?? undefined;
      const isNumeric = Object.values(this.#known.jobs).every((values) => isNumber(values[position]));
      return { name: `hp-${position}`, title: name, numeric: isNumeric, width: "minmax(72px, .6fr)", needs: 80,
        sort: (row) => (isNumeric && value(row) !== undefined ? Number(value(row)) : value(row)), show: (row) => brief(value(row)), hint: (row) => shown(value(row)) };
    })];
  }

  /** Return the column of a sweep's objective, unless it is the loss or the accuracy, which the table has. */
  #objective() {
    const { metric, direction } = this.#known.objective ?? {};
    if (!metric || ["loss", "accuracy"].some((kind) => format.metricName([metric], kind))) return [];
    return [{ name: "objective", title: metric, numeric: true, isRanked: true, highestFirst: direction === "maximize", width: "minmax(72px, .6fr)", needs: 80,
      sort: (row) => row.metrics[metric], show: (row) => format.number(row.metrics[metric]) }];
  }

  #offer(metrics) {
    if ([...this.select.options].map((option) => option.value).join("\n") !== metrics.join("\n")) {
      this.select.replaceChildren(...metrics.map((name) => el("option", { value: name }, format.printable(name))));
    }
    this.select.value = [this.#chosen, this.#known.objective?.metric, format.metricName(metrics, "accuracy"), format.metricName(metrics, "loss"), metrics[0]]
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
      el("span", { class: "quiet" }, names.map((name) => ` · ${format.printable(name)} ${brief(values[this.#known.names.indexOf(name)])}`).join("")));
  }

  #drawPlots(measured, metric, best) {
    for (const plot of this.#plots) plot.destroy();
    const plotted = this.#known.names.filter((_, position) => this.#canBePlotted(position, measured)).slice(0, MOST_PLOTS), hosts = plotted.map((name) =>
      el("div", { class: "curve", role: "group", "aria-label": `${metric} by ${name}` }, el("h3", {}, format.printable(name))));
    byId("effects").replaceChildren(...hosts);
    const others = this.#known.names.length - plotted.length + this.#known.left_out;
    byId("effects-more").hidden = others === 0;
    setText(byId("effects-more"), `${format.count(others)} more hyperparameters differ.`);
    this.#plots = plotted.map((name, number) => this.#plot(hosts[number], this.#known.names.indexOf(name), measured, metric, best));
  }

  /** Return True for numbers, and for few different texts. */
  #canBePlotted(position, measured) {
    const values = measured.map((row) => this.#known.jobs[row.key][position]).filter((value) => value !== null);
    return values.length > 0 && (values.every(isNumber) || new Set(values).size <= MOST_LABELS);
  }

  #plot(host, position, measured, metric, best) {
    const points = measured.map((row) => ({ row, value: this.#known.jobs[row.key][position] })).filter(({ value }) => value !== null && value !== undefined);
    const isNumeric = points.every(({ value }) => isNumber(value));
    const labels = isNumeric ? [] : [...new Set(points.map(({ value }) => value))].sort();
    const placed = points.map(({ row, value }) => ({ row, x: isNumeric ? Number(value) : labels.indexOf(value) })).sort((a, b) => a.x - b.x);
    const xs = placed.map(({ x }) => x), [low, high] = [Math.min(...xs), Math.max(...xs)], isLog = isNumeric && low > 0 && high / low >= 50;
    const column = (accepts) => placed.map(({ row }) => (accepts(row) ? row.metrics[metric] : null));
    const dots = (index, size) => ({ stroke: colour(index), paths: () => null, points: { show: true, size, fill: colour(index) } });
    const margin = isLog ? (high / low) ** 0.05 : (high - low || 1) * 0.05;
    return drawPlot(host, [xs, column((row) => row !== best && row.tier < 3), column((row) => row.tier === 3), column((row) => row === best)], {
      height: HEIGHT, cursor: { show: false }, series: [{}, dots(0, 6), dots(7, 5), dots(2, 10)],
      scales: { x: { time: false, distr: isLog ? 3 : 1, range: () => (isLog ? [low / margin, high * margin] : [low - margin, high + margin]) } },
      axes: [isNumeric ? { values: (_, ticks) => ticks.map((tick) => (tick === null || (isLog && !isRound(tick)) ? "" : format.number(tick))) }
        : { splits: () => labels.map((_, index) => index), values: () => labels.map(short) }, {}],
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

/** Return a value, and only four digits of a long fraction, such as those that a search draws. */
const brief = (value) => (/^-?\d*\.\d{6,}$/.test(value ?? "") ? format.number(Number(value)) : shown(value));
/** Return true for 0.02 and 300, which uPlot labels on a logarithmic axis, and not for its first value. */
const isRound = (value) => Number.isInteger(Number((value / 10 ** Math.floor(Math.log10(value))).toPrecision(6)));
const isNumber = (value) => value === null || (value.trim() !== "" && Number.isFinite(Number(value)));
const shown = (value) => format.printable(value ?? "");
const short = (label) => (label.length > 14 ? `${format.printable(label.slice(0, 5))}…${format.printable(label.slice(-8))}` : format.printable(label));
