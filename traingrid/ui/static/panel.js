// Panel: everything about one job.
import { writeView } from "./address.js";
import { code } from "./code.js";
import { byId, el, setText } from "./dom.js";
import * as format from "./format.js";
import { confirmAction } from "./confirm.js";
import { get } from "./requests.js";

const LOG_SECONDS = 5;

export class Panel {
  #key = null;
  #timer = null;

  constructor(store, { compare, closed, changed }) {
    this.store = store;
    this.compare = compare;
    this.closed = closed;
    this.changed = changed;
    this.element = byId("panel");
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.#key && !byId("confirm").open) this.close();
    });
  }

  /** Return True if the panel shows a job. */
  shows(row) {
    return row.key === this.#key;
  }

  /** Open the panel for a job. */
  open(row) {
    this.#key = row.key;
    writeView({ job: row.key });
    this.#build(row);
    this.element.hidden = false;
    document.body.classList.add("with-panel");
    this.changed();
    this.element.focus();
    this.#loadPage(row.key);
    this.#loadLog(row.key);
  }

  close() {
    clearTimeout(this.#timer);
    this.#key = null;
    writeView({ job: "" });
    this.element.hidden = true;
    this.changed();
    document.body.classList.remove("with-panel");
    this.closed();
  }

  /** Show the current state of the job. */
  update() {
    const row = this.#key && this.store.rows.get(this.#key);
    if (!row) return;
    const before = this.stateText;
    this.#fillFacts(row);
    if (before !== this.stateText) this.#loadPage(row.key);
  }

  #build(row) {
    this.stateText = null;
    const close = el("button", { type: "button", class: "plain", onclick: () => this.close() }, "Close");
    this.facts = el("dl", { class: "facts" });
    this.state = el("span", { class: "badge" });
    this.why = el("div", { class: "why", hidden: true });
    this.page = el("div", {}, el("p", { class: "quiet" }, "Reading the job …"));
    this.lines = [];
    this.log = el("pre", { class: "log", tabindex: 0, hidden: true, role: "log", "aria-label": "Last log lines" });
    this.search = el("input", { type: "search", placeholder: "lines with …", "aria-label": "Search the log", autocomplete: "off", oninput: () => this.#fillLog() });
    const wrap = el("input", { type: "checkbox", oninput: () => this.log.classList.toggle("wrapped", wrap.checked) });
    const wide = el("button", { type: "button", class: "plain", onclick: () => {
      setText(wide, this.element.classList.toggle("wide") ? "Narrow" : "Wide");
    } }, this.element.classList.contains("wide") ? "Narrow" : "Wide");
    this.logTools = el("div", { class: "log-tools", hidden: true }, this.search, el("label", {}, wrap, " wrap lines"));
    this.logNote = el("p", { class: "quiet small", role: "status" }, "Reading the log …");
    this.actions = el("div", { class: "actions" });
    this.element.replaceChildren(
      el("div", { class: "panel-head" }, el("h2", { id: "panel-title" }, format.printable(row.name)), this.state, wide, close),
      this.actions, this.facts, this.why, el("h3", {}, "Log"), this.logNote, this.logTools, this.log, this.page);
    this.#fillFacts(row);
  }

  #fillActions(row) {
    const ended = format.FINAL.has(row.state), retried = ended && row.state !== "Completed" && !row.cancelled;
    const writes = this.store.head.writes;
    this.actions.replaceChildren(...[
      el("button", { type: "button", onclick: () => this.compare(this.store.rows.get(row.key) ?? row) }, "Show curves"),
      writes && !ended && el("button", { type: "button", class: "danger", onclick: () => confirmAction({
        title: `Cancel ${format.printable(row.name)}?`,
        text: `Job ${row.index} of submission ${row.submission} is stopped for good, in ${row.region || "its Region"}.`,
        label: "Cancel the job", withReason: true, path: "/api/cancel", body: { submission: row.submission, index: row.index } }) }, "Cancel job"),
      writes && retried && el("button", { type: "button", onclick: () => confirmAction({
        title: `Retry ${format.printable(row.name)}?`,
        text: `Job ${row.index} of submission ${row.submission} gets attempt ${row.attempt + 1}, which costs money.`,
        label: "Retry the job", path: "/api/retry", body: { submission: row.submission, index: row.index } }) }, "Retry job"),
      writes && retried && el("button", { type: "button", onclick: () => confirmAction({
        title: `Retry submission ${row.submission}?`,
        text: "Each job of the submission that failed or was stopped gets a new attempt, which costs money.",
        label: "Retry the jobs", path: "/api/retry", body: { submission: row.submission } }) }, "Retry all failed jobs"),
    ].filter(Boolean));
  }

  #fillFacts(row) {
    const before = this.stateText;
    this.stateText = `${row.attempt} ${row.state} ${row.failure} ${row.cancelled}`;
    if (before !== this.stateText) this.#fillActions(row);
    setText(this.state, format.stateText(row));
    this.state.dataset.state = format.stateClass(row.state);
    const metrics = Object.entries(row.metrics).map(([name, value]) => [name, format.number(value)]);
    this.facts.replaceChildren(...pairs([
      ["Submission", `${row.group ? `${row.group.title}, ` : ""}${row.submission}, job ${row.index}`], ["Region", row.place], ["Attempt", String(row.attempt)],
      ["Ranks", row.ranks ? String(row.ranks) : ""], ["Submitted", row.created ? format.moment(row.created) : ""], ["Duration", format.elapsed(row) ? format.duration(format.elapsed(row)) : ""],
      ["Left", format.remaining(row) ? format.rough(format.remaining(row)) : ""], ["Dollars", format.dollars(format.spent(row))], ...metrics]));
    const failure = this.store.head.failures[row.failure];
    this.why.hidden = !row.reason && !failure;
    this.why.replaceChildren(...[
      row.failure && el("strong", {}, format.printable(row.failure)), failure && el("p", {}, failure.sentence),
      row.reason && el("p", { class: "verbatim" }, format.printableLines(row.reason)),
      failure?.next_step && el("p", { class: "next" }, el("strong", {}, "Next: "), failure.next_step)].filter(Boolean));
  }

  async #loadPage(key) {
    let content;
    try {
      content = await get(`/api/jobs/${key}`);
    } catch (error) {
      content = { error: error.message };
    }
    if (key !== this.#key) return;
    if (content.error) {
      this.page.replaceChildren(el("p", { class: "problem" }, content.error));
      return;
    }
    this.page.replaceChildren(...sections(content));
  }

  async #loadLog(key) {
    clearTimeout(this.#timer);
    let lines = null, note = "";
    try {
      const answer = await get(`/api/jobs/${key}/log`);
      lines = answer.lines;
      note = answer.error || lastLines(lines.length);
    } catch (error) {
      note = error.message;
    }
    if (key !== this.#key) return;
    setText(this.logNote, note);
    if (lines) {
      this.lines = lines;
      this.#fillLog();
    }
    const row = this.store.rows.get(key);
    if (row && !format.FINAL.has(row.state)) this.#timer = setTimeout(() => this.#loadLog(key), LOG_SECONDS * 1000);
  }

  #fillLog() {
    const atEnd = this.log.scrollTop + this.log.clientHeight >= this.log.scrollHeight - 4;
    this.log.hidden = this.logTools.hidden = this.lines.length === 0;
    const hosts = new Set(this.lines.map((line) => line.host)).size > 1, needle = this.search.value.toLowerCase();
    const texts = this.lines.map((line) =>
      `${new Date(line.time).toISOString().slice(11, 19)} ${hosts ? `${line.host} ` : ""}${format.printable(line.text)}`);
    const shown = texts.filter((text) => text.toLowerCase().includes(needle));
    setText(this.log, shown.length ? shown.join("\n") : "No line has this text.");
    if (atEnd) this.log.scrollTop = this.log.scrollHeight;
  }
}

