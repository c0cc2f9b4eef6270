// Curves: a plot for each metric, in which some jobs are overlaid: those that the user has selected, or the newest ones.
import { byId, el, setText } from "./dom.js";
import * as format from "./format.js";
import { colour, COLOURS, drawPlot, loadLibrary, resizePlots } from "./plots.js";
import { get } from "./requests.js";

const MOST_JOBS = COLOURS, AGAIN_SECONDS = 10, HEIGHT = 200;
const EPOCHS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000, 100000];
const ORDER = [/loss/i, /top1|acc/i, /per_second|throughput/i];

export class Curves {
  #selected = [];
  #keys = [];
  #plots = [];
  #timer = null;
  #answer = null;

  constructor(store, changed) {
    this.store = store;
    this.changed = changed;
    byId("clear-curves").addEventListener("click", () => this.#select([]));
    new ResizeObserver(() => resizePlots(this.#plots)).observe(byId("curves"));
    for (const part of ["more-curves", "host-curves"]) byId(part).addEventListener("toggle", () => resizePlots(this.#plots));
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.#load(); });
  }

  has(row) {
    return this.#selected.includes(row.key);
  }

  /** Select a job, or not any more; the one selected first is left out if there are too many. */
  toggle(row) {
    this.#select(this.has(row) ? this.#selected.filter((key) => key !== row.key) : [...this.#selected, row.key].slice(-MOST_JOBS));
  }

  /** Select a job, and move to the plots. */
  show(row) {
    if (!this.has(row)) this.toggle(row);
    byId("curves-section").scrollIntoView({ block: "start" });
  }

  /** Offer the jobs that are drawn while the user has selected none; those that are drawn already stay. */
  offer({ title, rows }) {
    const measured = rows.filter((row) => Object.keys(row.metrics).some((name) => name !== "epoch")), keys = new Set(measured.map((row) => row.key));
    const kept = this.#keys.filter((key) => keys.has(key)), others = measured.filter((row) => !kept.includes(row.key));
    this.offered = [...kept, ...others.sort(byInterest).slice(0, MOST_JOBS - kept.length).map((row) => row.key)];
    const count = this.offered.length < measured.length ? `${this.offered.length} of ${format.count(measured.length)} jobs of ${title}` : title;
    this.title = title && `of ${count}`;
    if (!this.#selected.length) this.#use(this.offered);
  }

  /** Draw again, with the colours of the current theme. */
  redraw() {
    if (this.#answer) this.#draw(this.#answer);
  }

  #select(keys) {
    this.#selected = keys;
    this.changed();
    this.#use(keys.length ? keys : this.offered ?? []);
  }

  #use(keys) {
    byId("curves-section").hidden = keys.length === 0;
    byId("clear-curves").hidden = this.#selected.length === 0;
    setText(byId("curves-of"), this.#selected.length ? "of the selected jobs" : this.title ?? "");
    if (keys.join() === this.#keys.join()) return;
    this.#keys = keys;
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
    if (open && !document.hidden) this.#timer = setTimeout(() => this.#load(), (answer.again_seconds ?? AGAIN_SECONDS) * 1000);
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
    const [main, more, host] = ["main", "more", "host"].map((part) => hosts.filter((_, index) => partOf(names[index]) === part));
    byId("curves").replaceChildren(...main);
    byId("more").replaceChildren(...more);
    byId("host").replaceChildren(...host);
    byId("more-curves").hidden = more.length === 0;
    byId("host-curves").hidden = host.length === 0;
    setText(byId("more-title"), `${more.length} more ${more.length === 1 ? "metric" : "metrics"}`);
    this.#plots = names.map((name, index) => this.#plot(hosts[index], name, answer.curves.filter((curve) => curve.metric === name)));
  }

  #drawLegend() {
    byId("legend").replaceChildren(...this.#keys.map((key, index) => {
      const swatch = el("span", { class: "swatch", "aria-hidden": "true" }), region = this.store.rows.get(key)?.region;
      swatch.style.background = colour(index);
      return el("li", {}, swatch, `${this.#nameOf(key)}${region ? ` (${region})` : ""}`);
    }));
  }

  #plot(host, name, curves) {
    const { data, byEpoch } = aligned(curves), unit = byEpoch ? "epoch" : "minutes";
    const series = curves.map((curve) => ({ stroke: this.#colourOf(curve), width: 2, spanGaps: true, points: { size: 5 } }));
    const named = curves.map((curve) => `${this.#nameOf(curve.job)} ${format.number(curve.values.at(-1))}`);
    host.setAttribute("aria-label", `${name}: ${named.join(", ")}`);
    const values = el("p", { class: "values" });
    host.append(values);
    const showValues = (index) => {
      const shown = curves.map((curve, number) => (index === null ? curve.values.at(-1) : data[number + 1][index]));
      values.replaceChildren(el("span", { class: "quiet" }, index === null ? "last" : `${unit} ${format.number(data[0][index])}`),
        ...curves.map((curve, number) => this.#value(curve, shown[number])));
    };
    showValues(null);
    return drawPlot(host, data, {
      height: HEIGHT, cursor: { y: false }, series: [{}, ...series], hooks: { setCursor: [(plot) => showValues(plot.cursor.idx ?? null)] },
      scales: { x: { time: false, range: (_, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) },
        y: /^host_.*percent$/.test(name) ? { range: [0, 100] } : {} },
      axes: [{ incrs: byEpoch ? EPOCHS : undefined, label: unit }, {}],
    });
  }

  #value(curve, value) {
    const shown = el("span", { title: this.#nameOf(curve.job) }, value === null || value === undefined ? "–" : format.number(value));
    shown.style.color = this.#colourOf(curve);
    return shown;
  }

  #colourOf(curve) {
    return colour(this.#keys.indexOf(curve.job));
  }

  #nameOf(key) {
    return format.printable(this.store.rows.get(key)?.name ?? key);
  }
}

/** Sort running jobs first, and then those that can be the best. */
function byInterest(a, b) {
  return format.FINAL.has(a.state) - format.FINAL.has(b.state) || a.tier - b.tier || a.index - b.index;
}

/** Return the place of a metric: loss, accuracy, throughput, and all others. */
function kind(name) {
  const found = ORDER.findIndex((pattern) => pattern.test(name));
  return found < 0 ? ORDER.length : found;
}

const partOf = (name) => (/^host_/.test(name) ? "host" : kind(name) < ORDER.length ? "main" : "more");

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
