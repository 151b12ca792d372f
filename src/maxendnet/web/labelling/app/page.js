"use strict";
// Draws a saved page element by element in a sandboxed frame without scripts. A layer above the frame receives the clicks
// and shows the outlines, so that the saved page itself is not changed.

const NARROWEST = 640; // minimum width in pixels; a narrower window scales the page down
const TALLEST = 4000000; // pixels; browsers are limited to about ten million
const AT_ONCE = 5000; // nodes drawn in one step; the rest of a large page follows in further steps
const TAG_HEIGHT = 16;
const DOT = 10; // size of the dot that replaces a tag without room
const PICTURE = "data:image/svg+xml," + encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 90"><rect width="120" height="90" fill="#eceff3"/>' +
  '<path d="M20 72l26-32 18 20 12-13 24 25z" fill="#c3cad3"/><circle cx="84" cy="28" r="9" fill="#c3cad3"/></svg>');

const get = (id) => document.getElementById(id);
const [stage, room, paper, frame, overlay, marks, hover] =
  ["stage", "room", "paper", "frame", "overlay", "marks", "hover"].map(get);

let scale = 1;
let shown = null; // the page that is displayed, while another may be loading
let complete = null; // the page that is completely drawn
let drawn = new Map(); // page node -> nodes of the frame's document
let leafOf = new Map(); // page node -> leaf
let tagPlaces = new Map(); // label -> positions for its tag, and whether it hides no text there, if that is known
let letters = new Map(); // page node -> position of each character of its text: [node, offset, length]
let rectsOf = new WeakMap(); // node of the frame's document -> its rectangles
const leafOfDrawn = new WeakMap(); // node of the frame's document -> leaf
let textsIn = new WeakMap(); // element of the frame's document -> its own texts that are leaves

function load(address) {
  return new Promise((resolve) => {
    frame.addEventListener("load", resolve, { once: true });
    frame.contentWindow.location.replace(address);
  });
}

async function draw() {
  const path = page.name.split("/").map(encodeURIComponent).join("/");
  shown = complete = null;
  hover.hidden = true;
  marks.replaceChildren();
  await load(BASE + "pages/" + path + (page.frame.quirks ? "?quirks=1" : ""));
  drawn = new Map();
  textsIn = new WeakMap();
  leafOf = new Map();
  page.leaves.forEach(([n], k) => leafOf.set(n, k));
  const domNodes = []; // nodes of the frame's document
  drawNext(domNodes);
  shown = page;
  styles();
  fit();
  drawRest(domNodes);
}

// draw the next nodes of the page
function drawNext(domNodes) {
  const doc = frame.contentDocument;
  const all = doc.createDocumentFragment(); // all nodes are inserted in one step
  for (const [tag, parent, content, number] of page.frame.nodes.slice(domNodes.length, domNodes.length + AT_ONCE)) {
    let node;
    if (tag === "#") {
      node = doc.createTextNode(content);
    } else {
      node = domNodes.length ? doc.createElement(tag) : doc.body;
      for (const [name, value] of Object.entries(content)) {
        if (name === "src" && !value) lacking(node, content);
        else node.setAttribute(name, value);
      }
      if (tag === "img") node.addEventListener("load", later);
    }
    if (domNodes.length) (parent ? domNodes[parent] : all).appendChild(node);
    domNodes.push(node);
    if (leafOf.has(number)) {
      drawn.set(number, [...(drawn.get(number) || []), node]);
      leafOfDrawn.set(node, leafOf.get(number));
      if (tag === "#") {
        const element = domNodes[parent] || doc.body;
        if (!textsIn.has(element)) textsIn.set(element, []);
        textsIn.get(element).push(node);
      }
    }
  }
  doc.body.appendChild(all);
  letters = new Map();
}

// draw the rest of a large page while the user already works at its beginning
async function drawRest(domNodes) {
  const about = page;
  while (domNodes.length < about.frame.nodes.length) {
    await new Promise((resolve) => { requestAnimationFrame(() => setTimeout(resolve, 0)); setTimeout(resolve, 200); });
    if (shown !== about) return; // another page has been opened
    drawNext(domNodes);
    grow();
  }
  complete = about;
  if (domNodes.length <= AT_ONCE) return;
  fit();
  if (!touched && !stage.scrollTop) reveal();
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
  if (!shown || shown !== page) return;
  measure();
  outline();
}

