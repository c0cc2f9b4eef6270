// Filters: the jobs that the page shows.
import { readView, writeView } from "./address.js";
import { byId, el } from "./dom.js";
import { FINAL, printable } from "./format.js";

const NAMES = ["text", "group", "campaign", "region", "state"];
const DEFAULT_DAYS = "7", DAY_SECONDS = 86400;

export class Filters {
  #first = readView();

  constructor(changed) {
    this.form = byId("filters");
    this.days = byId("days");
    this.changed = () => {
      writeView({ ...this.#values(), days: this.days.value === DEFAULT_DAYS ? "" : this.days.value });
      changed();
    };
    for (const field of [this.form, this.days]) field.addEventListener("input", this.changed);
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("reset", () => setTimeout(this.changed));
    for (const name of NAMES) this.#choose(name, this.#first[name] ?? "");
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.target.closest("input, select, dialog")) return;
      event.preventDefault();
      this.form.elements.text.focus();
    });
  }

  /** Choose the days for the first rows: the link's, or the last week unless the newest submission is older. */
  start(groups) {
    const isOld = groups.length > 0 && !(groups[0].created > Date.now() / 1000 - DEFAULT_DAYS * DAY_SECONDS);
    const days = this.#first.days ?? (isOld ? "all" : DEFAULT_DAYS);
    this.days.value = [...this.days.options].some((option) => option.value === days) ? days : DEFAULT_DAYS;
  }

  /** True if the user has chosen some jobs. */
  get isSet() {
    return Object.values(this.#values()).some(Boolean);
  }

  /** The key of the chosen submission or sweep; empty for all. */
  get group() {
    return this.form.elements.group.value;
  }

  /** Set some filters and clear the others. */
  set(values) {
    for (const name of NAMES) this.#choose(name, values[name] ?? "");
    this.changed();
  }

  /** Offer the values that jobs have. */
  offer({ groups }, { regions, states, campaigns }) {
    this.#options("campaign", [...campaigns.keys()].sort().map((name) => [name, printable(name)]));
    byId("campaign-filter").hidden = campaigns.size === 0 && !this.form.elements.campaign.value;
    this.#options("group", groups.map(({ key, title, submissions }) =>
      [key, key === submissions[0] && !title.endsWith(`(${key})`) ? `${printable(title)} (${key})` : printable(title)]));
    this.#options("region", [...regions.keys()].sort().map((region) => [region, region]));
    this.#options("state", [...states.keys()].sort().map((state) => [state, state]));
  }

  /** Return the rows of the chosen days: those that are open, or were submitted or have ended since. */
  recent(rows) {
    if (this.days.value === "all") return [...rows];
    const since = Date.now() / 1000 - this.days.value * DAY_SECONDS;
    return [...rows].filter((row) => !FINAL.has(row.state) || row.created >= since || row.ended >= since);
  }

  /** Return the rows that all filters accept. */
  apply(rows) {
    const { text, group, campaign, region, state } = this.#values();
    const needle = text.trim().toLowerCase();
    if (!this.isSet) return rows;
    return rows.filter((row) =>
      (!group || row.group?.key === group) && (!campaign || row.campaign === campaign) && (!region || row.region === region) &&
      (!state || row.state === state) &&
      (!needle || `${row.name}\n${row.failure}\n${row.reason}\n${row.key}`.toLowerCase().includes(needle)));
  }

  #values() {
    return Object.fromEntries(NAMES.map((name) => [name, this.form.elements[name].value]));
  }

  #choose(name, value) {
    const field = this.form.elements[name];
    field.value = value;
    if (field.value === value) return;
    field.append(el("option", { value }, value)); // no job has it now
    field.value = value;
  }

  #options(field, values) {
    const select = this.form.elements[field], chosen = select.value;
    if (chosen && !values.some(([value]) => value === chosen)) values.push([chosen, chosen]);
    const offered = JSON.stringify(values);
    if (select.offered === offered) return;
    select.offered = offered;
    select.replaceChildren(el("option", { value: "" }, "all"), ...values.map(([value, title]) => el("option", { value }, title)));
    select.value = chosen;
  }
}
