// @ts-check
/** The composer: writes a prompt, with attachments; a draft survives a reload, and is sent once. */

import { ApiError, call, post } from "./api.js";
import { fill, freshId, h, icon, icons, toast } from "./dom.js";
import { brief, randomId, visible } from "./text.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {{ name: string, mimeType: string, data: string }} Attached */

/** Size limit of one attachment, in bytes. */
const MAX_FILE = 10 << 20;

/** A text that was not sent yet. The key makes the server accept it once, however often it is sent. */
export class Draft {
  /** @param {string} name */
  constructor(name) {
    this.name = `draft:${name}`;
    let stored = null;
    try {
      stored = JSON.parse(localStorage.getItem(this.name) ?? "null");
    } catch {
      // A damaged draft is none.
    }
    /** @type {string} */
    this.text = typeof stored?.text === "string" ? stored.text : "";
    /** @type {string} */
    this.key = typeof stored?.key === "string" ? stored.key : randomId();
  }

  /** @param {string} text */
  set(text) {
    // Another text is another prompt.
    if (text !== this.text) this.key = randomId();
    this.text = text;
    try {
      if (text) localStorage.setItem(this.name, JSON.stringify({ text, key: this.key }));
      else localStorage.removeItem(this.name);
    } catch {
      // Storage may be full or forbidden; the page works without drafts.
    }
  }
}

/**
 * Creates the composer. `submit` sends the prompt, and returns when the server has accepted it.
 *
 * @param {App} app
 * @param {object} options
 * @param {string} options.draft
 * @param {(prompt: { text: string, attachments: any[], immediate: boolean, key: string }) => Promise<void>} options.submit
 * @param {string | null} options.session
 */
export function composer(app, { draft: name, submit, session }) {
  const draft = new Draft(name);
  const id = freshId();
  /** @type {Attached[]} */
  let files = [];
  const field = h("textarea", {
    id, rows: 1, placeholder: "Ask for something…", value: draft.text, enterkeyhint: "enter",
    oninput: () => {
      draft.set(field.value);
      grow();
      enable();
    },
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" || event.isComposing) return;
      const plain = !event.shiftKey && !event.altKey && !matchMedia("(pointer: coarse)").matches;
      if (event.ctrlKey || event.metaKey || plain) {
        event.preventDefault();
        send();
      }
    },
    onpaste: (/** @type {ClipboardEvent} */ event) => {
      const pasted = [...(event.clipboardData?.files ?? [])];
      if (pasted.length) {
        event.preventDefault();
        attach(pasted);
      }
    },
  });
  const chips = h("ul", { class: "chips", "aria-label": "Attachments" });
  const picker = h("input", { type: "file", multiple: true, hidden: true, onchange: () => { attach([...(picker.files ?? [])]); picker.value = ""; } });
  const steerId = freshId();
  const steer = h("input", { type: "checkbox", id: steerId });
  const steering = h("label", { class: "steer", for: steerId, hidden: true, title: "Join the running turn at its next model call, instead of waiting for its end" }, steer, "Steer now");
  const sendButton = h("button", { type: "submit", class: "primary", "aria-label": "Send", title: "Send" }, icon(icons.send), h("span", { class: "wide-only" }, "Send"));
  const cancel = h("button", {
    type: "button", class: "danger", hidden: true,
    onclick: async () => {
      cancel.disabled = true;
      try {
        await post(`sessions/${encodeURIComponent(session ?? "")}/cancel`);
      } catch (error) {
        toast(error instanceof Error ? error.message : String(error), "error");
      }
      cancel.disabled = false;
    },
  }, icon(icons.stop), "Cancel turn");
  const problem = h("p", { class: "problem", role: "alert" });
  const form = h("form", {
    class: "composer",
    onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      send();
    },
    ondragover: (/** @type {DragEvent} */ event) => {
      event.preventDefault();
      form.classList.add("drop");
    },
    ondragleave: () => form.classList.remove("drop"),
    ondrop: (/** @type {DragEvent} */ event) => {
      event.preventDefault();
      form.classList.remove("drop");
      attach([...(event.dataTransfer?.files ?? [])]);
    },
  },
    problem, chips,
    h("label", { for: id, class: "sr" }, "Prompt"),
    field,
    h("div", { class: "row tools" },
      h("button", { type: "button", class: "plain round", "aria-label": "Attach files", title: "Attach files", onclick: () => picker.click() }, icon(icons.clip)),
      picker, steering, h("span", { class: "space" }), cancel, sendButton),
  );

  let sending = false;
  const enable = () => {
    sendButton.disabled = sending || (!field.value.trim() && files.length === 0);
  };
  const grow = () => {
    field.style.setProperty("height", "auto");
    field.style.setProperty("height", `${Math.min(field.scrollHeight, innerHeight * 0.4)}px`);
  };
  const showFiles = () => {
    fill(chips, files.map((file, at) => h("li", {},
      file.mimeType.startsWith("image/") ? h("img", { src: `data:${file.mimeType};base64,${file.data}`, alt: "" }) : null,
      brief(visible(file.name), 40),
      h("button", { type: "button", class: "plain", "aria-label": `Remove ${visible(file.name)}`, onclick: () => { files.splice(at, 1); showFiles(); enable(); } }, icon(icons.cross)))));
  };
  const attach = async (/** @type {File[]} */ chosen) => {
    for (const file of chosen) {
      if (file.size > MAX_FILE) {
        toast(`${visible(file.name)} is larger than ${MAX_FILE >> 20} MB.`, "error");
        continue;
      }
      files.push({ name: file.name || "pasted", mimeType: file.type || "application/octet-stream", data: await base64(file) });
    }
    showFiles();
    enable();
  };
  const send = async () => {
    const text = field.value.trim() ? field.value : files.length ? "See the attachments." : "";
    if (sending || !text) return;
    sending = true;
    enable();
    fill(problem);
    try {
      const attachments = files.map(({ name: displayName, mimeType, data }) => ({ type: "blob", data, mimeType, displayName }));
      await submit({ text, attachments, immediate: steer.checked && !steering.hidden, key: draft.key });
      field.value = "";
      files = [];
      draft.set("");
      draft.key = randomId();
      showFiles();
      grow();
    } catch (error) {
      const lost = error instanceof ApiError && error.status === 0;
      fill(problem, lost ? "Not sent: the server cannot be reached. Your text is kept; send it again." : error instanceof Error ? error.message : String(error));
    }
    sending = false;
    enable();
  };
  enable();
  requestAnimationFrame(grow);

  return {
    element: form,
    field,
    /** @param {{ busy: boolean, running: boolean }} state */
    update({ busy, running }) {
      cancel.hidden = !busy;
      steering.hidden = !running;
      form.classList.toggle("busy", busy);
    },
    focus: () => field.focus(),
  };
}