// resize the frame to its page
function measure() {
  tagPlaces = new Map();
  const width = Math.max(stage.clientWidth, NARROWEST);
  scale = stage.clientWidth / width;
  frame.style.width = width + "px";
  frame.style.height = stage.clientHeight / scale + "px"; // first the height of the window, for pages with viewport units
  grow();
}

// enlarge the frame if its page has grown
function grow() {
  const doc = frame.contentDocument;
  const height = Math.min(TALLEST, Math.max(doc.documentElement.scrollHeight, doc.body.scrollHeight, stage.clientHeight / scale));
  const wide = Math.min(4000, Math.max(stage.clientWidth / scale, doc.documentElement.scrollWidth));
  frame.style.height = height + "px";
  frame.style.width = wide + "px";
  rectsOf = new WeakMap();
  paper.style.transform = "scale(" + scale + ")";
  room.style.height = height * scale + "px";
  room.style.width = wide * scale + "px";
}

let waiting = 0;
function later() {
  clearTimeout(waiting);
  waiting = setTimeout(fit, 120);
}

// ---- spots: a page node, or [first node, first letter, last node, letter after the last] ------------------------------

const firstOf = (spot) => (Array.isArray(spot) ? spot[0] : spot);

// collapse white space as the server does, so that letters have the same indices
function lettersOf(number) {
  if (letters.has(number)) return letters.get(number);
  const positions = [];
  let blank = true;
  for (const node of drawn.get(number) || []) {
    if (node.nodeType !== 3) continue;
    let at = 0;
    for (const letter of node.data) {
      const space = /[\s\u200b\ufeff]/u.test(letter);
      // eslint-disable-next-line no-control-regex
      if (!(space && blank) && !/[\x00-\x08\x0e-\x1f\ufffe\uffff]/u.test(letter)) positions.push([node, at, letter.length]);
      blank = space;
      at += letter.length;
    }
  }
  letters.set(number, positions);
  return positions;
}

// return the DOM ranges of a spot, or the DOM nodes if it is a whole page node
function piecesOf(spot) {
  if (!Array.isArray(spot)) return drawn.get(spot) || [];
  const [first, begin, last, end] = spot;
  const out = [];
  for (let k = leafOf.get(first); k <= leafOf.get(last); k++) {
    const number = page.leaves[k][0];
    const positions = lettersOf(number);
    const from = number === first ? begin : 0;
    const to = Math.min(number === last ? end : positions.length, positions.length);
    if (from >= to) continue;
    for (const node of new Set(positions.slice(from, to).map(([n]) => n))) {
      const inNode = positions.slice(from, to).filter(([n]) => n === node);
      const [, lastOffset, lastLength] = inNode[inNode.length - 1];
      const range = frame.contentDocument.createRange();
      range.setStart(node, inNode[0][1]);
      range.setEnd(node, Math.min(node.length, lastOffset + lastLength));
      out.push(range);
    }
  }
  return out;
}

// return the text of a spot as displayed
function textOf(spot) {
  if (!Array.isArray(spot)) return page.leaves[leafOf.get(spot)][1];
  const [first, begin, last, end] = spot;
  let text = "";
  for (let k = leafOf.get(first); k <= leafOf.get(last); k++) {
    const [number, whole, before] = page.leaves[k];
    const all = [...whole];
    text += (text ? before : "") + all.slice(number === first ? begin : 0, number === last ? end : all.length).join("");
  }
  return text.replace(/\s+/g, " ").trim();
}

// return the spot from one letter to another, extended to whole words
function spotBetween(a, b) {
  const [[n1, from], [n2, to]] = leafOf.get(a[0]) < leafOf.get(b[0]) || (a[0] === b[0] && a[1] <= b[1]) ? [a, b] : [b, a];
  const start = wordsOf(n1).find(([, e]) => e > from);
  const stop = [...wordsOf(n2)].reverse().find(([s]) => s <= to);
  if (!start || !stop || (n1 === n2 && start[0] >= stop[1])) return null;
  const spot = [n1, start[0], n2, stop[1]];
  return n1 === n2 && spot[1] === 0 && spot[3] === [...page.leaves[leafOf.get(n1)][1]].length ? n1 : spot;
}

