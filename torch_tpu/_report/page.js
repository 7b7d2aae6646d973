"use strict";
(() => {
const D = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const SOURCES = ["compiled", "shared", "disk", "remote"];
const SOURCE_NAMES = { compiled: "compiled here", shared: "from another process", disk: "from the cache directory",
                       remote: "from the cache URL" };

function make(tag, text, cls) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (cls) e.className = cls;
  return e;
}
const count = (n) => (n == null ? "\u2013" : n.toLocaleString("en"));
function bytes(n) {
  if (n == null) return "\u2013";
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (n < 1024 || unit === "TiB") return `${unit === "B" || n >= 100 ? Math.round(n) : n.toFixed(1)} ${unit}`;
    n /= 1024;
  }
}
function time(s) {
  if (s == null) return "\u2013";
  const a = Math.abs(s);
  if (a === 0) return "0";
  if (a < 1e-3) return `${(s * 1e6).toFixed(a < 1e-5 ? 1 : 0)} \u00b5s`;
  if (a < 1) return `${(s * 1e3).toFixed(a < 0.1 ? 1 : 0)} ms`;
  if (a < 120) return `${s.toFixed(a < 10 ? 2 : 1)} s`;
  return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
}
// A path is told from others by its end.
const line = (path) => { const parts = path.split("/"); return parts[parts.length - 1]; };

// --- totals ---
{
  const s = D.stats, compiled = D.programs.filter((p) => p.source === "compiled");
  $("about").textContent = [D.began.replace("T", " "), time(D.seconds), `mode ${D.mode} at the end`,
                            `device ${D.device.kind}`, D.device.version !== D.device.kind && D.device.version].filter(Boolean).join(" \u00b7 ");
  const tile = (name, value, more) => {
    const div = make("div"), dd = make("dd", value);
    if (more) dd.append(make("small", more));
    div.append(make("dt", name), dd);
    $("tiles").append(div);
  };
  const share = D.seconds > 0 ? ` (${Math.round(100 * s.compile_ns * 1e-9 / D.seconds)} % of the run)` : "";
  tile("programs", count(D.programs.length + D.unlisted), D.unlisted ? `the newest ${count(D.programs.length)} below` : "");
  tile("compiled", count(s.compiles), time(s.compile_ns * 1e-9) + share);
  tile("launches", count(s.executions), s.executions ? `of ${count(s.ops_recorded)} operators` : "");
  tile("peak memory", bytes(s.peak_bytes), D.memory_limit ? `of ${bytes(D.memory_limit)}` : "");
  tile("on the CPU instead", count(s.cpu_fallbacks), "calls without a lowering");
}

// --- storms ---
for (const advice of new Set(D.storms.map((s) => s.advice))) {
  const li = make("li");
  for (const storm of D.storms.filter((s) => s.advice === advice).sort((a, b) => b.seconds - a.seconds)) {
    const p = make("p");
    p.title = storm.line;
    p.append(make("strong", line(storm.line) || "a line without a name"),
             ` compiled ${count(storm.versions)} versions of ${storm.names} in ${time(storm.seconds)}. The last: ${storm.reason}.`);
    li.append(p);
  }
  if (advice) li.append(make("p", `To avoid it: ${advice}.`));
  $("storms").querySelector("ul").append(li);
  $("storms").hidden = false;
}

// --- tiers ---
{
  const parts = SOURCES.map((name) => [name, name === "compiled" ? D.stats.compiles : D.stats[`${name}_hits`]]);
  const all = parts.reduce((n, [, k]) => n + k, 0);
  $("tiers-note").textContent = `look-ups that found one in this process's memory: ${count(D.stats.memory_hits)} ` +
    "(a plan in Strict mode keeps its program and looks nothing up)";
  for (const [name, n] of parts) {
    const item = make("li"), key = make("i");
    key.style.background = `var(--${name})`;
    item.append(key, `${SOURCE_NAMES[name]} ${count(n)}`);
    $("tiers-legend").append(item);
    if (!n) continue;
    const bar = make("div");
    bar.style.cssText = `flex:${n / all};background:var(--${name})`;
    bar.title = `${SOURCE_NAMES[name]}: ${count(n)}`;
    $("tiers").append(bar);
  }
}

