"use strict";
// Panel on the right: the record or table of records of the current page, progress, and the list of pages.

function make(tag, name = "", text = "") {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text) element.textContent = text;
  return element;
}

let wasListing = false;
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
  get("merge").disabled = !merged();
  get("none").disabled = !hasField(active);
  const listing = page.records.length > 1 && fields.length > 2; // show a table, for which the panel is widened
  const changed = document.querySelector("main").classList.toggle("listing", listing) !== wasListing;
  wasListing = listing;
  showRecords();
  if (changed) fit();
  else outline();
  showCurrent();
}

function showRecords() {
  const ask = get("ask");
  ask.replaceChildren();
  const word = make("b", "", fields[active] || "");
  colour(word, active);
  if (emptyAsked === page && !labels.length) ask.append("This page has no labels. Press d again if the page has none of the fields, or → to skip it.");
  else if (page.source === "done") ask.append("Done. You can still correct it.");
  else if (!hasField(active)) ask.append("Click the ", word, page.source === "nothing" ? " on the page." : " on the page, if there is one.");
  else if (page.source === "model") ask.append("Correct? If not, select a field and click its value.");
  else ask.append("All fields have a value. Press d for the next page.");
  get("records").replaceChildren(page.records.length > 1 ? recordTable() : recordRows());
}

function choose(f, record = 0) {
  active = f;
  picked = true;
  activeRecord = record;
  showRecords();
  reveal(f);
}

function valuesOf(f, record) {
  const ofField = labels.filter(([spot, name]) => name === fields[f] && (record === null || recordOf(spot) === record));
  return ofField.map((label) => ({ label, text: textOf(label[0]) }));
}

function sureness(values) {
  const sure = make("span", "sure");
  const known = values.filter(({ label }) => !confirmed.has(key(label)) && key(label) in page.confidence);
  if (!values.length) return sure;
  if (known.length && !state.calibrated) {
    sure.textContent = "suggested";
    sure.title = "Too few pages are labelled to estimate a confidence";
  } else if (known.length) {
    const least = Math.min(...known.map(({ label }) => page.confidence[key(label)]));
    sure.textContent = Math.round(100 * least) + " %";
    sure.classList.add(least >= 0.8 ? "good" : least >= 0.5 ? "fair" : "poor");
    sure.title = "Confidence of the model";
  } else {
    sure.textContent = "yours";
    sure.classList.add("confirmed");
  }
  return sure;
}

function valueText(values) {
  if (!values.length) return make("span", "value none", "no value");
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
    const cell = make("span");
    cell.append(make("div", "field", name), valueText(values));
    row.append(make("span", "chip", f < 9 ? String(f + 1) : "·"), cell, sureness(values));
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
        const box = values.length && boxOf(values[0].label[0]);
        if (box) bring(box);
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
  get("bar-certain").style.width = state.calibrated ? 100 * (1 - share) * certain + "%" : "0";
  get("bar-done").parentElement.setAttribute("aria-valuemax", total);
  get("bar-done").parentElement.setAttribute("aria-valuenow", done);
  const rest = state.calibrated && done < total ? " · " + Math.round(100 * certain) + " % of the rest certain" : "";
  get("counts").textContent = done + " of " + total + " pages done" + rest;
  const list = get("pages");
  const at = list.scrollTop;
  list.replaceChildren(...state.pages.map((p, n) => {
    const button = make("button", p.state);
    const sure = p.state === "done" ? "done" : state.has_model ? Math.round(100 * p.confidence) + " %" : "";
    button.append(make("i"), make("span", "", p.name), make("small", "", sure));
    button.addEventListener("click", () => { if (!busy && !isBlocked()) open(n); });
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
