"use strict";
// Labelling page: state, communication with the server, mouse and keyboard. page.js draws the saved page, panel.js the
// panel on the right.

const BASE = location.pathname; // "/secret/"
const TOKEN = BASE.split("/")[1];
let fields = [];
let state = { version: -1, pages: [], done: 0, total: 0 };
let page = null; // current page, as sent by the server
let labels = []; // pairs [spot, field]; page.js defines spots
let confirmed = new Set(); // keys of the labels that the user has made or confirmed
let touched = false; // whether the user has changed this page
let undo = [];
let active = 0; // index of the selected field
let picked = false; // whether the user has selected the field explicitly
let emptyAsked = null; // page without labels on which "d" was pressed once
let activeRecord = 0;
let anchor = -1; // leaf that was clicked last
let cursor = -1; // leaf selected with the arrow keys, or -1
let visited = [];
let busy = false;
let plain = false;
let mode = ""; // effect of the next click, set by a button: "also", "range", "part" or none
let unsaved = 0; // number of changes that are being saved
let failed = false; // whether the last change could not be saved

// ---- communication with the server ------------------------------------------------------------------------------

async function ask(path) {
  const answer = await fetch(BASE + "api/" + path, { credentials: "omit" });
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error || answer.statusText);
  return value;
}

// "forget": remove all labels of the page
let saving = Promise.resolve();
function save(done, forget = false) {
  const about = page;
  const change = { n: page.n, sha: page.sha, labels: forget ? [] : labels, done, none: done && !labels.length, forget };
  unsaved += 1;
  saving = saving.catch(() => {}).then(async () => {
    try {
      const body = JSON.stringify({ ...change, stamp: about.stamp });
      const answer = await fetch(BASE + "api/save", {
        method: "POST", credentials: "omit", body,
        headers: { "Content-Type": "application/json", "X-Maxendnet-Token": TOKEN },
      });
      const value = await answer.json();
      if (value.stale && page === about) {
        setTimeout(() => open(about.n, true), 0);
        throw Object.assign(new Error(value.error), { stale: true });
      }
      if (!answer.ok) throw new Error(value.error || answer.statusText);
      about.stamp = value.stamp;
      say("Saved");
      failed = false;
      return value;
    } catch (error) {
      failed = !error.stale;
      say("Not saved: " + (error instanceof TypeError ? "the server does not respond; is it still running?" : error.message), "bad");
      throw error;
    } finally {
      unsaved -= 1;
    }
  });
  return saving;
}

const GONE = "The server does not respond. Saved labels are safe: restart maxendnet web label and open the address it prints.";
let messageUntil = 0; // time until which a message is displayed
function say(text, kind = "") {
  const status = get("status");
  status.textContent = text;
  status.className = kind;
  messageUntil = kind === "bad" ? Date.now() + 8000 : Date.now() + 1500;
}

// request the progress and the current activity from the server
async function poll() {
  try {
    const update = await ask("state?version=" + state.version);
    if (failed && !unsaved) save(page.source === "done").catch(() => {}); // the server responds again
    const renewed = update.version !== state.version;
    state = { ...state, ...update };
    if (renewed) {
      fields = state.fields;
      showProgress();
    }
    // the model may have changed since the page was requested
    if (page && !busy && page.version !== state.version) await renew();
    if (Date.now() > messageUntil) {
      const text = state.problem || (state.doing ? state.doing[0].toUpperCase() + state.doing.slice(1) + "…" : "");
      get("status").textContent = text;
      get("status").className = state.problem ? "bad" : state.doing ? "busy" : "";
    }
  } catch (error) {
    if (Date.now() > messageUntil) say(error instanceof TypeError ? GONE : error.message, "bad");
  }
}

// ---- pages ------------------------------------------------------------------------------------------------------

async function open(n, back = false) {
  busy = true;
  try {
    await saving.catch(() => {});
    const answer = await ask("page?n=" + n);
    if (page && !back) visited.push(page.n);
    page = answer;
    labels = page.labels;
    touched = false;
    undo = [];
    anchor = cursor = match = -1;
    get("find").value = get("matches").textContent = "";
    activeRecord = 0;
    picked = false;
    setMode("");
    initConfirmed();
    await draw();
    active = firstEmpty();
    show();
    stage.scrollTop = stage.scrollLeft = 0;
    reveal();
  } catch (error) {
    say(error.message, "bad");
  } finally {
    busy = false;
  }
}