// --- time line ---
const ROW = 26, GAP = 12, LEFT = 86, AXIS = 20, MEMORY = 78;
const threads = [...new Set(D.programs.map((p) => p.thread))];
const tracks = threads.map((t, i) => ({ thread: t, label: threads.length > 1 ? `compiles ${i + 1}` : "compiles" }));
const TOP = 6, launchTop = TOP + Math.max(1, tracks.length) * (ROW + 4) + GAP;
const memoryTop = launchTop + ROW + GAP, HEIGHT = memoryTop + MEMORY + AXIS + 4;
const canvas = $("time"), paper = canvas.getContext("2d");
const view = { from: 0, to: Math.max(D.seconds, 1e-6) };
const peak = D.memory.reduce((most, [, b]) => Math.max(most, b), 1);
let chosen = -1;

function x(t) { return LEFT + (t - view.from) / (view.to - view.from) * (canvas.clientWidth - LEFT); }
function t(px) { return view.from + (px - LEFT) / (canvas.clientWidth - LEFT) * (view.to - view.from); }

function ticks() {
  const raw = (view.to - view.from) / Math.max(2, canvas.clientWidth / 130);
  const ten = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * ten).find((k) => k >= raw);
  const found = [];
  for (let i = Math.ceil(view.from / step); i * step <= view.to; ++i) found.push(i * step);
  return found;
}

function draw() {
  const width = canvas.clientWidth, scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(HEIGHT * scale);
  canvas.style.height = `${HEIGHT}px`;
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  const c = paper;
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.clearRect(0, 0, width, HEIGHT);
  c.font = "12px system-ui, sans-serif";
  c.textBaseline = "middle";
  c.strokeStyle = color("line");
  c.fillStyle = color("quiet");
  c.textAlign = "center";
  const bottom = memoryTop + MEMORY;
  for (const at of ticks()) {
    const px = Math.round(x(at)) + 0.5;
    if (px < LEFT) continue;
    c.beginPath(); c.moveTo(px, TOP); c.lineTo(px, bottom); c.stroke();
    c.textAlign = px < LEFT + 20 ? "left" : px > width - 30 ? "right" : "center";
    c.fillText(time(at), px, bottom + AXIS / 2 + 2);
  }
  c.textAlign = "left";
  tracks.forEach((track, i) => c.fillText(track.label, 0, TOP + i * (ROW + 4) + ROW / 2));
  if (!tracks.length) c.fillText("compiles", 0, TOP + ROW / 2);
  c.fillText("launches", 0, launchTop + ROW / 2);
  c.fillText("memory", 0, memoryTop + 8);
  c.fillText(bytes(peak), 0, memoryTop + 24);
  c.save();
  c.beginPath(); c.rect(LEFT, 0, width - LEFT, HEIGHT); c.clip();

  // What is narrower than a pixel is drawn a pixel wide, and only once a pixel.
  const seen = new Map();
  D.programs.forEach((p, i) => {
    const from = x(p.started), to = x(p.started + p.seconds);
    if (to < LEFT || from > width) return;
    const row = threads.indexOf(p.thread), slot = `${row} ${Math.round(from * 2)}`;
    if (to - from < 0.5 && seen.has(slot) && i !== chosen) return;
    seen.set(slot, i);
    c.fillStyle = color(p.source);
    const top = TOP + row * (ROW + 4), wide = Math.max(1, to - from - (to - from > 3 ? 0.5 : 0));
    c.fillRect(from, top, wide, ROW);
    if (i === chosen) { c.strokeStyle = color("text"); c.lineWidth = 2; c.strokeRect(from, top, wide, ROW); c.lineWidth = 1; }
  });
  c.fillStyle = color("launch");
  if (D.launches.each) {
    let last = -1;
    for (const [at, took] of D.launches.each) {
      const from = x(at), to = x(at + took);
      if (to < LEFT || from > width || to <= last) continue;
      c.fillRect(Math.max(from, last), launchTop, Math.max(0.75, to - Math.max(from, last)), ROW);
      last = Math.max(to, from + 0.75);
    }
  } else {
    const w = D.launches.width;
    D.launches.busy.forEach((busy, i) => {
      if (!busy) return;
      const h = Math.max(1, busy * ROW);
      c.fillRect(x(i * w), launchTop + ROW - h, Math.max(1, x((i + 1) * w) - x(i * w)), h);
    });
  }
  c.strokeStyle = color("memory");
  c.fillStyle = color("memory");
  c.beginPath();
  let y = bottom;
  c.moveTo(x(0), y);
  for (const [at, b] of D.memory) {
    c.lineTo(x(at), y);
    y = bottom - b / peak * (MEMORY - 4);
    c.lineTo(x(at), y);
  }
  c.lineTo(x(D.seconds), y);
  c.stroke();
  c.lineTo(x(D.seconds), bottom); c.lineTo(x(0), bottom);
  c.globalAlpha = 0.25; c.fill(); c.globalAlpha = 1;
  c.restore();
}

