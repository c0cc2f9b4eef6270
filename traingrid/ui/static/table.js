// Table: a grid of any number of jobs, of which only the visible rows are in the document.
import { el, setText } from "./dom.js";
import * as format from "./format.js";

const ROW = 36, SPARE = 6, FIRST_HEIGHT = 640; // as in page.css
const text = (value) => format.printable(value ?? "");
// Of a ranked column, jobs that can be the best are first in both directions, and jobs without a value last of their tier.
const COLUMNS = [
  { name: "select", title: "", class: "select" },
  { name: "name", title: "Job", sort: (row) => row.name, show: (row) => text(row.name) },
  { name: "submission", title: "Submission", sort: (row) => row.submission, show: (row) => `${row.submission}/${row.index}` },
  { name: "region", title: "Region", sort: (row) => row.place, show: (row) => text(row.place) },
  { name: "state", title: "State", sort: (row) => row.state, show: (row) => text(format.stateText(row)) },
  { name: "epoch", highestFirst: true, title: "Epoch", numeric: true, sort: (row) => row.metrics.epoch ?? -1, show: (row) => format.epochText(row) },
  { name: "loss", isRanked: true, title: "Loss", numeric: true, sort: (row) => format.metric(row, "loss"), show: (row) => format.number(format.metric(row, "loss")) },
  { name: "accuracy", isRanked: true, highestFirst: true, title: "Accuracy", numeric: true, sort: (row) => format.metric(row, "accuracy"), show: (row) => format.number(format.metric(row, "accuracy")) },
  { name: "rate", highestFirst: true, title: "Per second", numeric: true, sort: (row) => format.metric(row, "rate") ?? -1, show: (row) => format.number(format.metric(row, "rate")) },
  { name: "time", title: "Time", numeric: true, sort: format.elapsed, show: (row) => (format.elapsed(row) ? format.duration(format.elapsed(row)) : "") },
  { name: "left", title: "Left", numeric: true, sort: format.remaining, show: (row) => (format.remaining(row) ? format.rough(format.remaining(row)) : "") },
  { name: "dollars", highestFirst: true, title: "Dollars", numeric: true, sort: format.spent, show: (row) => format.dollars(format.spent(row)) },
  { name: "reason", title: "Reason", sort: (row) => row.reason, show: (row) => text(row.reason.split("\n")[0]) },
];

export class Table {
  #rows = [];
  #pool = [];
  #active = 0;
  #order = { column: null, descending: false };
  // The place of the visible part. Reading it from the element would make the browser lay out the page in each update.
  #top = 0;
  #height = 0;