// return the start and end of each word, number and sign of a text, as on the server
function wordsOf(number) {
  const text = page.leaves[leafOf.get(number)][1];
  const out = [];
  let letter = 0;
  let at = 0;
  for (const word of text.matchAll(/\p{L}+|\p{Nd}+|[^\s]/gu)) {
    letter += [...text.slice(at, word.index)].length;
    const length = [...word[0]].length;
    out.push([letter, letter + length]);
    letter += length;
    at = word.index + word[0].length;
  }
  return out;
}

// return the letter at a point of the window as [page node, index of the letter], or null
function letterAt(event) {
  if (!shown || shown !== page) return null;
  const corner = frame.getBoundingClientRect();
  const x = (event.clientX - corner.left) / scale;
  const y = (event.clientY - corner.top) / scale;
  const range = frame.contentDocument.caretRangeFromPoint
    ? frame.contentDocument.caretRangeFromPoint(x, y)
    : frame.contentDocument.caretPositionFromPoint(x, y);
  const node = range && (range.startContainer || range.offsetNode);
  const leaf = node && node.nodeType === 3 ? leafOfDrawn.get(node) : undefined;
  if (leaf === undefined) return null;
  const offset = range.startContainer ? range.startOffset : range.offset;
  const positions = lettersOf(page.leaves[leaf][0]);
  let letter = positions.findIndex(([n, at, length]) => n === node && at + length > offset);
  if (letter < 0) letter = positions.length - 1;
  // the caret may be before or after the letter under the pointer
  if (letter > 0 && positions[letter - 1][0] === node && !inside(rectOf(positions[letter]), x, y, 1) && inside(rectOf(positions[letter - 1]), x, y, 1)) letter -= 1;
  return letter < 0 ? null : [page.leaves[leaf][0], letter];
}

function rectOf([node, at, length]) {
  const range = frame.contentDocument.createRange();
  range.setStart(node, at);
  range.setEnd(node, Math.min(node.length, at + length));
  return range.getBoundingClientRect();
}

// return the bounding box of a spot in the frame, or null
function boxOf(spot) {
  let box = null;
  for (const piece of piecesOf(spot)) {
    for (const r of rects(piece)) {
      if (r.width < 1 || r.height < 1) continue;
      box = box ? { left: Math.min(box.left, r.left), top: Math.min(box.top, r.top),
                    right: Math.max(box.right, r.right), bottom: Math.max(box.bottom, r.bottom) } : r;
    }
  }
  return box;
}

function rects(node) {
  if (node.startContainer) return node.getClientRects(); // a range
  if (node.nodeType === 1) return [node.getBoundingClientRect()];
  const range = frame.contentDocument.createRange();
  range.selectNodeContents(node);
  return range.getClientRects();
}

// return the rectangles of a node, which are kept until the page is laid out again
function placedRects(node) {
  if (!rectsOf.has(node)) rectsOf.set(node, [...rects(node)]);
  return rectsOf.get(node);
}

function outline() {
  marks.replaceChildren();
  if (shown !== page) return;
  const boxes = labels.map(([spot]) => boxOf(spot));
  const taken = boxes.filter(Boolean).map((box) => grown(box, 2));
  labels.forEach((label, k) => {
    const box = boxes[k];
    if (!box) return;
    const mark = make("div", "mark" + (confirmed.has(key(label)) ? " confirmed" : ""));
    place(mark, box, 3);
    colour(mark, fields.indexOf(label[1]));
    const spot = tagPlace(label, box, taken);
    if (spot) {
      taken.push(spot);
      const tag = make("span", spot.dot ? "dot" : "", spot.dot ? "" : label[1]);
      tag.title = label[1];
      tag.style.left = spot.left - box.left + 1 + "px"; // relative to the inner side of the border
      tag.style.top = spot.top - box.top + 1 + "px";
      tag.style.width = spot.right - spot.left + "px";
      mark.appendChild(tag);
    }
    marks.appendChild(mark);
  });
}