function under(px, py) {
  const at = t(px), slack = (view.to - view.from) / canvas.clientWidth * 2;
  const within = (start, took) => at >= start - slack && at <= start + took + slack;
  const row = Math.floor((py - TOP) / (ROW + 4));
  if (py < launchTop - GAP && row >= 0 && row < tracks.length) {
    let best = -1, off = Infinity;
    D.programs.forEach((p, i) => {
      const d = Math.abs(at - p.started - p.seconds / 2);
      if (p.thread === tracks[row].thread && within(p.started, p.seconds) && d < off) { best = i; off = d; }
    });
    if (best >= 0) {
      const p = D.programs[best];
      return { program: best, text: `${p.name}\n${time(p.seconds)}, ${SOURCE_NAMES[p.source]}\n${line(p.line)}\n${p.reason}` };
    }
  }
  if (py >= launchTop && py < launchTop + ROW) {
    if (!D.launches.each) {
      const busy = D.launches.busy[Math.floor(at / D.launches.width)];
      return busy === undefined ? null : { program: -1, text: `launching ${Math.round(100 * busy)} % of this time` };
    }
    let best = null, off = Infinity;
    for (const [start, took, program] of D.launches.each) {
      const d = Math.abs(at - start - took / 2);
      if (within(start, took) && d < off) { best = [took, program]; off = d; }
    }
    if (best) return { program: best[1], text: `launch of ${best[1] < 0 ? "a program made before" : D.programs[best[1]].name}\n${time(best[0])}` };
  }
  if (py >= memoryTop && py < memoryTop + MEMORY) {
    let b = null;
    for (const [when, n] of D.memory) { if (when > at) break; b = n; }
    if (b !== null) return { program: -1, text: `${bytes(b)} at ${time(at)}` };
  }
  return null;
}

