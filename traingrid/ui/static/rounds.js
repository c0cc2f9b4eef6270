// Rounds: the validation of the global models and of the Regions' models by round, their bytes and cost, and the best round.
import { code } from "./code.js";
import { byId, el, setText } from "./dom.js";
import * as format from "./format.js";
import { colour, COLOURS, drawPlot, loadLibrary, resizePlots } from "./plots.js";
import { get } from "./requests.js";

const HEIGHT = 220, AGAIN_SECONDS = 10;
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
const NOTHING = { rounds: [], best: null, commands: [] };

export class Rounds {
  #group = null;
  #answer = NOTHING;
  #drawn = "";
  #plot = null;
  #timer = null;
  /** The submissions of merges; the other submissions of rounds train. */
  merges = new Set();

  constructor({ open, changed }) {
    this.open = open;
    this.changed = changed;
    new ResizeObserver(() => { if (this.#plot) resizePlots([this.#plot]); }).observe(byId("rounds"));
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.#load(); });
  }

  /** Show the rounds of a group, if it has any; they are read again after each submission, and while jobs train. */
  use(group) {
    const rounds = group?.rounds ? group : null;
    if (rounds?.key === this.#group?.key && rounds?.revision === this.#group?.revision) return;
    if (rounds?.key !== this.#group?.key) this.#set(NOTHING, "");
    this.#group = rounds;
    this.#load();
  }

  /** Draw again, with the colours of the current theme. */
  redraw() {
    this.#drawn = "";
    this.#draw();
  }

  async #load() {
    clearTimeout(this.#timer);
    const group = this.#group;
    byId("rounds-section").hidden = !group;
    if (!group) return;
    let answer = this.#answer, problem = "";
    try {
      [answer] = await Promise.all([get(`/api/rounds/${encodeURIComponent(group.rounds)}`), loadLibrary()]);
    } catch (error) {
      problem = `The rounds cannot be shown. ${error.message}`;
    }
    if (group !== this.#group) return;
    this.#set(answer, problem);
    if (!document.hidden) this.#timer = setTimeout(() => this.#load(), (answer.again_seconds ?? AGAIN_SECONDS) * 1000);
  }

  #set(answer, problem) {
    this.#answer = answer;
    byId("rounds-error").hidden = !problem;
    setText(byId("rounds-error"), problem);
    const merges = answer.rounds.map((round) => round.merge).filter(Boolean), isNew = merges.length !== this.merges.size;
    this.merges = new Set(merges);
    this.#draw();
    if (isNew) this.changed();
  }

  #draw() {
    const { rounds, best } = this.#answer, state = JSON.stringify([rounds, best]);
    byId("rounds").hidden = rounds.length === 0;
    if (state === this.#drawn) return;
    this.#drawn = state;
    setText(byId("rounds-of"), this.#group ? `of ${format.printable(this.#group.rounds)}` : "");
    this.#drawBest();
    byId("rounds-table").replaceChildren(this.#table());
    this.#plot?.destroy();
    this.#plot = rounds.some((round) => round.top1 !== null) ? this.#curve() : null;
    byId("rounds-plot").hidden = !this.#plot;
  }

  #drawBest() {
    const { rounds, best, commands } = this.#answer, round = rounds.find(({ number }) => number === best);
    byId("rounds-commands").hidden = !round;
    if (!round) return byId("best-round").replaceChildren(rounds.length ? "No round has a global model yet." : "");
    byId("best-round").replaceChildren("Best: ", this.#link(round.model, `round ${round.number}`), ` with validation top1 ${format.number(round.top1)}`);
    byId("rounds-commands").replaceChildren(el("h3", {}, "Use the best global model"), ...commands.map((command) => code(command, command.split(" ").slice(-3).join(" "))));
  }

  #link(key, text) {
    return el("button", { type: "button", class: "job-link", onclick: () => this.open(key) }, text);
  }

  #table() {
    const { rounds, best } = this.#answer, regions = regionsOf(rounds);
    const head = ["Round", "State", "Global top1", ...regions, "Across borders", "Dollars"];
    return el("table", {},
      el("thead", {}, el("tr", {}, head.map((title, index) => el("th", { scope: "col", class: index > 1 ? "numeric" : "" }, title)))),
      el("tbody", {}, rounds.map((round) => el("tr", { class: round.number === best ? "best-row" : "" },
        el("th", { scope: "row" }, String(round.number)),
        el("td", {}, el("span", { class: "badge", "data-state": format.stateClass(round.state === "Completed" ? round.state : "InProgress") }, round.state.toLowerCase())),
        el("td", { class: "numeric" }, round.top1 === null ? "" : this.#link(round.model, top1(round.top1))),
        regions.map((region) => el("td", { class: "numeric" }, round.parts.filter((part) => part.region === region).map((part) => this.#part(part)))),
        el("td", { class: "numeric" }, format.size(round.bytes_across)),
        el("td", { class: "numeric", title: "instances on demand, without transfer" }, round.dollars === null ? "unknown" : format.dollars(round.dollars))))));
  }

  /** Return the validation of a Region's model on the data of the merge, or the state of its job, with its time. */
  #part(part) {
    const text = part.left_out ? "left out" : part.top1 === null ? format.stateTitle(part.state) : top1(part.top1);
    const own = part.own_top1 === null ? "" : `${top1(part.own_top1)} on the data of ${part.region}`;
    const hint = [part.left_out, own, part.seconds && format.duration(part.seconds), part.bytes_across && `${format.size(part.bytes_across)} across borders`];
    return el("div", { class: part.left_out ? "problem" : "", title: format.printable(hint.filter(Boolean).join("; ")) },
      part.job ? this.#link(part.job, text) : text, part.seconds > 0 && el("span", { class: "quiet small" }, ` ${format.duration(part.seconds)}`));
  }

  #curve() {
    const { rounds } = this.#answer, regions = regionsOf(rounds).slice(0, COLOURS - 1), host = byId("rounds-plot");
    const ofRegion = (region) => rounds.map((round) => round.parts.find((part) => part.region === region)?.top1 ?? null);
    const columns = [rounds.map((round) => round.top1), ...regions.map(ofRegion)], names = ["global model", ...regions];
    const values = el("p", { class: "values" });
    host.replaceChildren(el("h3", {}, `validation top1 by round, on ${this.#answer.data}`), values);
    host.setAttribute("aria-label", `validation top1 by round: ${names.map((name, index) => `${name} ${format.number(lastOf(columns[index]))}`).join(", ")}`);
    const showValues = (index) => values.replaceChildren(
      el("span", { class: "quiet" }, index === null ? "last" : `round ${rounds[index].number}`),
      ...names.map((name, series) => {
        const shown = el("span", {}, `${name} ${format.number(index === null ? lastOf(columns[series]) : columns[series][index]) || "–"}`);
        shown.style.color = colour(series);
        return shown;
      }));
    showValues(null);
    const series = names.map((_, index) => ({ stroke: colour(index), width: index ? 1 : 3, dash: index ? [4, 4] : undefined, spanGaps: true, points: { show: true, size: index ? 4 : 7 } }));
    return drawPlot(host, [rounds.map((round) => round.number), ...columns], {
      height: HEIGHT, cursor: { y: false }, series: [{}, ...series], hooks: { setCursor: [(plot) => showValues(plot.cursor.idx ?? null)] },
      scales: { x: { time: false, range: (_, low, high) => [low - 0.2, high + 0.2] } }, axes: [{ incrs: WHOLE, label: "round" }, {}],
    });
  }
}

const regionsOf = (rounds) => [...new Set(rounds.flatMap((round) => round.parts.map((part) => part.region)))];
const lastOf = (values) => values.filter((value) => value !== null).at(-1);
const top1 = (value) => value.toFixed(4);
