// @ts-check
/** Logging in, with a link or a token. */

import { ApiError, post } from "./api.js";
import { fill, h } from "./dom.js";

/**
 * Shows the form, and calls back when the browser is logged in.
 *
 * @param {HTMLElement} place
 * @param {string} reason
 * @param {() => void} done
 */
export function showLogin(place, reason, done) {
  const error = h("p", { class: "problem", role: "alert" });
  const field = h("input", {
    type: "password", id: "secret", name: "secret", autocomplete: "current-password", required: true,
    autocapitalize: "off", spellcheck: "false",
  });
  const form = h(
    "form",
    {
      class: "card",
      onsubmit: async (/** @type {Event} */ event) => {
        event.preventDefault();
        fill(error);
        try {
          await post("login", { secret: secretOf(field.value) });
          done();
        } catch (problem) {
          fill(error, problem instanceof ApiError ? problem.message : String(problem));
          field.select();
        }
      },
    },
    h("h1", {}, "Log in to Baton"),
    h("p", {}, reason),
    h("label", { for: "secret" }, "Login link or token"),
    field,
    error,
    h("button", { type: "submit", class: "primary" }, "Log in"),
    h("p", { class: "hint" }, "On the server's machine, ", h("code", {}, "baton link"), " prints a link that logs in at once."),
  );
  fill(place, h("main", { class: "login" }, form));
  field.focus();
}

/** @param {string} text */
function secretOf(text) {
  const trimmed = text.trim();
  try {
    const link = new URL(trimmed);
    return link.searchParams.get("login") ?? link.searchParams.get("token") ?? trimmed;
  } catch {
    return trimmed;
  }
}
