// Confirmation: asks before a change, and shows its result.
import { byId, el } from "./dom.js";
import { post } from "./requests.js";

/** Ask the user, send the change, and show the sentences of the answer. */
export function confirmAction({ title, text, label, withReason = false, path, body }) {
  const dialog = byId("confirm");
  const reason = el("input", { type: "text", maxlength: 200, autocomplete: "off" });
  const result = el("div", { role: "status" });
  const cancel = el("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Keep as it is");
  const act = el("button", { type: "button", class: "danger", onclick: async () => {
    act.disabled = true;
    result.replaceChildren(el("p", {}, "Working …"));
    try {
      const answer = await post(path, withReason ? { ...body, reason: reason.value } : body);
      result.replaceChildren(...answer.sentences.map((sentence) => el("p", {}, sentence)));
      act.hidden = true;
      cancel.textContent = "Close";
      cancel.focus();
    } catch (error) {
      result.replaceChildren(el("p", { class: "problem" }, error.message));
      act.disabled = false;
    }
  } }, label);
  dialog.replaceChildren(...[el("h2", { id: "confirm-title" }, title), el("p", {}, text),
    withReason && el("label", {}, "Reason (optional, recorded) ", reason), result, el("div", { class: "actions" }, cancel, act)].filter(Boolean));
  dialog.showModal();
  cancel.focus();
}