// update suggestions and confidences from a new model, unless the user has changed the page
async function renew() {
  const { n, stamp } = page;
  const update = await ask("page?drawn=0&n=" + n);
  if (!page || page.n !== n) return;
  page.version = update.version;
  page.confidence = update.confidence;
  if (update.stamp !== stamp && page.stamp === stamp && !unsaved) {
    say("This page was changed elsewhere, perhaps in another tab. The current labels are shown.", "bad");
    return open(n, true);
  }
  if (!touched && page.source !== "done" && page.source !== "begun") {
    page.source = update.source;
    page.records = update.records;
    labels = update.labels;
    initConfirmed();
  }
  show();
}

function initConfirmed() {
  const given = page.source === "done" || page.source === "begun";
  confirmed = new Set(given ? labels.map(key).filter((k) => page.source === "done" || !(k in page.confidence)) : []);
}

async function right() {
  if (busy || !page) return;
  if (!labels.length && page.source !== "done" && emptyAsked !== page) {
    emptyAsked = page;
    showRecords();
    say("This page has no labels.", "bad");
    return;
  }
  busy = true;
  try {
    const answer = await save(true);
    page.source = "done";
    if (answer.next === null) {
      confirmed = new Set(labels.map(key));
      show();
      await poll();
      say("All pages are done.");
    } else {
      await open(answer.next);
    }
  } catch (error) { /* reported by save */ } finally {
    busy = false;
  }
}

function isBlocked() {
  if (failed) say("This page is not saved yet. Press Enter to try again.", "bad");
  return failed;
}

async function skip() {
  if (busy || !page || isBlocked()) return;
  const skipped = page.n;
  const answer = await ask("next?but=" + skipped);
  // prefer a page that has not been visited
  const waiting = state.pages.map((p, i) => i).filter((i) => state.pages[i].state !== "done" && i !== skipped && !visited.includes(i));
  const next = answer.next !== null && !visited.includes(answer.next) ? answer.next : waiting.length ? waiting[0] : answer.next;
  if (next !== null && next !== skipped) await open(next);
}

async function back() {
  if (busy || !visited.length || isBlocked()) return;
  await open(visited.pop(), true);
}

// ---- labels -----------------------------------------------------------------------------------------------------

const key = ([spot, name]) => JSON.stringify(spot) + " " + name;
const sameSpot = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function recordOf(spot) {
  const node = firstOf(spot);
  if (!page.records.length) return 0;
  // a record is one or more ranges, each with its first and last node
  return page.records.findIndex((ends) => ends.some((first, k) => k % 2 === 0 && first <= node && node <= ends[k + 1]));
}

const snapshot = () => ({ labels, confirmed, active, activeRecord, anchor, picked, source: page.source });

function restore(before) {
  ({ labels, confirmed, active, activeRecord, anchor, picked } = before);
  page.source = before.source;
}

// "before" is the state that undo restores, "given" the labels that the user has made or confirmed
function change(next, before = snapshot(), given = next.filter((label) => !labels.some((old) => key(old) === key(label)))) {
  undo.push(before);
  confirmed = new Set([...confirmed, ...given.map(key)]);
  labels = next;
  touched = true;
  if (page.source !== "done" || !labels.length) page.source = "begun";
  show();
  save(page.source === "done").catch(() => {});
}

const isSuggested = (label) => !confirmed.has(key(label));
const fieldIsOpen = () => picked || !hasField(active);

// the suggestion that a click confirms: that of the selected field, or any if no field waits for a value
function suggestionAmong(candidates) {
  const suggested = candidates.filter(isSuggested);
  return suggested.find(([, name]) => name === fields[active]) || (fieldIsOpen() ? undefined : suggested[0]);
}

