"use strict";
// One scene at a time, as Graphviz drew it; moving and zooming change the view box, so that lines stay sharp.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const boxes = new Map(data.boxes.map((box) => [box.id, box]));
const scenes = new Map(data.scenes.map((scene) => [scene.name, scene]));
const reads = new Map(), readBy = new Map();
for (const [source, target, kind, label] of data.arrows) {
  if (!reads.has(target)) reads.set(target, []);
  if (!readBy.has(source)) readBy.set(source, []);
  reads.get(target).push({ id: source, kind, label });
  readBy.get(source).push({ id: target, kind, label });
}
let here = null, opener = null, view = null, whole = null;

// ---- scenes ---------------------------------------------------------------------------------------------------

function titleOf(name) {
  return scenes.has(name) ? scenes.get(name).title : name;
}

function show(name, mark, by) {
  if (!(name in data.drawn)) name = data.first;
  const opened = boxes.get(by);
  if (name !== here || opener !== by) {
    $("stage").innerHTML = data.drawn[name];
    here = name;
    opener = by;
    const svg = $("stage").querySelector("svg");
    svg.removeAttribute("width");
    svg.removeAttribute("height");
    svg.querySelectorAll("title").forEach((title) => title.remove());
    svg.querySelectorAll("a").forEach((link) => link.removeAttribute("xlink:title"));
    const box = svg.viewBox.baseVal;
    whole = [box.x, box.y, box.width, box.height];
    for (const node of svg.querySelectorAll("g.node")) {
      const known = boxes.get(node.id);
      if (!known) continue;
      node.setAttribute("tabindex", "0");
      const read = opened?.operands[node.id] ?? [known.name, known.types];
      node.setAttribute("aria-label", read.join(" "));
      if (opened?.operands[node.id]) [...node.querySelectorAll("text")].forEach((text, i) => { text.textContent = read[i] ?? ""; });
    }
    document.title = `${titleOf(name)} - ${data.title}`;
    for (const item of $("scenes").children) item.classList.toggle("here", item.dataset.name === name);
    const parts = [];
    for (let at = name; at; at = at.includes("/") ? at.slice(0, at.lastIndexOf("/")) : "")
      if (at in data.drawn) parts.unshift(link(titleOf(at), () => go(at)));
    if (data.first !== name && !parts.some((part) => part.textContent === titleOf(data.first)))
      parts.unshift(link(titleOf(data.first), () => go(data.first)));
    if (opened && Object.keys(opened.operands).length) parts.push(document.createTextNode(opened.name));
    $("path").replaceChildren(...parts.flatMap((part, i) => (i ? [" / ", part] : [part])));
    fit();
  }
  document.querySelectorAll("svg .found").forEach((node) => node.classList.remove("found"));
  const found = mark && $("stage").querySelector(`[id="${CSS.escape(mark)}"]`);
  if (found) {
    found.classList.add("found");
    centre(found);
    about(mark);
  }
}

function go(name, mark, by) {
  location.hash = new URLSearchParams({ scene: name, ...(mark && { box: mark }), ...(by && { by }) });
}

function link(text, action) {
  const made = document.createElement("a");
  made.textContent = text;
  made.tabIndex = 0;
  made.onclick = action;
  made.onkeydown = (event) => { if (event.key === "Enter") action(); };
  return made;
}

addEventListener("hashchange", follow);
function follow() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  show(wanted.get("scene") || data.first, wanted.get("box"), wanted.get("by"));
}

// ---- pan and zoom -----------------------------------------------------------------------------------------------

function look(next) {
  view = next;
  $("stage").querySelector("svg").setAttribute("viewBox", next.join(" "));
}

function scale() {
  const size = $("stage").getBoundingClientRect();
  return Math.max(view[2] / size.width, view[3] / size.height);
}

function fit() {
  const size = $("stage").getBoundingClientRect();
  const [x, y, width, height] = whole;
  // Labels have 10 units at least: a picture that does not fit begins at its top, at a size at which it can be read.
  const factor = Math.min(Math.max(width / size.width, height / size.height, 0.6), 1);
  const w = size.width * factor, h = size.height * factor;
  look([w > width ? x + (width - w) / 2 : x, h > height ? y + (height - h) / 2 : y, w, h]);
}