function lastLines(count) {
  if (count === 0) return "The training job has printed nothing yet.";
  return count === 1 ? "The last line." : `The last ${count} lines.`;
}

function pairs(entries) {
  return entries.filter(([, value]) => value !== "" && value !== undefined)
    .map(([name, value]) => el("div", {}, el("dt", {}, format.printable(name)), el("dd", {}, format.printable(value))));
}

function sections({ line, settings, attempts, artifacts, commands }) {
  const rows = attempts.map((one, position) => el("li", {}, el("span", { class: "badge", "data-state": format.stateClass(one.state) }, one.state),
    ` ${one.attempt}. ${one.region} ${format.printable(one.failure)} `, el("span", { class: "quiet small" }, format.printable(one.training_job), " "),
    one.console && el("a", { href: one.console, target: "_blank", rel: "noreferrer", class: "small" }, "AWS console"),
    one.checkpoint && el("p", { class: "small" }, format.printable(one.checkpoint)),
    // The panel has the reason of the last attempt at its top.
    position < attempts.length - 1 && one.reason && el("p", { class: "verbatim small" }, format.printableLines(one.reason))));
  return [
    rows.length > 0 && [el("h3", {}, "Attempts"), el("ol", { class: "attempts" }, rows)],
    line.text && [el("h3", {}, `Line ${line.number} of the manifest`), code([line.header, line.text].filter(Boolean).join("\n"), "Manifest line")],
    Object.keys(artifacts).length > 0 && [el("h3", {}, "Artifacts"), el("dl", { class: "facts wide" }, pairs(Object.entries(artifacts)))],
    [el("h3", {}, "Commands"), Object.entries(commands).map(([name, command]) => [el("p", { class: "small quiet command-name" }, name), code(command, name)])],
    Object.keys(settings).length > 0 && [el("h3", {}, "Settings and hosts"), el("dl", { class: "facts wide" }, pairs(Object.entries(settings)))],
  ].flat(Infinity).filter(Boolean);
}
