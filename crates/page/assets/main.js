// @ts-check
/** Starts the page. */

import { start } from "./app.js";

start(/** @type {HTMLElement} */ (document.getElementById("app")));
