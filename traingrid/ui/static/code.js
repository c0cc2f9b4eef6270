// Code: a text that can be copied.
import { el, setText } from "./dom.js";
import * as format from "./format.js";

/** Return an element with a text and a button that copies it. */
export function code(content, label) {
  const shown = format.printableLines(content);
  const copy = el("button", { type: "button", class: "plain copy", "aria-label": `Copy: ${label}`,
    onclick: async () => { await navigator.clipboard.writeText(shown); setText(copy, "Copied"); } }, "Copy");
  return el("div", { class: "code" }, el("pre", { tabindex: 0, role: "region", "aria-label": label }, shown), copy);
}
