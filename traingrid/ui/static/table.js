// Table: a grid of any number of jobs, of which only the visible rows are in the document.
import { readView, writeView } from "./address.js";
import { AFTER, BEFORE, SELECT } from "./columns.js";
import { el, setText } from "./dom.js";
import * as format from "./format.js";

const ROW = 36, SPARE = 6, FIRST_HEIGHT = 640, GAP = 8; // as in page.css
const RESULTS = ["objective", "accuracy", "loss"];
const narrow = matchMedia("(max-width: 700px)");

export class Table {
  #rows = [];
  #pool = [];
  #columns = [];
  #more = [];
  #active = 0;
  #order;
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
    const [name, direction] = (readView().sort ?? "").split(" ");
    this.#order = { name, descending: direction === "down" };
    this.body = el("div", { class: "rows", role: "rowgroup" });
    this.head = el("div", { class: "row head", role: "row", "aria-rowindex": 1 });
    this.grid = el("div", { class: "grid", role: "grid", tabindex: 0, "aria-labelledby": "jobs-title" },
      el("div", { class: "sticky", role: "rowgroup" }, this.head), this.body);
    this.empty = el("p", { class: "empty", hidden: true }, "No job matches the filters.");
    host.append(this.grid, this.empty);
    this.grid.addEventListener("scroll", () => this.#look(), { passive: true });
    this.grid.addEventListener("keydown", (event) => this.#key(event));
    this.body.addEventListener("click", (event) => this.#click(event));
    narrow.addEventListener("change", () => this.refresh());
    new ResizeObserver(() => this.#look()).observe(this.grid);
  }

  /** Show rows: `source` returns the filtered rows. Columns whose first or last value came or went change only if `whole`. */
  refresh(source = this.source, whole = true) {
    this.source = source;
    this.#rows = source();
    if (whole || !this.#columns.length) this.#useColumns();
    const column = this.#columns.find(({ name }) => name === this.#order.name);
    if (column) {
      const sign = this.#order.descending ? -1 : 1;
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

  /** Show more columns: those of hyperparameters. */
  extend(columns) {
    this.#more = columns;
  }

  focus() {
    this.grid.focus();
  }

  /** Show the columns that have values. */
  #useColumns() {
    const filled = [...BEFORE, ...this.#more, ...AFTER].filter((column) => !column.isOptional || this.#rows.some((row) => column.show(row)));
    const result = RESULTS.map((name) => filled.find((column) => column.name === name)).find(Boolean); // a phone has room for one
    const columns = [SELECT, ...filled.filter((column) => !narrow.matches || column === result || !(column.isWide || this.#more.includes(column)))];
    const titles = columns.map(({ name, title }) => `${name} ${title}`).join("\n");
    if (titles === this.#columns.map(({ name, title }) => `${name} ${title}`).join("\n")) {
      this.#columns = columns;
      return;
    }
    this.#columns = columns;
    this.head.replaceChildren(...columns.map((column) => this.#heading(column)));
    this.#markOrder();
    this.body.replaceChildren();
    this.#pool = [];
    this.grid.style.setProperty("--columns", columns.map(({ width }) => width).join(" "));
    this.grid.style.setProperty("--least-width", `${columns.reduce((sum, { needs }) => sum + needs + GAP, GAP)}px`);
  }

  #heading(column) {
    const sorts = column.sort && el("button", { type: "button", class: "sort", title: format.printable(column.title), onclick: () => this.#sort(column) }, format.printable(column.title));
    return el("div", { class: `cell ${column.name} ${column.numeric ? "numeric" : ""}`, role: "columnheader", "data-column": column.name },
      sorts || el("span", { class: "hidden" }, "Compare"));
  }

  #sort(column) {
    const again = this.#order.name === column.name;
    this.#order = { name: column.name, descending: again ? !this.#order.descending : Boolean(column.highestFirst) };
    writeView({ sort: this.#order.descending ? `${column.name} down` : column.name });
    this.#markOrder();
    this.refresh();
  }

  #markOrder() {
    for (const cell of this.head.children) {
      if (cell.dataset.column === this.#order.name) cell.setAttribute("aria-sort", this.#order.descending ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
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
    const cells = this.#columns.map((column) => el("div", { class: `cell ${column.name} ${column.numeric ? "numeric" : ""}`, role: "gridcell" }));
    cells[0].append(el("span", { class: "box", "aria-hidden": "true" }));
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
    this.#columns.forEach((column, position) => {
      if (!column.show) return;
      const cell = cells[position];
      setText(cell, column.show(row));
      if (column.name === "state") cell.dataset.state = format.stateClass(row.state);
      cell.title = column.hint?.(row) ?? cell.textContent;
    });
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