  /** Create the table in a host element; `opened` and `selected` receive rows. */
  constructor(host, { opened, selected, isSelected, isOpen }) {
    this.opened = opened;
    this.selected = selected;
    this.isSelected = isSelected;
    this.isOpen = isOpen;
    this.source = () => [];
    this.body = el("div", { class: "rows", role: "rowgroup" });
    this.head = el("div", { class: "row head", role: "row", "aria-rowindex": 1 }, COLUMNS.map((column) => this.#heading(column)));
    this.grid = el("div", { class: "grid", role: "grid", tabindex: 0, "aria-labelledby": "jobs-title" },
      el("div", { class: "sticky", role: "rowgroup" }, this.head), this.body);
    this.empty = el("p", { class: "empty", hidden: true }, "No job matches the filters.");
    host.append(this.grid, this.empty);
    this.grid.addEventListener("scroll", () => this.#look(), { passive: true });
    this.grid.addEventListener("keydown", (event) => this.#key(event));
    this.body.addEventListener("click", (event) => this.#click(event));
    new ResizeObserver(() => this.#look()).observe(this.grid);
  }

  /** Show rows: `source` returns the filtered rows. */
  refresh(source = this.source) {
    this.source = source;
    this.#rows = source();
    const { column, descending } = this.#order;
    if (column) {
      const sign = descending ? -1 : 1;
      const keyed = this.#rows.map((row) => [column.isRanked ? row.tier : 0, column.sort(row), row]);
      keyed.sort(([tierA, a], [tierB, b]) => tierA - tierB || (a === undefined) - (b === undefined) || (a < b ? -sign : a > b ? sign : 0));
      this.#rows = keyed.map(([, , row]) => row);
    }
    this.grid.setAttribute("aria-rowcount", this.#rows.length + 1);
    this.body.style.height = `${this.#rows.length * ROW}px`;
    this.empty.hidden = this.#rows.length > 0;
    this.#active = Math.min(this.#active, Math.max(0, this.#rows.length - 1));
    this.#draw();
  }

  focus() {
    this.grid.focus();
  }

  #heading(column) {
    const sorts = column.sort && el("button", { type: "button", class: "sort", tabindex: -1, onclick: () => this.#sort(column) }, column.title);
    return el("div", { class: `cell ${column.name} ${column.numeric ? "numeric" : ""}`, role: "columnheader", "data-column": column.name },
      sorts || el("span", { class: "hidden" }, "Compare"));
  }

  #sort(column) {
    const again = this.#order.column === column;
    this.#order = { column, descending: again ? !this.#order.descending : Boolean(column.highestFirst) };
    for (const cell of this.head.children) {
      const here = cell.dataset.column === column.name;
      if (here) cell.setAttribute("aria-sort", this.#order.descending ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    this.refresh();
  }

  #look() {
    this.#top = this.grid.scrollTop;
    this.#height = this.grid.clientHeight;
    this.#draw();
  }

  #draw() {
    const height = this.#height || FIRST_HEIGHT;
    const first = Math.max(0, Math.min(Math.floor(this.#top / ROW), this.#rows.length - Math.ceil(height / ROW)) - SPARE);
    const last = Math.min(this.#rows.length, Math.ceil((Math.max(this.#top, first * ROW) + height) / ROW) + SPARE);
    while (this.#pool.length < last - first) this.#pool.push(this.#blank());
    this.#pool.forEach((view, position) => {
      const index = first + position;
      view.element.hidden = index >= last;
      if (index < last) this.#fill(view, index);
    });
    const active = this.#pool[this.#active - first];
    if (active && !active.element.hidden) this.grid.setAttribute("aria-activedescendant", active.element.id);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  #blank() {
    const cells = COLUMNS.map((column) => el("div", { class: `cell ${column.name} ${column.numeric ? "numeric" : ""}`, role: "gridcell" }));
    const box = el("span", { class: "box", "aria-hidden": "true" });
    cells[0].append(box);
    const element = el("div", { class: "row", role: "row", id: `row-${this.#pool.length}` }, cells);
    this.body.append(element);
    return { element, cells };
  }

  #fill({ element, cells }, index) {
    const row = this.#rows[index], selected = this.isSelected(row);
    element.style.transform = `translateY(${index * ROW}px)`;
    element.dataset.index = index;
    element.setAttribute("aria-rowindex", index + 2);
    element.setAttribute("aria-selected", selected);
    element.classList.toggle("active", index === this.#active);
    element.classList.toggle("open", this.isOpen(row));
    COLUMNS.forEach((column, position) => {
      if (column.show) setText(cells[position], column.show(row));
    });
    cells[4].dataset.state = format.stateClass(row.state);
    for (const cell of [cells[1], cells[4], cells.at(-1)]) cell.title = cell.textContent;
  }

  #click(event) {
    const element = event.target.closest(".row");
    if (!element) return;
    this.#active = Number(element.dataset.index);
    const row = this.#rows[this.#active];
    if (event.target.closest(".select")) this.selected(row);
    else this.opened(row);
    this.#draw();
  }

  #key(event) {
    if (event.target !== this.grid || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.grid.clientHeight / ROW) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.#move(this.#active + steps[event.key]);
    else if (event.key === "Enter" && this.#rows.length) this.opened(this.#rows[this.#active]);
    else if (event.key === " " && this.#rows.length) this.selected(this.#rows[this.#active]);
    else return;
    event.preventDefault();
    this.#draw();
  }

  #move(to) {
    this.#active = Math.max(0, Math.min(this.#rows.length - 1, to));
    const top = this.#active * ROW, header = this.head.offsetHeight;
    const bottom = this.grid.scrollTop + this.grid.clientHeight - header;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top + ROW > bottom) this.grid.scrollTop = top + ROW - this.grid.clientHeight + header;
    this.#top = this.grid.scrollTop;
  }
}
