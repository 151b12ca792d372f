"use strict";
// The page to work on. The saved page is drawn, element by element, in a frame where nothing runs; a layer above the
// frame takes the clicks and shows the outlines, so that the saved page is neither changed nor asked.

const BASE = location.pathname; // "/secret/"
const TOKEN = BASE.split("/")[1];
const NARROWEST = 640; // a saved page is drawn at least that wide, and made smaller to fit
const TALLEST = 150000;
const PICTURE = "data:image/svg+xml," + encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 90"><rect width="120" height="90" fill="#eceff3"/>' +
  '<path d="M20 72l26-32 18 20 12-13 24 25z" fill="#c3cad3"/><circle cx="84" cy="28" r="9" fill="#c3cad3"/></svg>');

const get = (id) => document.getElementById(id);
const [stage, room, paper, frame, overlay, marks, hover] =
  ["stage", "room", "paper", "frame", "overlay", "marks", "hover"].map(get);

let fields = [];
let state = { version: -1, pages: [], done: 0, total: 0 };
let page = null; // what the server says of the page that is shown
let labels = []; // [node, field]; node is the first of a leaf
let own = new Set(); // labels that a person has given
let touched = false; // whether the person has changed something on this page
let undo = [];
let active = 0; // field
let activeRecord = 0;
let anchor = -1; // leaf of the last click
let visited = [];
let busy = false;
let plain = false;
let scale = 1;
let drawn = new Map(); // page node -> nodes of the frame's document
let leafOf = new Map(); // page node -> leaf
const leafOfDrawn = new WeakMap(); // node of the frame's document -> leaf
let unsaved = 0;

// ---- talking with the server ------------------------------------------------------------------------------------

async function ask(path) {
  const answer = await fetch(BASE + "api/" + path, { credentials: "omit" });
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error || answer.statusText);
  return value;
}

let saving = Promise.resolve();
function save(done) {
  const body = JSON.stringify({ n: page.n, sha: page.sha, labels, done });
  unsaved += 1;
  saving = saving.catch(() => {}).then(async () => {
    try {
      const answer = await fetch(BASE + "api/save", {
        method: "POST", credentials: "omit", body,
        headers: { "Content-Type": "application/json", "X-Maxendnet-Token": TOKEN },
      });
      const value = await answer.json();
      if (!answer.ok) throw new Error(value.error || answer.statusText);
      say("Saved");
      return value;
    } catch (error) {
      say("Not saved: " + (error instanceof TypeError ? "the server does not answer; is it still running?" : error.message), "bad");
      throw error;
    } finally {
      unsaved -= 1;
    }
  });
  return saving;
}

let said = 0;
function say(text, kind = "") {
  const status = get("status");
  status.textContent = text;
  status.className = kind;
  said = kind === "bad" ? Date.now() + 8000 : Date.now() + 1500;
}

async function look() {
  try {
    const found = await ask("state?version=" + state.version);
    const renewed = found.version !== state.version;
    state = { ...state, ...found };
    if (renewed) {
      fields = state.fields;
      showProgress();
    }
    // a page may have been asked for just before a model was ready, and answered just after the state
    if (page && !busy && page.version !== state.version) await renew();
    if (Date.now() > said) {
      const text = state.problem || (state.doing ? state.doing[0].toUpperCase() + state.doing.slice(1) + "…" : "");
      get("status").textContent = text;
      get("status").className = state.problem ? "bad" : state.doing ? "busy" : "";
    }
  } catch (error) {
    if (Date.now() > said) say("The server does not answer; what was saved is safe.", "bad");
  }
}

// ---- pages ------------------------------------------------------------------------------------------------------

async function open(n, back = false) {
  busy = true;
  try {
    await saving.catch(() => {});
    const found = await ask("page?n=" + n);
    if (page && !back) visited.push(page.n);
    page = found;
    labels = page.labels;
    touched = false;
    undo = [];
    anchor = -1;
    activeRecord = 0;
    takeOwn();
    await draw();
    active = firstEmpty();
    show();
    stage.scrollTop = 0;
    reveal();
  } catch (error) {
    say(error.message, "bad");
  } finally {
    busy = false;
  }
}

// suggestions and confidences of a newer model, for a page that the person has not touched
async function renew() {
  const n = page.n;
  const found = await ask("page?drawn=0&n=" + n);
  if (!page || page.n !== n) return;
  page.version = found.version;
  page.confidence = found.confidence;
  if (!touched && page.source !== "done" && page.source !== "begun") {
    page.source = found.source;
    page.records = found.records;
    labels = found.labels;
    takeOwn();
  }
  show();
}