// assign a spot to the selected field; with "extend", add the spot; with "range", assign all texts from the last click
function assign(spot, extend, range) {
  const before = snapshot();
  const suggestion = range ? undefined : suggestionAmong(labels.filter((label) => sameSpot(label[0], spot)));
  if (suggestion) active = fields.indexOf(suggestion[1]);
  const name = fields[active];
  const leaf = leafOf.get(firstOf(spot));
  const here = recordOf(spot);
  activeRecord = Math.max(0, here);
  let spots = [spot];
  if (range && anchor >= 0) {
    spots = [];
    for (let k = Math.min(anchor, leaf); k <= Math.max(anchor, leaf); k++) spots.push(page.leaves[k][0]);
  }
  const has = (list, at) => list.some((label) => sameSpot(label[0], at) && label[1] === name);
  if (!range) anchor = leaf;
  if (!range && !suggestion && has(labels, spot)) {
    change(labels.filter((label) => !(sameSpot(label[0], spot) && label[1] === name)), before);
    return;
  }
  const rest = extend || range ? labels : labels.filter(([at, field]) => field !== name || recordOf(at) !== here);
  const added = spots.filter((at) => !has(rest, at));
  if (suggestion) change(labels, before, [suggestion]);
  else change([...rest, ...added.map((at) => [at, name])], before);
  // continue with the next field without a value
  if (!extend && !range && mode !== "part" && page.records.length < 2) {
    const empty = firstEmpty(active + 1);
    if (!hasField(empty)) {
      active = empty;
      picked = false;
    }
    showRecords();
  }
}

// return the labels with those of the selected field merged into one value, or null if these are not adjacent
function merged() {
  if (!page || shown !== page) return null;
  const ofField = labels.filter(([spot, name]) => name === fields[active] && recordOf(spot) === Math.max(0, activeRecord));
  if (ofField.length < 2) return null;
  const ends = ofField.map(([spot]) => (Array.isArray(spot) ? spot : [spot, 0, spot, [...page.leaves[leafOf.get(spot)][1]].length]));
  ends.sort((a, b) => leafOf.get(a[0]) - leafOf.get(b[0]) || a[1] - b[1]);
  for (let k = 1; k < ends.length; k++) if (leafOf.get(ends[k][0]) - leafOf.get(ends[k - 1][2]) > 1) return null;
  const spot = [ends[0][0], ends[0][1], ends[ends.length - 1][2], ends[ends.length - 1][3]];
  return [...labels.filter((label) => !ofField.includes(label)), [spot, fields[active]]];
}

function merge() {
  const next = merged();
  if (next) change(next);
}

function clear() {
  const name = fields[active];
  const next = labels.filter(([spot, other]) => other !== name || (page.records.length > 1 && recordOf(spot) !== activeRecord));
  if (next.length < labels.length) change(next);
}

function takeBack() {
  if (!undo.length) return;
  restore(undo.pop());
  firstWord = null;
  const untouched = page.source !== "done" && page.source !== "begun";
  if (untouched) touched = false;
  show();
  save(page.source === "done", untouched).catch(() => {});
}

// ---- selection of texts and pictures with the arrow keys ---------------------------------------------------------

// move to another text; with "far", by about one screen
function moveCursor(step, far = false) {
  const here = cursor >= 0 ? boxOf(page.leaves[cursor][0]) : null;
  const from = here ? here.top : stage.scrollTop / scale;
  const least = far ? (0.8 * stage.clientHeight) / scale : 0;
  let last = -1; // last candidate, used if the page ends within one screen
  for (let k = cursor + step; k >= 0 && k < page.leaves.length; k += step) {
    const box = boxOf(page.leaves[k][0]);
    if (!box) continue;
    last = k;
    if ((box.top - from) * step >= least || !far) break;
  }
  if (last >= 0) {
    const box = boxOf(page.leaves[last][0]);
    cursor = last;
    place(hover, box, 3);
    colour(hover, active);
    hover.hidden = false;
    bring(box);
    say(fields[active] + ": " + page.leaves[cursor][1].slice(0, 80));
  }
}

function leaveCursor() {
  cursor = -1;
  hover.hidden = true;
}

const hasField = (f) => labels.some(([, name]) => name === fields[f]);

function firstEmpty(from = 0) {
  for (let j = 0; j < fields.length; j++) {
    const f = (from + j) % fields.length;
    if (!hasField(f)) return f;
  }
  return from < fields.length ? Math.min(from ? from - 1 : 0, fields.length - 1) : fields.length - 1;
}

// ---- mouse and keyboard -----------------------------------------------------------------------------------------

