// Theme: light or dark, as the system prefers until the user chooses.
import { byId, setText } from "./dom.js";

const KEY = "traingrid-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");
const current = () => localStorage.getItem(KEY) ?? (dark.matches ? "dark" : "light");

/** Apply the theme, and call `changed` whenever it changes. */
export function startTheme(changed) {
  const apply = () => {
    document.documentElement.dataset.theme = current();
    setText(byId("theme"), current() === "dark" ? "Light" : "Dark");
    changed();
  };
  byId("theme").addEventListener("click", () => {
    localStorage.setItem(KEY, current() === "dark" ? "light" : "dark");
    apply();
  });
  dark.addEventListener("change", apply);
  apply();
}
