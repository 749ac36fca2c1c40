"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const lists = [...document.querySelectorAll("ol.members[data-of]")];
const allStepsHtml = lists.map(list => list.innerHTML);
function memberItem(name, weight, largest) {
  const li = document.createElement("li");
  const part = (kind, text) => { const span = document.createElement("span"); span.className = kind; span.textContent = text; li.append(span); return span; };
  part("name", name).title = name;
  part("bar" + (weight < 0 ? " minus" : ""), "").style.width = Math.round(100 * Math.abs(weight) / largest) + "%";
  part("number", weight.toFixed(2));
  return li;
}
function showMembers(list, members, names) {
  const largest = Math.max(...members.map(m => Math.abs(m[1])), 1e-300);
  list.replaceChildren(...members.map(m => memberItem(names ? names[m[0]] : m[0], m[1], largest)));
  if (!members.length) list.textContent = "The pattern does not occur in this step.";
}
const slider = document.getElementById("step");
// Position 0 of the slider stands for all steps.
if (slider) slider.addEventListener("input", () => {
  const step = Number(slider.value);
  document.getElementById("stepname").textContent = step ? data.steps[step - 1] : "all steps";
  lists.forEach((list, i) => {
    if (!step) { list.innerHTML = allStepsHtml[i]; return; }
    const factors = data.moments[step - 1][Number(list.dataset.pattern)];
    showMembers(list, factors ? factors[list.dataset.of] : [], data[list.dataset.of]);
  });
});
const row = document.getElementById("row");
if (row) row.addEventListener("input", event => {
  const chosen = data.names.indexOf(event.target.value), out = document.getElementById("alike");
  if (chosen < 0) { out.replaceChildren(); return; }
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0), weights = data.weights[chosen];
  const cosine = row => dot(weights, row) / Math.sqrt(dot(weights, weights) * dot(row, row));
  const similar = data.weights.map((row, i) => [data.names[i], cosine(row)]).filter((_, i) => i !== chosen);
  showMembers(out, similar.sort((a, b) => b[1] - a[1]).slice(0, 10));
});
function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name; link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
// Spreadsheets run a cell that begins so as a formula.
const harmless = text => /^[=+\-@\t\r\n]/.test(text) && isNaN(text) ? "'" + text : text;
const csvField = text => /[",\r\n]/.test(text) ? '"' + String(harmless(text)).replaceAll('"', '""') + '"' : harmless(text);
const csvTable = (head, names, columns) => [[head, ...columns.map((_, i) => "pattern " + (i + 1))], ...names.map((name, i) => [csvField(name), ...columns.map(c => c[i])])].map(row => row.join(",")).join("\n") + "\n";
document.querySelectorAll("[data-csv]").forEach(button => button.addEventListener("click", () => {
  const rows = data.patterns.map((_, i) => data.weights.map(w => w[i]));
  if (button.dataset.csv === "rows") save("rows.csv", "text/csv", csvTable("row", data.names, rows));
  else save("patterns.csv", "text/csv", csvTable("feature", data.features, data.patterns));
}));
document.querySelectorAll("[data-svg]").forEach(button => button.addEventListener("click", () =>
  save("pattern-" + button.dataset.svg + ".svg", "image/svg+xml", button.closest("section").querySelector("svg").outerHTML)));
