"""Style and script of the graph's page: our own, with nothing from the network."""

STYLE = """
#graph{width:100%;height:68vh;border:1px solid var(--line);border-radius:6px;cursor:grab;touch-action:none;
background:#fbfcfe;display:block}
#graph.drag{cursor:grabbing}#graph text{fill:#111;font:11px system-ui,sans-serif;pointer-events:none}
#graph .name{font-weight:600}#graph .dim{fill:#555}#graph .lane{fill:#f3f5f9;stroke:#e3e7ef}
#graph .lanename{fill:#5b6475;font-weight:600}
.line{fill:none;stroke:#4a5568;stroke-width:1.3}.line.verified,.line.imported{stroke:#2b8a3e;stroke-width:2}
.line.control{stroke:#b98300}.line.state{stroke:#6741d9;stroke-width:1}
.head{fill:#4a5568}.head.control{fill:#b98300}.head.state{fill:#6741d9}
#graph .edgename{fill:#8a6100;text-anchor:middle;font-size:9px}
.node{cursor:pointer}.faint{opacity:.13}.node.hit rect{stroke-width:3.5}
.bar{display:flex;flex-wrap:wrap;gap:8px;align-items:center}
.legend span{color:#111;border:1.5px solid;border-radius:4px;padding:0 6px;margin:0 3px;font-size:12px;white-space:nowrap}
.facts{border:1px solid var(--line);border-radius:6px;padding:8px 12px;margin:8px 0;min-height:3em;white-space:pre-wrap}
"""

SCRIPT = """
(() => {
const s = document.getElementById("graph"), all = s.getAttribute("viewBox").split(" ").map(Number);
const q = document.getElementById("seek"), hits = document.getElementById("hits"), box = document.getElementById("facts");
const nodes = [...s.querySelectorAll(".node")], edges = [...s.querySelectorAll(".edge")], byId = {};
nodes.forEach(n => byId[n.dataset.id] = n);
let v = [...all], drag = null, moved = false, at = -1;
const set = () => s.setAttribute("viewBox", v.join(" "));
const scale = () => { const r = s.getBoundingClientRect(); return Math.max(v[2] / r.width, v[3] / r.height); };
const zoom = (f, x, y) => {
  const w = v[2] * f;
  if (w < 60 || w > all[2] * 20) return;
  v = [x - (x - v[0]) * f, y - (y - v[1]) * f, w, v[3] * f]; set();
};
const mid = () => [v[0] + v[2] / 2, v[1] + v[3] / 2];
const point = e => {
  const p = new DOMPoint(e.clientX, e.clientY).matrixTransform(s.getScreenCTM().inverse());
  return [p.x, p.y];
};
s.addEventListener("wheel", e => { e.preventDefault(); zoom(e.deltaY > 0 ? 1.15 : 1 / 1.15, ...point(e)); }, {passive: false});
s.addEventListener("pointerdown", e => { drag = [e.clientX, e.clientY, ...v]; moved = false; });
addEventListener("pointermove", e => {
  if (!drag) return;
  const k = scale(), dx = e.clientX - drag[0], dy = e.clientY - drag[1];
  if (Math.abs(dx) + Math.abs(dy) > 4) { moved = true; s.classList.add("drag"); }
  v[0] = drag[2] - dx * k; v[1] = drag[3] - dy * k; set();
});
addEventListener("pointerup", () => { drag = null; s.classList.remove("drag"); });
const faint = keep => {
  nodes.forEach(n => n.classList.toggle("faint", keep !== null && !keep.has(n.dataset.id)));
  edges.forEach(e => e.classList.toggle("faint", keep !== null && !(keep.has(e.dataset.a) && keep.has(e.dataset.b))));
};
const mark = ids => nodes.forEach(n => n.classList.toggle("hit", ids.has(n.dataset.id)));
document.getElementById("zin").onclick = () => zoom(1 / 1.3, ...mid());
document.getElementById("zout").onclick = () => zoom(1.3, ...mid());
document.getElementById("fit").onclick = () => {
  v = [...all]; set(); faint(null); mark(new Set()); q.value = ""; hits.textContent = "";
};
s.addEventListener("keydown", e => {
  const d = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[e.key];
  if (d) { v[0] += d[0] * v[2] / 10; v[1] += d[1] * v[3] / 10; set(); e.preventDefault(); }
  if (e.key === "+") zoom(1 / 1.3, ...mid());
  if (e.key === "-") zoom(1.3, ...mid());
});
const ways = [{}, {}];
LINKS.forEach(l => { if (l[2] === "handoff") [0, 1].forEach(i => (ways[i][l[i]] ??= []).push(l[1 - i])); });
const walk = (id, way) => {
  const seen = new Set([id]), todo = [id];
  while (todo.length) (way[todo.pop()] || []).forEach(n => { if (!seen.has(n)) { seen.add(n); todo.push(n); } });
  return seen;
};
const show = id => {
  box.textContent = id + "\\n" + Object.entries(FACTS[id]).map(([k, x]) => k + ": " + x).join("\\n");
  const near = new Set([...walk(id, ways[0]), ...walk(id, ways[1])]);
  LINKS.forEach(l => { if (l[2] !== "handoff" && (l[0] === id || l[1] === id)) { near.add(l[0]); near.add(l[1]); } });
  faint(near); mark(new Set([id]));
};
const centre = id => {
  const m = byId[id].getAttribute("transform").match(/[-\\d.]+/g).map(Number), w = Math.min(all[2], 1400), h = w / 2.2;
  v = [m[0] + 105 - w / 2, m[1] + 27 - h / 2, w, h]; set();
};
s.addEventListener("click", e => {
  if (moved) return;
  const n = e.target.closest(".node");
  if (n) show(n.dataset.id); else { faint(null); mark(new Set()); }
});
const text = n => (n.dataset.id + " " + Object.values(FACTS[n.dataset.id]).join(" ")).toLowerCase();
const found = () => { const t = q.value.trim().toLowerCase(); return t ? nodes.filter(n => text(n).includes(t)) : []; };
q.addEventListener("input", () => {
  const ids = new Set(found().map(n => n.dataset.id));
  at = -1; hits.textContent = q.value ? ids.size + " found" : ""; faint(q.value ? ids : null); mark(ids);
});
q.addEventListener("keydown", e => {
  const f = e.key === "Enter" ? found() : [];
  if (!f.length) return;
  at = (at + 1) % f.length; centre(f[at].dataset.id); show(f[at].dataset.id);
  hits.textContent = (at + 1) + " of " + f.length;
});
const start = new URLSearchParams(location.hash.slice(1)).get("node");
if (start && byId[start]) { centre(start); show(start); }
})();
"""