function zoom(factor, around) {
  const least = Math.max(D.seconds * 1e-6, 1e-6), most = Math.max(D.seconds, 1e-6);
  const width = Math.min(most, Math.max(least, (view.to - view.from) * factor));
  const part = (around - view.from) / (view.to - view.from);
  view.from = Math.min(Math.max(0, around - part * width), most - width);
  view.to = view.from + width;
  draw();
}
function move(by) {
  const width = view.to - view.from;
  view.from = Math.min(Math.max(0, view.from + by), Math.max(D.seconds, 1e-6) - width);
  view.to = view.from + width;
  draw();
}
const middle = () => (view.from + view.to) / 2;
$("in").onclick = () => zoom(0.5, middle());
$("out").onclick = () => zoom(2, middle());
$("all").onclick = canvas.ondblclick = () => zoom(Infinity, middle());
canvas.addEventListener("wheel", (e) => {
  if (!e.ctrlKey && !e.shiftKey && Math.abs(e.deltaX) < Math.abs(e.deltaY) && view.to - view.from >= D.seconds && e.deltaY > 0)
    return;  // out of the whole run: the page scrolls
  e.preventDefault();
  if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) move(e.deltaX / canvas.clientWidth * (view.to - view.from));
  else zoom(Math.exp(e.deltaY * 0.002), t(e.offsetX));
}, { passive: false });
let drag = null;
canvas.onpointerdown = (e) => { drag = { x: e.offsetX, moved: false }; canvas.setPointerCapture(e.pointerId); };
canvas.onpointerup = (e) => {
  const clicked = drag && !drag.moved;
  drag = null;
  const found = clicked && under(e.offsetX, e.offsetY);
  if (found && found.program >= 0) choose(found.program, true);
};
canvas.onpointermove = (e) => {
  if (drag && (drag.moved || Math.abs(e.offsetX - drag.x) > 3)) {
    drag.moved = true;
    move((drag.x - e.offsetX) / (canvas.clientWidth - LEFT) * (view.to - view.from));
    drag.x = e.offsetX;
  }
  const found = drag ? null : under(e.offsetX, e.offsetY), tip = $("tip");
  tip.hidden = !found;
  if (!found) return;
  tip.textContent = found.text;
  tip.style.left = `${Math.min(e.offsetX + 12, Math.max(0, canvas.clientWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${e.offsetY + 16}px`;
};
canvas.onpointerleave = () => { $("tip").hidden = true; };
canvas.onkeydown = (e) => {
  const width = view.to - view.from;
  const keys = { "+": () => zoom(0.5, middle()), "-": () => zoom(2, middle()), "0": () => zoom(Infinity, middle()),
                 ArrowLeft: () => move(-width / 8), ArrowRight: () => move(width / 8) };
  if (keys[e.key]) { keys[e.key](); e.preventDefault(); }
};
$("time-note").textContent = "wheel or + and \u2212 zoom, drag moves, a click shows the program" +
  (D.launches.each ? "" : `; launches as the part of the time, for there are ${count(D.traced[0])}`) +
  (D.traced[0] < D.traced[1] ? `; the first ${count(D.traced[0])} of ${count(D.traced[1])} launches` : "");
for (const [name, text] of [...SOURCES.filter((s) => D.programs.some((p) => p.source === s)).map((s) => [s, SOURCE_NAMES[s]]),
                            ["launch", "launches"], ["memory", "bytes of tensors after a launch"]]) {
  const item = make("li"), key = make("i");
  key.style.background = `var(--${name})`;
  item.append(key, text);
  $("time-legend").append(item);
}

// --- programs ---
const COLUMNS = [
  ["#", (p) => p.number, (p) => p.number],
  ["program", (p) => p.name, (p) => p.name, "words wide name"],
  ["line", (p) => p.line, (p) => line(p.line), "words"],
  ["made in", (p) => p.seconds, (p) => time(p.seconds)],
  ["launches", (p) => p.launches ?? -1, (p) => count(p.launches)],
  ["launching", (p) => p.launch_seconds ?? -1, (p) => time(p.launch_seconds)],
  ["arguments", (p) => p.argument_bytes, (p) => bytes(p.argument_bytes)],
  ["results", (p) => p.output_bytes, (p) => bytes(p.output_bytes)],
  ["temporaries", (p) => p.temporary_bytes, (p) => bytes(p.temporary_bytes)],
  ["from", (p) => SOURCES.indexOf(p.source), (p) => p.source, "words"],
  ["why", (p) => p.reason, (p) => p.reason, "words wide"],
];
const CHUNK = 200;
const table = $("programs"), body = table.tBodies[0];
const words = D.programs.map((p) => [p.name, p.line, p.reason, p.kind].join("\n").toLowerCase());
let sorted = { column: 3, down: true }, order = [], drawn = 0;