let before = null; // state before a click, in case it is the first click of a double click
let down = null; // where the pointer was pressed: [page node, letter]
let chosen = null; // spot of the current drag
let dragged = false;
let firstWord = null; // word of a double click; Shift double click gives the last word

function showChosen(spot) {
  for (const old of [...overlay.querySelectorAll(".chosen")]) old.remove();
  for (const piece of spot === null ? [] : piecesOf(spot)) {
    for (const r of rects(piece)) {
      const box = document.createElement("div");
      box.className = "chosen";
      place(box, r, 0);
      colour(box, active);
      overlay.appendChild(box);
    }
  }
}

overlay.addEventListener("pointerdown", (event) => {
  dragged = false;
  if (busy || !page || event.button || (event.pointerType === "touch" && mode !== "part")) return; // touch scrolls
  down = { letter: letterAt(event), x: event.clientX, y: event.clientY };
});
overlay.addEventListener("pointerup", () => {
  if (chosen !== null && dragged && !busy) {
    assign(chosen, false, false);
    if (mode === "part") setMode("");
  }
  down = chosen = null;
  showChosen(null);
});
overlay.addEventListener("pointercancel", () => { down = chosen = null; showChosen(null); });

function drag(event) {
  if (!down || !down.letter || !(event.buttons & 1)) return;
  if (!dragged && Math.hypot(event.clientX - down.x, event.clientY - down.y) < 5) return;
  dragged = true;
  const letter = letterAt(event);
  if (!letter) return;
  chosen = spotBetween(down.letter, letter);
  showChosen(chosen);
}

overlay.addEventListener("click", (event) => {
  if (dragged) { dragged = false; return; }
  if (busy || !page || !fields.length || (event.detail > 1 && mode !== "part")) return;
  before = { ...snapshot(), steps: undo.length };
  if (mode === "part") {
    const letter = letterAt(event);
    if (letter) takeWord(letter, event.ctrlKey || event.metaKey, firstWord !== null && firstWord.active === active);
    return;
  }
  const leaf = leafAt(event);
  const range = event.shiftKey || mode === "range";
  const suggestion = leaf < 0 || range ? undefined : suggestionAmong(labelsAt(event));
  if (leaf >= 0) assign(suggestion ? suggestion[0] : page.leaves[leaf][0], event.ctrlKey || event.metaKey || mode === "also", range);
  if (mode === "range") setMode("");
});

// a double click assigns a word; undo the effect of its first click
overlay.addEventListener("dblclick", (event) => {
  const letter = busy || !page || !fields.length || mode === "part" ? null : letterAt(event);
  if (!letter || !before) return;
  restore(before);
  undo.length = before.steps;
  before = null;
  takeWord(letter, event.ctrlKey || event.metaKey, event.shiftKey && firstWord !== null);
});

// assign a word, or all words from the first one to this one
function takeWord(letter, extend, toHere) {
  const spot = spotBetween(toHere ? firstWord : letter, letter);
  if (spot === null) return show();
  if (toHere) active = firstWord.active;
  else firstWord = Object.assign([...letter], { active });
  assign(spot, extend, false);
  if (toHere) firstWord = null;
}

// toggle the effect of the next click; for touch screens, which have neither Ctrl nor Shift
function setMode(next) {
  mode = mode === next ? "" : next;
  firstWord = null;
  for (const name of ["also", "range", "part"]) get(name).setAttribute("aria-pressed", String(mode === name));
  overlay.classList.toggle("part", mode === "part"); // touch then selects instead of scrolling
  get("more").classList.toggle("active", mode !== "");
}
overlay.addEventListener("mousedown", (event) => event.preventDefault()); // do not select text

let moved = null;
overlay.addEventListener("pointermove", (event) => {
  drag(event);
  cursor = -1;
  if (!moved) requestAnimationFrame(() => {
    const leaf = busy ? -1 : leafAt(moved);
    const suggestion = leaf >= 0 ? suggestionAmong(labelsAt(moved)) : undefined;
    moved = null;
    const spot = suggestion ? suggestion[0] : leaf >= 0 ? page.leaves[leaf][0] : null;
    const box = spot !== null && !dragged ? boxOf(spot) : null;
    hover.hidden = !box;
    if (box) {
      const f = suggestion ? fields.indexOf(suggestion[1]) : active;
      place(hover, box, 2);
      colour(hover, f);
      overlay.title = fields[f] + ": " + textOf(spot).slice(0, 100) + (suggestion ? " (click to confirm)" : "");
    }
  });
  moved = event;
});
overlay.addEventListener("pointerleave", () => { hover.hidden = true; });