function zoom(factor, px, py) {
  const size = $("stage").getBoundingClientRect(), k = scale();
  px = px ?? size.width / 2;
  py = py ?? size.height / 2;
  const limited = Math.min(Math.max(k * factor, 0.05), Math.max(whole[2] / size.width, whole[3] / size.height) * 4);
  const cx = view[0] + view[2] / 2 + (px - size.width / 2) * k, cy = view[1] + view[3] / 2 + (py - size.height / 2) * k;
  const w = size.width * limited, h = size.height * limited;
  look([cx - (px / size.width) * w, cy - (py / size.height) * h, w, h]);
}

function centre(node) {
  const box = node.getBBox(), at = node.getCTM(), root = $("stage").querySelector("svg").getCTM();
  const inRoot = root.inverse().multiply(at);
  const middle = new DOMPoint(box.x + box.width / 2, box.y + box.height / 2).matrixTransform(inRoot);
  const size = $("stage").getBoundingClientRect(), k = Math.min(scale(), 1.2);
  look([middle.x - (size.width * k) / 2, middle.y - (size.height * k) / 2, size.width * k, size.height * k]);
}

const stage = $("stage"), pointers = new Map();
let travelled = 0, spread = 0;
stage.addEventListener("wheel", (event) => {
  event.preventDefault();
  const size = stage.getBoundingClientRect();
  zoom(Math.exp(event.deltaY * 0.0015), event.clientX - size.left, event.clientY - size.top);
}, { passive: false });
stage.addEventListener("pointerdown", (event) => {
  pointers.set(event.pointerId, [event.clientX, event.clientY]);
  travelled = 0;
});
addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) return;
  const now = [event.clientX, event.clientY];
  pointers.set(event.pointerId, now);
  travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
  if (pointers.size === 2) {
    const [a, b] = [...pointers.values()], far = Math.hypot(a[0] - b[0], a[1] - b[1]);
    const size = stage.getBoundingClientRect();
    if (spread) zoom(spread / far, (a[0] + b[0]) / 2 - size.left, (a[1] + b[1]) / 2 - size.top);
    spread = far;
    return;
  }
  if (travelled > 4) stage.classList.add("moving");
  const k = scale();
  look([view[0] - (now[0] - before[0]) * k, view[1] - (now[1] - before[1]) * k, view[2], view[3]]);
});
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, (event) => {
  pointers.delete(event.pointerId);
  spread = 0;
  stage.classList.remove("moving");
});
$("in").onclick = () => zoom(0.8);
$("out").onclick = () => zoom(1.25);
$("fit").onclick = fit;
addEventListener("resize", () => { if (whole) fit(); });

// ---- boxes ------------------------------------------------------------------------------------------------------

function boxAt(event) {
  const node = event.target.closest?.("g.node");
  return node && boxes.has(node.id) ? node : null;
}

stage.addEventListener("click", (event) => {
  const node = boxAt(event);
  if (!node || travelled > 4) return;
  choose(node.id);
});
stage.addEventListener("keydown", (event) => {
  const node = boxAt(event);
  if (node && event.key === "Enter") choose(node.id);
});

function choose(id) {
  const box = boxes.get(id);
  about(id);
  if (box.opens.length) go(box.opens[0], null, Object.keys(box.operands).length ? id : null);
}