function takeOwn() {
  const given = page.source === "done" || page.source === "begun";
  own = new Set(given ? labels.map(key).filter((k) => page.source === "done" || !(k in page.confidence)) : []);
}

async function right() {
  if (busy || !page) return;
  busy = true;
  try {
    const answer = await save(true);
    page.source = "done";
    if (answer.next === null) {
      own = new Set(labels.map(key));
      show();
      await look();
      say("All pages are done.");
    } else {
      await open(answer.next);
    }
  } catch (error) { /* said by save */ } finally {
    busy = false;
  }
}

async function skip() {
  if (busy || !page) return;
  const seen = page.n;
  const found = await ask("next?but=" + seen);
  // what was skipped is not asked for again at once: take the next waiting page after it
  const waiting = state.pages.map((p, i) => i).filter((i) => state.pages[i].state !== "done" && i !== seen && !visited.includes(i));
  const next = found.next !== null && !visited.includes(found.next) ? found.next : waiting.length ? waiting[0] : found.next;
  if (next !== null && next !== seen) await open(next);
}

async function back() {
  if (busy || !visited.length) return;
  await open(visited.pop(), true);
}

// ---- drawing the saved page -------------------------------------------------------------------------------------

function load(address) {
  return new Promise((resolve) => {
    frame.addEventListener("load", resolve, { once: true });
    frame.contentWindow.location.replace(address);
  });
}

async function draw() {
  const path = page.name.split("/").map(encodeURIComponent).join("/");
  hover.hidden = true;
  marks.replaceChildren();
  await load(BASE + "pages/" + path + (page.frame.quirks ? "?quirks=1" : ""));
  const doc = frame.contentDocument;
  const made = [];
  drawn = new Map();
  leafOf = new Map();
  page.leaves.forEach(([nodes], k) => nodes.forEach((n) => leafOf.set(n, k)));
  const body = doc.body;
  for (const [tag, parent, content, number] of page.frame.nodes) {
    let node;
    if (tag === "#") {
      node = doc.createTextNode(content);
    } else {
      node = made.length ? doc.createElement(tag) : body;
      for (const [name, value] of Object.entries(content)) {
        if (name === "src" && !value) lacking(node, content);
        else node.setAttribute(name, value);
      }
    }
    if (made.length) made[parent].appendChild(node);
    made.push(node);
    if (leafOf.has(number)) {
      drawn.set(number, [...(drawn.get(number) || []), node]);
      leafOfDrawn.set(node, leafOf.get(number));
    }
  }
  styles();
  for (const image of doc.images) image.addEventListener("load", later);
  fit();
}

function lacking(image, given) {
  image.setAttribute("src", PICTURE);
  if (!given.width && !given.height) image.setAttribute("width", "120");
}

function styles() {
  const doc = frame.contentDocument;
  for (const old of [...doc.head.querySelectorAll("style")]) old.remove();
  for (const css of plain ? [] : page.frame.styles) {
    const style = doc.createElement("style");
    style.textContent = css;
    doc.head.appendChild(style);
  }
}

function fit() {
  if (!page || !frame.contentDocument || !frame.contentDocument.body) return;
  const width = Math.max(stage.clientWidth, NARROWEST);
  scale = stage.clientWidth / width;
  frame.style.width = width + "px";
  frame.style.height = stage.clientHeight / scale + "px"; // first as high as a window, for pages that measure by it
  const doc = frame.contentDocument;
  const height = Math.min(TALLEST, Math.max(doc.documentElement.scrollHeight, doc.body.scrollHeight, stage.clientHeight / scale));
  const wide = Math.min(4000, Math.max(width, doc.documentElement.scrollWidth));
  frame.style.height = height + "px";
  frame.style.width = wide + "px";
  paper.style.transform = "scale(" + scale + ")";
  room.style.height = height * scale + "px";
  room.style.width = wide * scale + "px";
  outline();
}

let waiting = 0;
function later() {
  clearTimeout(waiting);
  waiting = setTimeout(fit, 120);
}

// where a leaf is in the frame, as a box; null when it is not drawn
function boxOf(leaf) {
  let box = null;
  for (const number of page.leaves[leaf][0]) {
    for (const node of drawn.get(number) || []) {
      for (const r of rects(node)) {
        if (r.width < 1 || r.height < 1) continue;
        box = box ? { left: Math.min(box.left, r.left), top: Math.min(box.top, r.top),
                      right: Math.max(box.right, r.right), bottom: Math.max(box.bottom, r.bottom) } : r;
      }
    }
  }
  return box;
}