// ---- find text on the page ----------------------------------------------------------------------------------------

let match = -1; // leaf of the current match

// go to the next match of the text in the search field, or with "step" -1 to the previous one
function find(step = 1) {
  const text = get("find").value.trim().toLowerCase();
  const matches = page && text ? page.leaves.map((leaf, k) => k).filter((k) => page.leaves[k][1].toLowerCase().includes(text) && boxOf(page.leaves[k][0])) : [];
  const later = step > 0 ? matches.find((k) => k > match) : matches.findLast((k) => k < match);
  match = matches.length ? later ?? (step > 0 ? matches[0] : matches[matches.length - 1]) : -1;
  get("matches").textContent = text ? (matches.length ? matches.indexOf(match) + 1 + " of " + matches.length : "not found") : "";
  if (match < 0) return leaveCursor();
  const box = boxOf(page.leaves[match][0]);
  cursor = match;
  place(hover, box, 3);
  colour(hover, active);
  hover.hidden = false;
  bring(box);
}

get("find").addEventListener("input", () => { match = -1; find(); });
get("search").addEventListener("submit", (event) => event.preventDefault());
get("find").addEventListener("keydown", (event) => {
  event.stopPropagation(); // letters and digits are no commands here
  if (event.key === "Enter") find(event.shiftKey ? -1 : 1);
  else if (event.key === "Escape") get("find").blur();
  else return;
  event.preventDefault();
});

document.addEventListener("keydown", (event) => {
  if (!page || busy || event.altKey) return;
  if (event.repeat && (event.key === "d" || event.key === "Enter")) return event.preventDefault(); // ignore repetitions of a held key
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") takeBack();
  else if (event.ctrlKey || event.metaKey) return;
  else if (event.key >= "1" && event.key <= "9" && Number(event.key) <= fields.length) choose(Number(event.key) - 1, activeRecord);
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") moveCursor(event.key === "ArrowDown" ? 1 : -1);
  else if (event.key === "PageDown" || event.key === "PageUp") moveCursor(event.key === "PageDown" ? 1 : -1, true);
  else if (event.key === "Escape" && cursor >= 0) leaveCursor();
  else if (event.key === "Enter" && cursor >= 0) assign(page.leaves[cursor][0], false, event.shiftKey);
  else if (event.key === "+" && cursor >= 0) assign(page.leaves[cursor][0], true, false);
  else if (event.key === "d") right();
  else if (event.key === "Enter" && !(event.target instanceof HTMLElement && event.target.closest("#buttons button:not(.main), summary, #pages, #search"))) right();
  else if (event.key === "Delete" || event.key === "Backspace" || event.key === "0") clear();
  else if (event.key === "ArrowRight") skip();
  else if (event.key === "ArrowLeft") back();
  else if (event.key === "m") merge();
  else if (event.key === "s") togglePlain();
  else if (event.key === "/") get("find").focus();
  else return;
  event.preventDefault();
});

function togglePlain() {
  plain = !plain;
  get("plain").setAttribute("aria-pressed", String(plain));
  styles();
  fit();
}

get("right").addEventListener("click", right);
get("skip").addEventListener("click", skip);
get("back").addEventListener("click", back);
get("undo").addEventListener("click", takeBack);
get("merge").addEventListener("click", merge);
get("none").addEventListener("click", clear);
for (const name of ["also", "range", "part"]) get(name).addEventListener("click", () => setMode(name));
get("plain").addEventListener("click", togglePlain);
get("menu").addEventListener("click", () => { get("more").open = false; });
document.addEventListener("pointerdown", (event) => { if (!get("more").contains(event.target)) get("more").open = false; });
window.addEventListener("resize", later);
window.addEventListener("beforeunload", (event) => { if (unsaved || failed) event.preventDefault(); });

async function begin() {
  await poll();
  const { next } = await ask("next");
  await open(next === null ? 0 : next);
  setInterval(() => { if (!document.hidden) poll(); }, 1000);
}
begin().catch((error) => say(error.message, "bad"));