COLUMNS.forEach(([name, , , cls], i) => {
  const th = make("th", undefined, cls?.includes("words") ? "words" : ""), button = make("button", name);
  button.type = "button";
  button.onclick = () => {
    sorted = { column: i, down: sorted.column === i ? !sorted.down : !cls };
    list();
  };
  th.append(button);
  table.tHead.rows[0].append(th);
});
function options(select, all, values) {
  select.append(new Option(all, ""), ...values.map((v) => new Option(v, v)));
}
options($("source"), "from anywhere", SOURCES.filter((s) => D.programs.some((p) => p.source === s)));
options($("kind"), "any reason", [...new Set(D.programs.map((p) => p.kind))].sort());

function list() {
  const text = $("filter").value.trim().toLowerCase(), source = $("source").value, kind = $("kind").value;
  order = D.programs.map((_, i) => i).filter((i) => (!text || words[i].includes(text)) &&
    (!source || D.programs[i].source === source) && (!kind || D.programs[i].kind === kind));
  const key = COLUMNS[sorted.column][1], sign = sorted.down ? -1 : 1;
  order.sort((a, b) => {
    const u = key(D.programs[a]), v = key(D.programs[b]);
    return (u < v ? -1 : u > v ? 1 : 0) * sign || a - b;
  });
  [...table.tHead.rows[0].cells].forEach((th, i) => {
    if (i === sorted.column) th.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  });
  body.replaceChildren();
  drawn = 0;
  more();
  const seconds = order.reduce((s, i) => s + D.programs[i].seconds, 0);
  $("shown").textContent = `${count(order.length)} of ${count(D.programs.length)}, made in ${time(seconds)}`;
}
function row(i) {
  const p = D.programs[i], tr = make("tr", undefined, i === chosen ? "chosen" : "");
  tr.dataset.program = i;
  for (const [, , show, cls] of COLUMNS) {
    const td = make("td", undefined, cls);
    if (cls?.includes("wide")) td.append(make("span", show(p)));  // its first lines: the detail has all
    else td.textContent = show(p);
    tr.append(td);
  }
  tr.cells[2].title = p.line;
  tr.tabIndex = 0;
  tr.onclick = () => choose(i === chosen ? -1 : i, false);
  tr.onkeydown = (e) => { if (e.key === "Enter") tr.onclick(); };
  return tr;
}
function detail(i) {
  const p = D.programs[i], tr = make("tr", undefined, "detail"), td = make("td"), dl = make("dl");
  const changes = p.changes.length > 1 ? p.changes.join("\n") : "";
  for (const [name, text] of [["line", p.line], ["why", p.reason], ["differs in", changes], ["to avoid it", p.advice],
                              ["made", `at ${time(p.started)} of the run, in ${time(p.seconds)}, ${SOURCE_NAMES[p.source]}`],
                              ["key", p.key]]) {
    if (text) { const dd = make("dd", text); dd.style.whiteSpace = "pre-line"; dl.append(make("dt", name), dd); }
  }
  td.colSpan = COLUMNS.length;
  td.append(dl);
  tr.append(td);
  return tr;
}
function more() {
  for (const i of order.slice(drawn, drawn + CHUNK)) {
    body.append(row(i));
    if (i === chosen) body.append(detail(i));
  }
  drawn = Math.min(order.length, drawn + CHUNK);
  $("more").hidden = drawn === order.length;
  $("more").textContent = `${count(order.length - drawn)} more as you scroll`;
}
function choose(i, scroll) {
  chosen = i;
  if (i >= 0 && !order.includes(i)) { $("filter").value = $("source").value = $("kind").value = ""; list(); }
  while (i >= 0 && order.indexOf(i) >= drawn) more();
  body.querySelectorAll("tr.detail").forEach((tr) => tr.remove());
  for (const tr of body.rows) {
    const it = Number(tr.dataset.program) === i;
    tr.classList.toggle("chosen", it);
    if (!it) continue;
    tr.after(detail(i));
    if (scroll) tr.scrollIntoView({ block: "center" });
  }
  draw();
}
new IntersectionObserver((seen) => { if (seen[0].isIntersecting && drawn < order.length) more(); }, { rootMargin: "600px" })
  .observe($("more"));
$("filter").oninput = $("source").onchange = $("kind").onchange = list;
window.addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
list();
draw();
})();