function rects(node) {
  if (node.nodeType === 1) return [node.getBoundingClientRect()];
  const range = frame.contentDocument.createRange();
  range.selectNodeContents(node);
  return range.getClientRects();
}

function outline() {
  marks.replaceChildren();
  const boxes = labels.map(([node]) => boxOf(leafOf.get(node)));
  labels.forEach((label, k) => {
    const name = label[1];
    const box = boxes[k];
    if (!box) return;
    // the name stands above its box, or beside it where it would hide something
    const long = 8 + 8 * name.length;
    const above = { left: box.left, right: box.left + long, top: box.top - 22, bottom: box.top - 3 };
    const hides = (x, y) => [0.1, 0.5, 0.9].some((share) => leafUnder(x + share * long, y, 0) >= 0);
    const beside = above.top < 0 || boxes.some((b, j) => j !== k && b && overlap(b, above)) ||
      (hides(box.left, box.top - 12) && !hides(box.right + 4, box.top + 6));
    const mark = document.createElement("div");
    mark.className = "mark" + (own.has(key(label)) ? " own" : "") + (beside ? " beside" : "");
    place(mark, box, 3);
    colour(mark, fields.indexOf(name));
    const tag = document.createElement("span");
    tag.textContent = name;
    mark.appendChild(tag);
    marks.appendChild(mark);
  });
}

const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

function place(element, box, pad) {
  element.style.left = box.left - pad + "px";
  element.style.top = box.top - pad + "px";
  element.style.width = box.right - box.left + 2 * pad + "px";
  element.style.height = box.bottom - box.top + 2 * pad + "px";
}

function colour(element, f) {
  element.style.setProperty("--colour", "var(--f" + (f % 9) + ")");
}

// the leaf at a point of the frame, exactly there, or -1
function leafUnder(x, y, pad) {
  for (const element of frame.contentDocument.elementsFromPoint(x, y)) {
    for (const node of [element, ...element.childNodes]) {
      const leaf = leafOfDrawn.get(node);
      if (leaf !== undefined && [...rects(node)].some((r) => inside(r, x, y, pad))) return leaf;
    }
  }
  return -1;
}

// the leaf at a point of the window, or near it, or -1
function leafAt(event) {
  if (!page || !frame.contentDocument) return -1;
  const corner = frame.getBoundingClientRect();
  const x = (event.clientX - corner.left) / scale;
  const y = (event.clientY - corner.top) / scale;
  const exact = leafUnder(x, y, 2);
  if (exact >= 0) return exact;
  // beside a text, in its box: the nearest of the few that are there
  const doc = frame.contentDocument;
  const top = doc.elementsFromPoint(x, y).find((element) => element !== doc.body && element !== doc.documentElement);
  if (!top) return -1;
  let best = -1;
  let least = 40;
  const walk = doc.createTreeWalker(top, 5); // elements and texts
  for (let node = walk.currentNode, n = 0; node && n < 60; node = walk.nextNode(), n++) {
    const leaf = leafOfDrawn.get(node);
    if (leaf === undefined) continue;
    for (const r of rects(node)) {
      const far = Math.hypot(Math.max(r.left - x, 0, x - r.right), Math.max(r.top - y, 0, y - r.bottom));
      if (far < least) [best, least] = [leaf, far];
    }
  }
  return best;
}

function inside(r, x, y, pad) {
  return x >= r.left - pad && x <= r.right + pad && y >= r.top - pad && y <= r.bottom + pad;
}

// bring the first label of a field into view, if it is not
function reveal(f = -1) {
  const found = labels.find(([, name]) => f < 0 || name === fields[f]);
  const box = found && boxOf(leafOf.get(found[0]));
  if (!box) return;
  const top = box.top * scale;
  if (top < stage.scrollTop + 20 || box.bottom * scale > stage.scrollTop + stage.clientHeight - 20) {
    stage.scrollTop = Math.max(0, top - stage.clientHeight / 3);
  }
}

// ---- labels -----------------------------------------------------------------------------------------------------

const key = ([node, name]) => node + " " + name;

function recordOf(node) {
  if (!page.records.length) return 0;
  return page.records.findIndex(([first, last]) => first <= node && node <= last);
}

function change(next) {
  undo.push([labels, own]);
  own = new Set([...own, ...next.map(key).filter((k) => !labels.some((label) => key(label) === k))]);
  labels = next;
  touched = true;
  if (page.source !== "done") page.source = "begun";
  show();
  save(page.source === "done").catch(() => {});
}

