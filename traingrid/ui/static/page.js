// Page: connects the parts.
import { drawCampaigns } from "./campaigns.js";
import { Curves } from "./curves.js";
import { byId, setText } from "./dom.js";
import { Filters } from "./filters.js";
import * as format from "./format.js";
import { drawOverview, showConnection } from "./overview.js";
import { Panel } from "./panel.js";
import { keepToken } from "./requests.js";
import { Store } from "./store.js";
import { summarise } from "./summary.js";
import { Table } from "./table.js";
import { startTheme } from "./theme.js";

keepToken();
const store = new Store();
const filters = new Filters(() => table.refresh(filtered));
const curves = new Curves(store, () => table.refresh());
const table = new Table(byId("table"), {
  opened: (row) => panel.open(row),
  selected: (row) => curves.toggle(row),
  isSelected: (row) => curves.has(row),
  isOpen: (row) => panel.shows(row),
});
const panel = new Panel(store, { compare: (row) => curves.show(row), closed: () => table.focus(), changed: () => table.refresh() });

function filtered() {
  const rows = filters.apply(store.rows.values());
  const [shown, all] = [rows.length, store.rows.size].map(format.count);
  setText(byId("count"), shown === all ? all : `${shown} of ${all}`);
  return rows;
}

function draw({ head }) {
  if (head) {
    const { grid, home, writes } = store.head;
    document.title = `${grid} · traingrid`;
    setText(byId("grid"), `${grid}, home ${home}`);
    setText(byId("mode"), writes ? "cancel and retry allowed" : "read-only");
  }
  const summary = summarise(store.rows.values(), store.head.regions.map((region) => region.name));
  filters.offer(store, summary);
  drawOverview(store, summary, filters, (key) => panel.open(store.rows.get(key)));
  drawCampaigns(store, summary.campaigns, filters);
  byId("table").classList.toggle("without-dollars", !summary.projected);
  table.refresh(filtered);
  panel.update();
}

let isFirst = true;
store.addEventListener("change", (event) => {
  draw(event.detail);
  const linked = isFirst && store.rows.get(decodeURIComponent(location.hash.slice(1)));
  isFirst = false;
  if (linked) panel.open(linked);
});
store.addEventListener("connection", (event) => showConnection(event.detail));
startTheme(() => curves.redraw());
setInterval(() => { if (store.rows.size) draw({ head: false }); }, 5000); // elapsed times
store.start();
