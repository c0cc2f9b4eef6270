// Filters of the table.
import { byId, el } from "./dom.js";
import { printable } from "./format.js";

export class Filters {
  constructor(changed) {
    this.form = byId("filters");
    this.changed = changed;
    this.form.addEventListener("input", changed);
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("reset", () => setTimeout(changed));
  }

  /** Set some filters and clear the others. */
  set(values) {
    for (const name of ["text", "submission", "campaign", "region", "state"]) {
      const field = this.form.elements[name], value = values[name] ?? "";
      field.value = value;
      if (field.value !== value) { // no job has it now
        field.append(el("option", { value }, value));
        field.value = value;
      }
    }
    this.changed();
  }

  /** Offer the values that jobs have. */
  offer({ head }, { regions, states, campaigns }) {
    this.#options("campaign", [...campaigns.keys()].sort().map((name) => [name, printable(name)]));
    byId("campaign-filter").hidden = campaigns.size === 0 && !this.form.elements.campaign.value;
    this.#options("submission", head.submissions.map(({ id, manifest }) => [id, `${id} ${manifest}`]));
    this.#options("region", [...regions.keys()].sort().map((region) => [region, region]));
    this.#options("state", [...states.keys()].sort().map((state) => [state, state]));
  }

  /** Return the rows that all filters accept. */
  apply(rows) {
    const { text, submission, campaign, region, state } = Object.fromEntries(new FormData(this.form));
    const needle = text.trim().toLowerCase();
    if (!needle && !submission && !campaign && !region && !state) return [...rows];
    return [...rows].filter((row) =>
      (!submission || row.submission === submission) && (!campaign || row.campaign === campaign) && (!region || row.region === region) && (!state || row.state === state) &&
      (!needle || `${row.name}\n${row.failure}\n${row.reason}\n${row.key}`.toLowerCase().includes(needle)));
  }

  #options(field, values) {
    const select = this.form.elements[field], chosen = select.value;
    if (chosen && !values.some(([value]) => value === chosen)) values.push([chosen, chosen]);
    const known = [...select.options].slice(1).map((option) => option.value).join("\n");
    if (known === values.map(([value]) => value).join("\n")) return;
    select.replaceChildren(el("option", { value: "" }, "all"), ...values.map(([value, title]) => el("option", { value }, title)));
    select.value = chosen;
  }
}