function assign(leaf, extend, range) {
  const name = fields[active];
  const first = page.leaves[leaf][0][0];
  const here = recordOf(first);
  activeRecord = Math.max(0, here);
  let leaves = [leaf];
  if (range && anchor >= 0) {
    leaves = [];
    for (let k = Math.min(anchor, leaf); k <= Math.max(anchor, leaf); k++) leaves.push(k);
  }
  const nodes = leaves.map((k) => page.leaves[k][0][0]);
  const has = (node) => labels.some((label) => label[0] === node && label[1] === name);
  if (!range && has(first)) {
    anchor = leaf;
    change(labels.filter((label) => !(label[0] === first && label[1] === name)));
    return;
  }
  const kept = extend || range ? labels : labels.filter(([node, other]) => other !== name || recordOf(node) !== here);
  const added = nodes.filter((node) => !kept.some((label) => label[0] === node && label[1] === name));
  if (!range) anchor = leaf;
  change([...kept, ...added.map((node) => [node, name])]);
  // go on to the next field that has nothing yet
  if (!extend && !range && page.records.length < 2) {
    const empty = firstEmpty(active + 1);
    if (!hasField(empty)) active = empty;
    showRecords();
  }
}

function clear() {
  const name = fields[active];
  const next = labels.filter(([node, other]) => other !== name || (page.records.length > 1 && recordOf(node) !== activeRecord));
  if (next.length < labels.length) change(next);
}

function takeBack() {
  if (!undo.length) return;
  [labels, own] = undo.pop();
  show();
  save(page.source === "done").catch(() => {});
}

const hasField = (f) => labels.some(([, name]) => name === fields[f]);

function firstEmpty(from = 0) {
  for (let j = 0; j < fields.length; j++) {
    const f = (from + j) % fields.length;
    if (!hasField(f)) return f;
  }
  return from < fields.length ? Math.min(from ? from - 1 : 0, fields.length - 1) : fields.length - 1;
}

// ---- the panel --------------------------------------------------------------------------------------------------

function make(tag, name = "", text = "") {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text) element.textContent = text;
  return element;
}

function show() {
  const slash = page.name.lastIndexOf("/");
  get("name").textContent = page.name.slice(slash + 1);
  get("name").title = page.title;
  get("site").textContent = page.site;
  document.title = page.name + " – label";
  const problems = [...page.frame.notes, ...page.problems].slice(0, 5);
  get("problems").replaceChildren(...problems.map((text) => make("li", "", text)));
  get("back").disabled = !visited.length;
  get("undo").disabled = !undo.length;
  showRecords();
  outline();
  showCurrent();
}

function showRecords() {
  const ask = get("ask");
  ask.replaceChildren();
  const word = make("b", "", fields[active] || "");
  colour(word, active);
  if (page.source === "done") ask.append("Done. Change it if it is wrong.");
  else if (!hasField(active)) ask.append("Click ", word, page.source === "nothing" ? " on the page." : " on the page, if it is there.");
  else if (page.source === "model") ask.append("Is this right? If not, choose a field and click.");
  else ask.append("All fields are there. Press Enter.");
  get("records").replaceChildren(page.records.length > 1 ? recordTable() : recordRows());
}

function choose(f, record = 0) {
  active = f;
  activeRecord = record;
  showRecords();
  reveal(f);
}

function valuesOf(f, record) {
  const found = labels.filter(([node, name]) => name === fields[f] && (record === null || recordOf(node) === record));
  return found.map((label) => ({ label, text: page.leaves[leafOf.get(label[0])][1] }));
}

function sureness(values) {
  const sure = make("span", "sure");
  const known = values.filter(({ label }) => !own.has(key(label)) && key(label) in page.confidence);
  if (!values.length) return sure;
  if (known.length) {
    const least = Math.min(...known.map(({ label }) => page.confidence[key(label)]));
    sure.textContent = Math.round(100 * least) + " %";
    sure.classList.add(least >= 0.8 ? "good" : least >= 0.5 ? "fair" : "poor");
    sure.title = "How sure the model is";
  } else {
    sure.textContent = "yours";
    sure.classList.add("own-word");
  }
  return sure;
}

function valueText(values) {
  if (!values.length) return make("span", "value none", "not found");
  const texts = values.map(({ text }) => text);
  return make("span", "value", texts.length > 1 ? texts.length + " × " + texts.join(" · ") : texts[0]);
}

function recordRows() {
  const list = make("ul", "rows");
  fields.forEach((name, f) => {
    const values = valuesOf(f, null);
    const row = make("button", "row");
    row.setAttribute("aria-pressed", String(f === active));
    colour(row, f);
    const what = make("span");
    what.append(make("div", "field", name), valueText(values));
    row.append(make("span", "chip", f < 9 ? String(f + 1) : "·"), what, sureness(values));
    row.addEventListener("click", () => choose(f));
    const item = make("li");
    item.append(row);
    list.append(item);
  });
  return list;
}

