// @ts-check
/**
 * The service worker: shows notifications while the page is closed. It stores nothing and answers no request, so that a new
 * version of the page is never mixed with an old one.
 */

const worker = /** @type {any} */ (self);

worker.addEventListener("install", () => worker.skipWaiting());
worker.addEventListener("activate", (/** @type {any} */ event) => event.waitUntil(worker.clients.claim()));

worker.addEventListener("push", (/** @type {any} */ event) => {
  event.waitUntil(show(read(event)));
});

/** @param {any} event */
function read(event) {
  try {
    return event.data?.json() ?? {};
  } catch {
    return {};
  }
}

/** @param {any} message */
async function show(message) {
  const tag = String(message.id ?? "baton");
  if (message.withdrawn) {
    const shown = await worker.registration.getNotifications({ tag });
    for (const notification of shown) notification.close();
    // Safari ends subscriptions whose messages show nothing.
    if (!/^((?!chrome|android|firefox).)*safari/i.test(worker.navigator.userAgent)) return;
    await worker.registration.showNotification("Answered", { tag, body: String(message.body ?? ""), silent: true });
    return;
  }
  await worker.registration.showNotification(String(message.title ?? "Baton"), {
    tag,
    body: String(message.body ?? ""),
    icon: "icon-192.png",
    requireInteraction: message.waits === true,
    data: { link: typeof message.link === "string" && message.link.startsWith("#/") ? message.link : "#/inbox" },
  });
}

worker.addEventListener("notificationclick", (/** @type {any} */ event) => {
  event.notification.close();
  event.waitUntil(showPlace(event.notification.data?.link ?? "#/inbox"));
});

/** Shows a place in a window of the page, or in a new one. @param {string} link */
async function showPlace(link) {
  const target = new URL(link, worker.registration.scope).href;
  const windows = await worker.clients.matchAll({ type: "window", includeUncontrolled: true });
  for (const client of windows) {
    if (!client.url.startsWith(worker.registration.scope)) continue;
    client.postMessage({ open: link });
    await client.focus();
    return;
  }
  await worker.clients.openWindow(target);
}
