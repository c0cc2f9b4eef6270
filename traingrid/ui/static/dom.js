// Elements: creates elements from text only, so that no value can become markup.

/** Return an element with properties and children; strings become text nodes. */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Return the element with an id. */
export const byId = (id) => document.getElementById(id);

/**
 * Show items in a list: `[id, facts, make]` for each. Only an item whose facts have changed is made again, so that the
 * browser lays out little; if one of its buttons has the keyboard's focus, its new button gets it.
 */
export function showItems(list, items) {
  const known = new Map([...list.children].map((child) => [child.dataset.id, child]));
  const shown = items.map(([id, facts, make]) => {
    const text = JSON.stringify(facts), present = known.get(id);
    if (present?.facts === text) return present;
    const made = make();
    made.dataset.id = id;
    made.facts = text;
    return made;
  });
  if (shown.length === list.children.length && shown.every((child, index) => child === list.children[index])) return;
  const focused = document.activeElement, owner = focused?.closest("[data-id]");
  const position = owner?.parentElement === list ? [...owner.querySelectorAll("button")].indexOf(focused) : -1;
  shown.forEach((child, index) => {
    const there = list.children[index];
    if (there === child) return;
    if (there && !shown.includes(there)) there.replaceWith(child);
    else list.insertBefore(child, there ?? null);
  });
  while (list.children.length > shown.length) list.lastElementChild.remove();
  if (position >= 0 && !focused.isConnected) {
    shown.find((child) => child.dataset.id === owner.dataset.id)?.querySelectorAll("button")[position]?.focus({ preventScroll: true });
  }
}

/** Set the text of an element, if it differs: a live region announces every change. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
