// Curves: a plot for each metric, in which the selected jobs are overlaid.
/* global uPlot */
import { byId, el, setText } from "./dom.js";
import * as format from "./format.js";
import { get } from "./requests.js";

const MOST_JOBS = 8, SECONDS = 5, HEIGHT = 220;
const EPOCHS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000, 100000];
const ORDER = [/loss/i, /top1|acc/i, /per_second|throughput/i];

export class Curves {
  #keys = [];
  #plots = [];
  #timer = null;
  #answer = null;

  constructor(store, changed) {
    this.store = store;
    this.changed = changed;
    byId("clear-curves").addEventListener("click", () => this.#set([]));
    new ResizeObserver(() => this.#resize()).observe(byId("curves"));
    byId("more-curves").addEventListener("toggle", () => this.#resize());
  }

  has(row) {
    return this.#keys.includes(row.key);
  }

  /** Add or remove a job; the oldest one is removed if there are too many. */
  toggle(row) {
    this.#set(this.has(row) ? this.#keys.filter((key) => key !== row.key) : [...this.#keys, row.key].slice(-MOST_JOBS));
  }

  /** Add a job, and move to the plots. */
  show(row) {
    if (!this.has(row)) this.toggle(row);
    byId("curves-section").scrollIntoView({ block: "start" });
  }

  /** Draw again, with the colours of the current theme. */
  redraw() {
    if (this.#answer) this.#draw(this.#answer);
  }

  #set(keys) {
    this.#keys = keys;
    byId("curves-section").hidden = keys.length === 0;
    this.changed();
    this.#load();
  }

  async #load() {
    clearTimeout(this.#timer);
    const keys = this.#keys;
    if (keys.length === 0) return this.#draw({ curves: [], errors: [] });
    let answer;
    try {
      const path = `/api/curves?${keys.map((key) => `job=${encodeURIComponent(key)}`).join("&")}`;
      [answer] = await Promise.all([get(path), loadLibrary()]);
    } catch (error) {
      answer = { curves: this.#answer?.curves ?? [], errors: [error.message] };
    }
    if (keys !== this.#keys) return;
    this.#draw(answer);
    const open = keys.some((key) => !format.FINAL.has(this.store.rows.get(key)?.state));
    if (open) this.#timer = setTimeout(() => this.#load(), SECONDS * 1000);
  }

  #draw(answer) {
    this.#answer = answer;
    const errors = [...answer.errors];
    if (!errors.length && this.#keys.length && !answer.curves.length) errors.push("These jobs have reported no metrics yet.");
    byId("curves-error").hidden = errors.length === 0;
    setText(byId("curves-error"), errors.join(" "));
    this.#drawLegend();
    for (const plot of this.#plots) plot.destroy();
    const names = [...new Set(answer.curves.map((curve) => curve.metric))].sort(byKind);
    const hosts = names.map((name) => el("div", { class: "curve", role: "group" }, el("h3", {}, name.replaceAll("_", " "))));
    const main = hosts.filter((_, index) => kind(names[index]) < ORDER.length), more = hosts.filter((host) => !main.includes(host));
    byId("curves").replaceChildren(...main);
    byId("more").replaceChildren(...more);
    byId("more-curves").hidden = more.length === 0;
    setText(byId("more-title"), `${more.length} more ${more.length === 1 ? "metric" : "metrics"}`);
    this.#plots = names.map((name, index) => this.#plot(hosts[index], name, answer.curves.filter((curve) => curve.metric === name)));
  }

  #drawLegend() {
    byId("legend").replaceChildren(...this.#keys.map((key, index) => {
      const row = this.store.rows.get(key), swatch = el("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.background = colour(index);
      return el("li", {}, swatch, row ? `${format.printable(row.name)} (${row.region})` : key);
    }));
  }

  #plot(host, name, curves) {
    const { data, byEpoch } = aligned(curves);
    const style = getComputedStyle(document.documentElement);
    const axis = { stroke: style.getPropertyValue("--quiet"), grid: { stroke: style.getPropertyValue("--line"), width: 1 }, ticks: { show: false } };
    const value = (_, shown) => (shown === null || shown === undefined ? "" : format.number(shown));
    const series = curves.map((curve) => ({ value, stroke: colour(this.#keys.indexOf(curve.job)), width: 2, spanGaps: true, points: { size: 5 },
      label: this.store.rows.get(curve.job)?.name ?? curve.job }));
    host.setAttribute("aria-label", `${name}: ${curves.map((curve) =>
      `${this.store.rows.get(curve.job)?.name ?? curve.job} ${format.number(curve.values.at(-1))}`).join(", ")}`);
    const options = { width: Math.max(240, host.clientWidth - 24), height: HEIGHT, legend: { live: true }, cursor: { y: false },
      scales: { x: { time: false, range: (_, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) } }, series: [{ label: byEpoch ? "epoch" : "minutes", value }, ...series],
      axes: [{ ...axis, incrs: byEpoch ? EPOCHS : undefined, label: byEpoch ? "epoch" : "minutes", labelSize: 18, size: 34 }, { ...axis, size: 58, values: (_, ticks) => ticks.map(format.number) }] };
    return new uPlot(options, data, host);
  }

  #resize() {
    for (const plot of this.#plots) {
      const width = Math.max(240, plot.root.parentElement.clientWidth - 24);
      if (Math.abs(width - plot.width) > 2) plot.setSize({ width, height: HEIGHT });
    }
  }
}

let library = null;

/** Load uPlot, which a page without curves does not need. */
function loadLibrary() {
  library ??= new Promise((loaded, failed) => {
    const style = el("link", { rel: "stylesheet", href: "/static/uplot/uPlot.min.css" });
    const lost = () => { library = null; failed(new Error("The plots cannot be loaded. Is `traingrid ui` still running?")); };
    document.head.append(style, el("script", { src: "/static/uplot/uPlot.iife.min.js", onload: loaded, onerror: lost }));
  });
  return library;
}

function colour(index) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--series-${index % MOST_JOBS}`).trim();
}

/** Return the place of a metric: loss, accuracy, throughput, and all others. */
function kind(name) {
  const found = ORDER.findIndex((pattern) => pattern.test(name));
  return found < 0 ? ORDER.length : found;
}

const byKind = (a, b) => kind(a) - kind(b) || a.localeCompare(b);

/** Return the values of all curves at each epoch; if a curve has no epochs, at each minute since its start. */
function aligned(curves) {
  const byEpoch = curves.every((curve) => curve.epochs.every((epoch) => epoch !== null));
  const places = curves.map((curve) => (byEpoch ? curve.epochs : curve.times.map((time) => (time - curve.times[0]) / 60)));
  const all = [...new Set(places.flat())].sort((a, b) => a - b), position = new Map(all.map((place, index) => [place, index]));
  const columns = curves.map((curve, number) => {
    const column = new Array(all.length).fill(null);
    places[number].forEach((place, index) => { column[position.get(place)] = curve.values[index]; });
    return column;
  });
  return { data: [all, ...columns], byEpoch };
}