function recordTable() {
  const box = make("div", "table");
  const table = make("table");
  const head = make("tr");
  fields.forEach((name, f) => {
    const button = make("button", "", (f < 9 ? f + 1 + " " : "") + name);
    button.setAttribute("aria-pressed", String(f === active));
    colour(button, f);
    button.addEventListener("click", () => choose(f, activeRecord));
    const cell = make("th");
    cell.append(button);
    head.append(cell);
  });
  table.append(head);
  page.records.forEach((_, r) => {
    const line = make("tr");
    fields.forEach((name, f) => {
      const values = valuesOf(f, r);
      const button = make("button");
      button.setAttribute("aria-pressed", String(f === active && r === activeRecord));
      button.append(valueText(values), sureness(values));
      button.addEventListener("click", () => {
        choose(f, r);
        const box = values.length && boxOf(leafOf.get(values[0].label[0]));
        if (box) stage.scrollTop = Math.max(0, box.top * scale - stage.clientHeight / 3);
      });
      const cell = make("td");
      cell.append(button);
      line.append(cell);
    });
    table.append(line);
  });
  box.append(table);
  return box;
}

function showProgress() {
  const { done, total, certain } = state;
  const share = total ? done / total : 0;
  get("bar-done").style.width = 100 * share + "%";
  get("bar-certain").style.width = state.has_model ? 100 * (1 - share) * certain + "%" : "0";
  get("bar-done").parentElement.setAttribute("aria-valuemax", total);
  get("bar-done").parentElement.setAttribute("aria-valuenow", done);
  const rest = state.has_model && done < total ? " · " + Math.round(100 * certain) + " % of the rest certain" : "";
  get("counts").textContent = done + " of " + total + " pages done" + rest;
  const list = get("pages");
  const at = list.scrollTop;
  list.replaceChildren(...state.pages.map((p, n) => {
    const button = make("button", p.state);
    const sure = p.state === "done" ? "done" : state.has_model ? Math.round(100 * p.confidence) + " %" : "";
    button.append(make("i"), make("span", "", p.name), make("small", "", sure));
    button.addEventListener("click", () => { if (!busy) open(n); });
    const item = make("li");
    item.append(button);
    return item;
  }));
  list.scrollTop = at;
  showCurrent();
}

function showCurrent() {
  [...get("pages").querySelectorAll("button")].forEach((button, n) => {
    if (page && n === page.n) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  });
}

// ---- clicks and keys --------------------------------------------------------------------------------------------

overlay.addEventListener("click", (event) => {
  if (busy || !page || !fields.length) return;
  const leaf = leafAt(event);
  if (leaf >= 0) assign(leaf, event.ctrlKey || event.metaKey, event.shiftKey);
});
overlay.addEventListener("mousedown", (event) => { if (event.shiftKey) event.preventDefault(); }); // selects no text

let moved = null;
overlay.addEventListener("pointermove", (event) => {
  if (!moved) requestAnimationFrame(() => {
    const leaf = busy ? -1 : leafAt(moved);
    moved = null;
    const box = leaf >= 0 ? boxOf(leaf) : null;
    hover.hidden = !box;
    if (box) {
      place(hover, box, 2);
      colour(hover, active);
      overlay.title = fields[active] + ": " + page.leaves[leaf][1].slice(0, 100);
    }
  });
  moved = event;
});
overlay.addEventListener("pointerleave", () => { hover.hidden = true; });

document.addEventListener("keydown", (event) => {
  if (!page || event.altKey) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") takeBack();
  else if (event.ctrlKey || event.metaKey) return;
  else if (event.key >= "1" && event.key <= "9" && Number(event.key) <= fields.length) choose(Number(event.key) - 1, activeRecord);
  else if (event.key === "Enter" && !(event.target instanceof HTMLElement && event.target.closest("#buttons button:not(.main), summary, #pages"))) right();
  else if (event.key === "Delete" || event.key === "Backspace" || event.key === "0") clear();
  else if (event.key === "ArrowRight") skip();
  else if (event.key === "ArrowLeft") back();
  else if (event.key === "s") togglePlain();
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
get("plain").addEventListener("click", togglePlain);
window.addEventListener("resize", later);
window.addEventListener("beforeunload", (event) => { if (unsaved) event.preventDefault(); });

async function begin() {
  await look();
  const { next } = await ask("next");
  await open(next === null ? 0 : next);
  setInterval(() => { if (!document.hidden) look(); }, 1000);
}
begin().catch((error) => say(error.message, "bad"));