stage.addEventListener("mousemove", (event) => {
  const node = boxAt(event), tip = $("tip");
  tip.hidden = !node;
  if (!node) return emphasise(null);
  const box = boxes.get(node.id);
  tip.textContent = "";
  const read = boxes.get(opener)?.operands[box.id] ?? [box.name, box.types];
  for (const text of [read.join("  "), box.detail, box.place, box.symbol && `@${box.symbol}`, box.text, box.opens.length ? "click to open" : ""])
    if (text) tip.append(Object.assign(document.createElement("div"), { textContent: text }));
  const size = stage.parentElement.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX - size.left + 14, size.width - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY - size.top + 14, size.height - tip.offsetHeight - 8)}px`;
  emphasise(node.id);
});
stage.addEventListener("mouseleave", () => { $("tip").hidden = true; emphasise(null); });

let emphasised = null;
function emphasise(id) {
  if (id === emphasised) return;
  emphasised = id;
  const near = new Set(id ? [id, ...(reads.get(id) || []).map((x) => x.id), ...(readBy.get(id) || []).map((x) => x.id)] : []);
  for (const node of stage.querySelectorAll("g.node")) node.classList.toggle("dim", !!id && !near.has(node.id));
  for (const edge of stage.querySelectorAll("g.edge"))
    edge.classList.toggle("dim", !!id && !edge.classList.contains(`from_${id}`) && !edge.classList.contains(`to_${id}`));
}

function about(id) {
  const box = boxes.get(id), list = document.createElement("dl");
  const row = (name, ...values) => {
    const filled = values.filter((value) => value && value !== "");
    if (!filled.length) return;
    const term = document.createElement("dt"), described = document.createElement("dd");
    term.textContent = name;
    described.append(...filled.flatMap((value, i) => (i ? [", ", value] : [value])));
    list.append(term, described);
  };
  const toBox = (end) => {
    const other = boxes.get(end.id);
    return other ? link(other.name + (end.label ? ` (${end.label})` : ""), () => go(sceneFor(other), other.id)) : null;
  };
  row("box", box.name);
  row("type", box.types);
  row("says", box.detail);
  row("activity", box.activity);
  row("where", box.place);
  row("in MLIR", box.text);
  row("name", box.symbol && `@${box.symbol}`);
  row("reads", ...(reads.get(id) || []).map(toBox));
  row("read by", ...(readBy.get(id) || []).map(toBox));
  row("opens", ...box.opens.map((name) => link(titleOf(name), () => go(name))));
  $("about").replaceChildren(list);
}

function sceneFor(box) {
  const together = here === data.together && stage.querySelector(`[id="${CSS.escape(box.id)}"]`);
  return together ? here : box.scene;
}

// ---- search -----------------------------------------------------------------------------------------------------

const said = (box) => [box.name, box.types, box.detail, box.place, box.symbol, box.text, box.activity].join(" ").toLowerCase();
$("search").addEventListener("input", () => {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = words.length ? data.boxes.filter((box) => words.every((word) => said(box).includes(word))) : [];
  const items = hits.slice(0, 200).map((box) => {
    const item = document.createElement("li"), small = document.createElement("small");
    item.tabIndex = 0;
    item.textContent = `${box.name} ${box.types} `;
    small.textContent = [titleOf(box.scene), box.place].filter(Boolean).join(" ");
    item.append(small);
    item.onclick = () => go(sceneFor(box), box.id);
    item.onkeydown = (event) => { if (event.key === "Enter") item.onclick(); };
    return item;
  });
  if (words.length) {
    const count = document.createElement("li");
    count.id = "count";
    count.textContent = hits.length === 1 ? "1 box" : `${hits.length} boxes`;
    items.unshift(count);
  }
  $("hits").replaceChildren(...items);
});
$("search").addEventListener("keydown", (event) => {
  const first = $("hits").children[1];
  if (event.key === "Enter" && first) first.onclick();
});
addEventListener("keydown", (event) => {
  if (event.target === $("search")) {
    if (event.key === "Escape") $("search").blur();
    return;
  }
  const action = { "+": () => zoom(0.8), "=": () => zoom(0.8), "-": () => zoom(1.25), "0": fit, "/": () => $("search").focus(), Escape: () => history.back() }[event.key];
  if (!action || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  action();
});

// ---- the page ---------------------------------------------------------------------------------------------------

$("title").textContent = data.title;
for (const scene of data.scenes) {
  const item = document.createElement("li"), small = document.createElement("small");
  item.dataset.name = scene.name;
  item.tabIndex = 0;
  item.textContent = `${scene.title} `;
  small.textContent = `${scene.boxes} boxes ${scene.place}`;
  item.append(small);
  item.onclick = () => go(scene.name);
  item.onkeydown = (event) => { if (event.key === "Enter") item.onclick(); };
  $("scenes").append(item);
}
follow();
