// Store: the jobs and the head of the page, kept current by server-sent events.

const REFUSED_SECONDS = 5;

export class Store extends EventTarget {
  rows = new Map();
  head = { regions: [], submissions: [], notices: [], failures: {}, writes: false, grid: "" };

  /** Connect to the server. The browser connects again by itself, and sends the id of the last event. */
  connect() {
    this.source = new EventSource("/api/events");
    this.source.addEventListener("open", () => this.#report("live"));
    this.source.addEventListener("snapshot", (event) => this.#replace(JSON.parse(event.data)));
    this.source.addEventListener("change", (event) => this.#change(JSON.parse(event.data)));
    this.source.addEventListener("error", () => {
      const refused = this.source.readyState === EventSource.CLOSED;
      this.#report(refused ? "closed" : "reconnecting");
      // A browser gives up after an answer such as 403: the server runs again, with another token. This tab connects
      // again once the user has opened the new address in another tab, because the tabs share the cookie.
      if (refused) setTimeout(() => this.connect(), REFUSED_SECONDS * 1000);
    });
  }

  #report(state) {
    this.dispatchEvent(new CustomEvent("connection", { detail: state }));
  }

  #replace({ rows, head }) {
    this.rows = new Map(Object.entries(rows).map(([key, row]) => [key, { ...row, key }]));
    this.head = head;
    this.#tell(true, true);
  }

  #change({ rows = {}, removed = [], head }) {
    let structure = removed.length > 0;
    for (const key of removed) this.rows.delete(key);
    for (const [key, row] of Object.entries(rows)) {
      structure ||= !this.rows.has(key);
      this.rows.set(key, { ...row, key });
    }
    if (head) this.head = head;
    this.#tell(Boolean(head), structure);
  }

  #tell(head, structure) {
    performance.mark("traingrid-update");
    this.dispatchEvent(new CustomEvent("change", { detail: { head, structure } }));
    performance.measure("traingrid-update", "traingrid-update");
  }
}
