// @ts-check
/** Notifications of this browser: turning them on and off, and saying why they cannot be. */

import { call, get, post } from "./api.js";
import { fill, h, scriptUrl, toast } from "./dom.js";

/** Place of the id of this browser's subscription. */
const STORED = "baton.push";

/** Registers the service worker, and follows the notifications that are clicked. */
export function prepareNotifications() {
  if (!("serviceWorker" in navigator)) return;
  navigator.serviceWorker.addEventListener("message", (event) => {
    const link = event.data?.open;
    if (typeof link === "string" && link.startsWith("#/")) location.hash = link;
  });
  navigator.serviceWorker.register(scriptUrl("sw.js"), { scope: "./" }).catch(() => {});
}

/** Returns why this browser cannot show notifications; null if it can. */
function obstacle() {
  if (!window.isSecureContext) {
    return "Browsers allow notifications only over trusted TLS, or on localhost. Serve the page with --tls-cert and --tls-key, or behind a proxy with TLS.";
  }
  if (!("serviceWorker" in navigator) || !("PushManager" in window) || !("Notification" in window)) {
    return /iPhone|iPad/.test(navigator.userAgent)
      ? "On this device, add the page to the home screen first, and open it from there."
      : "This browser has no push notifications.";
  }
  if (Notification.permission === "denied") {
    return "Notifications of this page are blocked in the browser's settings.";
  }
  return null;
}

/**
 * Returns the part of the account dialog that turns notifications on and off.
 *
 * @returns {HTMLElement}
 */
export function notificationsSection() {
  const status = h("p", { class: "hint", role: "status" });
  const buttons = h("div", { class: "row" });
  const section = h("section", { "aria-label": "Notifications" }, h("h3", {}, "Notifications"), status, buttons);
  const show = async () => {
    fill(buttons);
    const problem = obstacle();
    if (problem) {
      fill(status, problem);
      return;
    }
    try {
      const setup = await get("notifications");
      if (!setup.publicKey) {
        fill(status, "This server has turned push notifications off.");
        return;
      }
      const registration = await navigator.serviceWorker.ready;
      const current = await registration.pushManager.getSubscription();
      if (current && localStorage.getItem(STORED)) showOn();
      else showOff(setup, registration);
    } catch (error) {
      fill(status, error instanceof Error ? error.message : String(error));
    }
  };
  const showOn = () => {
    fill(status, "This browser is notified when a request waits or a turn has ended.");
    fill(buttons,
      h("button", { type: "button", class: "plain", onclick: () => attempt(test) }, "Send a test"),
      h("button", { type: "button", class: "plain", onclick: () => attempt(async () => { await turnOff(); await show(); }) }, "Turn off"));
  };
  const showOff = (/** @type {any} */ setup, /** @type {ServiceWorkerRegistration} */ registration) => {
    fill(status, `Be notified when a request has waited for ${setup.delaySeconds} s, or a turn has ended, also while the page is closed.`);
    fill(buttons, h("button", {
      type: "button", class: "primary",
      onclick: () => attempt(async () => { await turnOn(setup.publicKey, registration); await show(); }),
    }, "Turn on notifications"));
  };
  const attempt = async (/** @type {() => Promise<void>} */ action) => {
    try {
      await action();
    } catch (error) {
      fill(status, error instanceof Error ? error.message : String(error));
    }
  };
  show();
  return section;
}

/**
 * @param {string} key
 * @param {ServiceWorkerRegistration} registration
 */
async function turnOn(key, registration) {
  if (await Notification.requestPermission() !== "granted") throw new Error("The browser did not allow notifications.");
  // A subscription with the key of another server cannot be used.
  const old = await registration.pushManager.getSubscription();
  await old?.unsubscribe();
  const subscription = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: decode(key) });
  const made = await post("notifications/subscriptions", subscription.toJSON());
  localStorage.setItem(STORED, made.id);
}

/** Ends the subscription of this browser, at the server too. */
export async function turnOff() {
  const id = localStorage.getItem(STORED);
  localStorage.removeItem(STORED);
  if (id) await call("DELETE", `notifications/subscriptions/${encodeURIComponent(id)}`).catch(() => {});
  const registration = await navigator.serviceWorker?.getRegistration();
  const subscription = await registration?.pushManager?.getSubscription();
  await subscription?.unsubscribe();
}

async function test() {
  await post(`notifications/subscriptions/${encodeURIComponent(localStorage.getItem(STORED) ?? "")}/test`, {});
  toast("Sent a test.");
}

/** @param {string} text */
function decode(text) {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (character) => character.charCodeAt(0));
}