/** @param {File} file @returns {Promise<string>} */
function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).split(",")[1] ?? "");
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/**
 * Shows the queue of a session, to change it.
 *
 * @param {string} session
 * @param {any[]} queue
 * @param {boolean} editable
 * @param {() => void} changed
 */
export function queueList(session, queue, editable, changed) {
  if (!queue.length) return null;
  const path = (/** @type {any} */ item) => `sessions/${encodeURIComponent(session)}/queue/${encodeURIComponent(item.promptId)}`;
  const act = (/** @type {Promise<any>} */ done) => done.then(changed, (error) => {
    toast(error.message, "error");
    changed();
  });
  const heading = h("h3", { id: freshId() }, `Queue (${queue.length})`);
  return h("section", { class: "queue", "aria-labelledby": heading.id }, heading,
    h("ol", {}, queue.map((item, at) => {
      const text = h("span", { class: "queued" }, brief(visible(item.text), 200));
      const row = h("li", {}, text, item.by && item.by !== "HTTP API" ? h("span", { class: "hint" }, visible(item.by)) : null);
      if (!editable) return row;
      const edit = () => {
        const id = freshId();
        const field = h("textarea", { id, rows: 2, value: item.text });
        const form = h("form", {
          onsubmit: (/** @type {Event} */ event) => {
            event.preventDefault();
            act(call("PATCH", path(item), { text: field.value }));
          },
        }, h("label", { class: "sr", for: id }, "Queued prompt"), field,
          h("div", { class: "row" }, h("button", { class: "primary", type: "submit" }, "Save"), h("button", { class: "plain", type: "button", onclick: changed }, "Back")));
        row.replaceChildren(form);
        field.focus();
      };
      row.append(h("span", { class: "row" },
        item.command ? null : h("button", { type: "button", class: "plain", onclick: edit }, "Edit"),
        at === 0 || item.immediate ? null : h("button", { type: "button", class: "plain", onclick: () => act(call("PATCH", path(item), { position: at - 1 })) }, "Move up"),
        item.command || item.immediate ? null : h("button", { type: "button", class: "plain", onclick: () => act(call("PATCH", path(item), { immediate: true })) }, "Steer now"),
        h("button", { type: "button", class: "plain", onclick: () => act(call("DELETE", path(item))) }, "Withdraw")));
      return row;
    })));
}
