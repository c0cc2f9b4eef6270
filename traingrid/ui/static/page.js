// Page: connects the parts.
import { readView } from "./address.js";
import { drawCampaigns } from "./campaigns.js";
import { Curves } from "./curves.js";
import { byId, setText } from "./dom.js";
import { Filters } from "./filters.js";
import * as format from "./format.js";
import { Hyperparameters } from "./hyperparameters.js";
import { drawFailures, drawOverview, showConnection } from "./overview.js";
import { Panel } from "./panel.js";
import { keepToken } from "./requests.js";
import { Rounds } from "./rounds.js";
import { Store } from "./store.js";
import { failuresOf, summarise } from "./summary.js";
import { Table } from "./table.js";
import { startTheme } from "./theme.js";
import { drawTimeline } from "./timeline.js";

keepToken();
const linked = readView().job;
const store = new Store();
const filters = new Filters(() => draw());
const curves = new Curves(store, () => table.refresh());
const table = new Table(byId("table"), {
  opened: (row) => panel.open(row),
  selected: (row) => curves.toggle(row),
  isSelected: (row) => curves.has(row),
  isOpen: (row) => panel.shows(row),
});
const panel = new Panel(store, { compare: (row) => curves.show(row), closed: () => table.focus(), changed: () => table.refresh() });
const open = (key) => panel.open(store.rows.get(key));
const hyperparameters = new Hyperparameters(store, { open, changed: () => draw() });
const rounds = new Rounds({ open, changed: () => draw() });

/** Return the jobs whose curves and times are drawn: those that the filters accept, or those of the newest group. */
function focusOf(rows) {
  const chosen = store.groups.find((group) => group.key === filters.group);
  if (chosen) return { group: chosen, title: format.printable(chosen.title), rows };
  if (filters.isSet) return { group: null, title: "the jobs that match the filters", rows };
  const newest = store.groups[0], ofNewest = rows.filter((row) => row.group === newest);
  return { group: ofNewest.length ? newest : null, title: newest ? format.printable(newest.title) : "", rows: ofNewest };
}

/** Draw the page. A change of few jobs updates only what shows them at once; the rest follows with the next timer. */
function draw({ head = false, structure = true } = {}) {
  if (head) {
    const { grid, home, writes } = store.head;
    document.title = `${grid} · traingrid`;
    setText(byId("grid"), `${grid}, home ${home}`);
    setText(byId("mode"), writes ? "cancel and retry allowed" : "read-only");
  }
  const recent = filters.recent(store.rows.values()), rows = filters.apply(recent), focus = focusOf(rows);
  const summary = summarise(recent, store.head.regions.map((region) => region.name));
  const [shown, all] = [rows.length, store.rows.size].map(format.count);
  setText(byId("count"), shown === all ? all : `${shown} of ${all}`);
  filters.offer(store, summary);
  drawOverview(store, summary, filters, open);
  drawFailures(store.head, failuresOf(rows), { filters, focus: focus.group, open });
  drawCampaigns(store, summary.campaigns, filters);
  rounds.use(focus.group);
  hyperparameters.use(focus.group?.rounds ? null : focus.group);
  table.extend(filters.group || focus.rows.length === rows.length ? hyperparameters.columns : []);
  table.refresh(() => rows, structure);
  panel.update();
  if (!structure) return;
  curves.offer({ ...focus, rows: focus.rows.filter((row) => !rounds.merges.has(row.submission)) }); // a merge reports once
  hyperparameters.draw(focus.rows);
  drawTimeline(focus, rounds.merges, open);
}

let isFirst = true;
store.addEventListener("change", (event) => {
  if (isFirst) filters.start(store.groups);
  draw(event.detail);
  if (isFirst && store.rows.has(linked)) open(linked);
  isFirst = store.groups.length === 0; // the first read of the ledger may have failed
});
store.addEventListener("connection", (event) => showConnection(event.detail));
addEventListener("hashchange", () => location.reload()); // another link to the page; it changes its address without this
startTheme(() => {
  curves.redraw();
  hyperparameters.redraw();
  rounds.redraw();
});
setInterval(() => { if (store.rows.size) draw(); }, 5000); // elapsed times, too
store.start();
