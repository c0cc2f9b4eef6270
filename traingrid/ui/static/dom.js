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

/** Set the text of an element, if it differs: a live region announces every change. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
