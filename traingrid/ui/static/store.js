// Store: the jobs and the head of the page, kept current by server-sent events.
import { groupsOf } from "./groups.js";
import { get } from "./requests.js";

const REFUSED_SECONDS = 5;

let campaigns = null, bySubmission = new Map();

/** A job. Its values come without names, because the names would be most of the first event's bytes. */
class Row {
  constructor(key, values) {
    this.key = key;
    this.values = values;
  }

  /** The campaign of its data in the catalog; empty if it has none. */
  get campaign() {
    const found = campaigns?.jobs[this.submission];
    return campaigns?.names[Array.isArray(found) ? found[this.index] : found] ?? "";
  }

  /** Its sweep or submission. */
  get group() {
    return bySubmission.get(this.submission)?.group;
  }

  /** The time at which it was submitted, in seconds since 1970. */
  get created() {
    return bySubmission.get(this.submission)?.created ?? 0;
  }
}

/** Let rows have properties with the names of their values. */
function nameFields(fields) {
  fields.forEach((name, index) => Object.defineProperty(Row.prototype, name, {
    configurable: true, get() { return this.values[index]; },
  }));
}

export class Store extends EventTarget {
  rows = new Map();
  groups = [];
  head = { regions: [], submissions: [], notices: [], failures: {}, writes: false, grid: "" };

  /** Show the state that index.html has requested already, and then each change. */
  async start() {
    let state = {};
    try {
      state = await get("/api/state");
    } catch {
      // Connecting has the same error, and shows it.
    }
    if (state.id) this.#replace(state);
    this.#connect(state.id ?? "");
  }

  /** Connect to the server. The browser connects again by itself, and sends the id of the last event. */
  #connect(last = "") {
    this.source = new EventSource(`/api/events?last=${encodeURIComponent(last)}`);
    this.source.addEventListener("open", () => this.#report("live"));
    this.source.addEventListener("snapshot", (event) => this.#replace(JSON.parse(event.data)));
    this.source.addEventListener("change", (event) => this.#change(JSON.parse(event.data)));
    this.source.addEventListener("error", () => {
      const refused = this.source.readyState === EventSource.CLOSED;
      this.#report(refused ? "closed" : "reconnecting");
      // A browser gives up after an answer such as 403: the server runs again, with another token. This tab connects
      // again once the user has opened the new address in another tab, because the tabs share the cookie.
      if (refused) setTimeout(() => this.#connect(), REFUSED_SECONDS * 1000);
    });
  }

  #report(state) {
    this.dispatchEvent(new CustomEvent("connection", { detail: state }));
  }

  #replace({ fields, rows, head }) {
    nameFields(fields);
    this.rows = new Map(Object.entries(rows).map(([key, values]) => [key, new Row(key, values)]));
    this.#setHead(head);
    this.#tell(true, true);
  }

  #change({ fields = [], rows = {}, removed = [], head }) {
    nameFields(fields);
    let structure = removed.length > 0, isNew = false;
    for (const key of removed) this.rows.delete(key);
    for (const [key, values] of Object.entries(rows)) {
      isNew ||= !this.rows.has(key);
      this.rows.set(key, new Row(key, values));
    }
    if (head) this.#setHead(head);
    if (isNew) this.#order();
    this.#tell(Boolean(head), structure || isNew);
  }

  #setHead(head) {
    this.head = head;
    campaigns = head.campaigns;
    ({ groups: this.groups, bySubmission } = groupsOf(head.submissions));
  }

  /** Put the jobs of newer submissions first, as a snapshot has them. Those of a submission keep their order. */
  #order() {
    this.rows = new Map([...this.rows].sort(([, a], [, b]) => b.created - a.created));
  }

  #tell(head, structure) {
    performance.mark("traingrid-update");
    this.dispatchEvent(new CustomEvent("change", { detail: { head, structure } }));
    performance.measure("traingrid-update", "traingrid-update");
  }
}
