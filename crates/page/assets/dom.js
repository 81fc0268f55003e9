// @ts-check
/**
 * Builds elements. Text becomes text nodes, never HTML, with one exception: `showRendered`, for HTML that the server has
 * rendered. The content security policy enforces that (`require-trusted-types-for`).
 */

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Creates an element. Properties starting with `on` are listeners, `class` is the class, the others are attributes; those that
 * are false, null or undefined are left out.
 *
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "value") /** @type {any} */ (element).value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

/**
 * Adds children to an element.
 *
 * @param {Element | DocumentFragment} element
 * @param {(Child | Child[])[]} children
 */
export function add(element, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "number" ? String(child) : child);
  }
}

/**
 * Replaces the children of an element.
 *
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function fill(element, ...children) {
  const fragment = document.createDocumentFragment();
  add(fragment, children);
  element.replaceChildren(fragment);
}

/** @type {{ createHTML(html: string): any }} */
const policy = /** @type {any} */ (window).trustedTypes?.createPolicy("baton", {
  createHTML: (/** @type {string} */ html) => html,
}) ?? { createHTML: (/** @type {string} */ html) => html };

/**
 * Shows HTML that the server has rendered from Markdown (`/api/render`, `rendered=true`). The only place where text becomes
 * HTML. Links open elsewhere and learn nothing of this page.
 *
 * @param {Element} element
 * @param {string} html
 */
export function showRendered(element, html) {
  element.innerHTML = policy.createHTML(html);
  for (const link of element.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer";
  }
  for (const box of element.querySelectorAll("input")) box.setAttribute("aria-label", "task");
  for (const code of element.querySelectorAll("pre")) code.tabIndex = 0;
  // A model may begin with any level; a reader of headings expects none to be left out.
  let last = 2;
  for (const heading of element.querySelectorAll("h3, h4, h5, h6")) {
    const level = Math.min(Number(heading.tagName[1]), last + 1);
    last = level;
    if (heading.tagName !== `H${level}`) heading.replaceWith(h(/** @type {"h3"} */ (`h${level}`), {}, ...heading.childNodes));
  }
  for (const table of element.querySelectorAll("table")) {
    const frame = h("div", { class: "table", tabindex: 0 });
    table.replaceWith(frame);
    frame.append(table);
  }
}

let ids = 0;

/** Returns an id that no other element has. */
export function freshId() {
  ids += 1;
  return `e${ids}`;
}

/**
 * Creates an icon from path data.
 *
 * @param {string} path
 */
export function icon(path) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS(ns, "path");
  shape.setAttribute("d", path);
  svg.append(shape);
  return svg;
}

export const icons = {
  inbox: "M3 11l2.5-7h9L17 11v5H3v-5zm0 0h4l1 2h4l1-2h4",
  sessions: "M3 5h14M3 10h14M3 15h9",
  plus: "M10 4v12M4 10h12",
  back: "M12 4l-6 6 6 6",
  send: "M3 10l14-6-5 13-3-5-6-2z",
  stop: "M6 6h8v8H6z",
  clip: "M13 6l-5.5 5.5a2 2 0 003 3L16 9a4 4 0 00-6-5.5L4.500 9",
  more: "M4 10h.01M10 10h.01M16 10h.01",
  fold: "M7 5l5 5-5 5",
  check: "M4 10l4 4 8-9",
  cross: "M5 5l10 10M15 5L5 15",
  search: "M9 3a6 6 0 104 10.500L17 17M9 3a6 6 0 014 10.500",
  down: "M10 4v12M5 11l5 5 5-5",
};

/**
 * Announces a message to everybody, for a few seconds.
 *
 * @param {string} text
 * @param {"note" | "error"} [kind]
 */
export function toast(text, kind = "note") {
  const place = document.getElementById("toasts");
  if (!place) return;
  const shown = h("div", { class: `toast ${kind}` }, text);
  place.append(shown);
  setTimeout(() => shown.remove(), 6000);
}

/**
 * Asks with a dialog. Returns the name of the pressed button; none if the dialog was closed otherwise.
 *
 * @param {string} title
 * @param {Child[]} content
 * @param {{ name: string, label: string, class?: string }[]} buttons
 * @returns {Promise<string | null>}
 */
export function ask(title, content, buttons) {
  return new Promise((resolve) => {
    const heading = h("h2", { id: freshId() }, title);
    const dialog = h("dialog", { "aria-labelledby": heading.id });
    const close = (/** @type {string | null} */ answer) => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const form = h("form", {
      method: "dialog",
      onsubmit: (/** @type {SubmitEvent} */ event) => {
        event.preventDefault();
        close(/** @type {HTMLButtonElement | null} */ (event.submitter)?.value ?? buttons[0]?.name ?? null);
      },
    });
    add(form, [heading, ...content]);
    const row = h("div", { class: "row end" }, h("button", { type: "button", class: "plain", onclick: () => close(null) }, "Back"));
    for (const button of buttons) {
      row.append(h("button", { type: "submit", value: button.name, class: button.class ?? "primary" }, button.label));
    }
    form.append(row);
    dialog.append(form);
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close(null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