const grown = (box, pad) => ({ left: box.left - pad, top: box.top - pad, right: box.right + pad, bottom: box.bottom + pad });
const pen = document.createElement("canvas").getContext("2d");

// return a position for the tag of a label, above, beside or below its box, that hides neither text nor another box.
// Without room for the name, the tag is a dot; without room for a dot, the result is null
function tagPlace(label, box, taken) {
  const id = key(label);
  if (!tagPlaces.has(id)) tagPlaces.set(id, placesAround(label[1], box));
  return tagPlaces.get(id).find((spot) => {
    if (taken.some((other) => overlap(other, spot))) return false;
    if (spot.free === undefined) spot.free = !hidesText(spot); // slow on large pages, so only where it matters
    return spot.free;
  }) || null;
}

function placesAround(name, box) {
  pen.font = '600 11px system-ui, "DejaVu Sans", sans-serif';
  const out = [];
  const { left, top, right, bottom } = grown(box, 3);
  for (const [long, high, dot] of [[Math.ceil(pen.measureText(name).width) + 12, TAG_HEIGHT, false], [DOT, DOT, true]]) {
    const places = [[left, top - high], [right - long, top - high], [right, Math.max(0, top)], [left - long, Math.max(0, top)], [left, bottom], [right - long, bottom]];
    for (const [x, y] of places) {
      const spot = { left: x, top: y, right: x + long, bottom: y + high, dot };
      if (x >= 0 && y >= 0 && spot.right <= frame.clientWidth && spot.bottom <= frame.clientHeight) out.push(spot);
    }
  }
  return out;
}

function hidesText({ left, top, right, bottom }) {
  for (let y = top + 1; y < bottom + 4; y += 5) {
    for (let x = left + 1; x < right + 4; x += 5) {
      if (leafUnder(Math.min(x, right - 1), Math.min(y, bottom - 1), 1) >= 0) return true;
    }
  }
  return false;
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

// return the leaf exactly at a point of the frame, or -1
function leafUnder(x, y, pad) {
  const doc = frame.contentDocument;
  for (const element of doc.elementsFromPoint(x, y)) {
    for (const node of [element, ...(textsIn.get(element) || [])]) {
      const leaf = leafOfDrawn.get(node);
      if (leaf !== undefined && placedRects(node).some((r) => inside(r, x, y, pad))) return leaf;
    }
  }
  return -1;
}

// return the labels at a point of the window
function labelsAt(event) {
  const corner = frame.getBoundingClientRect();
  const x = (event.clientX - corner.left) / scale;
  const y = (event.clientY - corner.top) / scale;
  return labels.filter(([spot]) => piecesOf(spot).some((piece) => [...rects(piece)].some((r) => inside(r, x, y, 2))));
}

// return the leaf at or near a point of the window, or -1
function leafAt(event) {
  if (!shown || shown !== page) return -1;
  const corner = frame.getBoundingClientRect();
  const x = (event.clientX - corner.left) / scale;
  const y = (event.clientY - corner.top) / scale;
  const exact = leafUnder(x, y, 2);
  if (exact >= 0) return exact;
  // the point is next to a text, within its element: return the nearest leaf
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

// scroll to the first label of a field
function reveal(f = -1) {
  const label = labels.find(([, name]) => f < 0 || name === fields[f]);
  const box = label && boxOf(label[0]);
  if (box) bring(box);
}

// scroll as little as possible to show a box
function bring(box) {
  const [top, bottom, left, right] = [box.top, box.bottom, box.left, box.right].map((x) => x * scale);
  if (top < stage.scrollTop + 20 || bottom > stage.scrollTop + stage.clientHeight - 20) {
    stage.scrollTop = Math.max(0, top - stage.clientHeight / 3);
  }
  if (right > stage.scrollLeft + stage.clientWidth - 20) stage.scrollLeft = right - stage.clientWidth + 20;
  if (left < stage.scrollLeft + 20) stage.scrollLeft = Math.max(0, left - 40);
}
