(function () {
  "use strict";
  var all = function (selector, root) { return Array.prototype.slice.call((root || document).querySelectorAll(selector)); };
  var get = function (id) { return document.getElementById(id); };
  all(".needs-script, button.sort").forEach(function (e) { e.hidden = false; });
  all(".no-script, th > .plain").forEach(function (e) { e.hidden = true; });

  // the group that the reader picks
  var groups = JSON.parse(get("groups-data").textContent);
  var pick = get("pick");
  function fill(table, name, rows) {
    table.hidden = !rows;
    table.caption.textContent = name;
    var body = table.tBodies[0];
    body.textContent = "";
    (rows || []).forEach(function (row) {
      var line = body.insertRow();
      row.forEach(function (text) { line.insertCell().textContent = text; });
    });
  }
  function draw() {
    var group = pick.value === "" ? null : groups[+pick.value];
    get("picked-name").textContent = group ? group.name : "the group you pick";
    Object.keys(groups[0].lines).forEach(function (key) {
      get("line-" + key).setAttribute("d", group ? group.lines[key] : "");
    });
    Object.keys(groups[0].told).forEach(function (key) {
      get("told-" + key).textContent = group ? group.name + ": " + group.told[key] : "";
      fill(get("table-" + key), group ? group.name : "", group && group.tables[key]);
    });
  }
  pick.addEventListener("change", draw);
  if (pick.value !== "") { draw(); }

  // sorting: a button in each heading
  function value(row, place, kind) {
    var cell = row.cells[place];
    var text = cell.hasAttribute("data-v") ? cell.getAttribute("data-v") : cell.textContent;
    if (kind === "text") { return text; }
    var number = parseFloat(text.replace(/[<,\s]/g, "").replace("−", "-"));
    return isNaN(number) ? null : number;
  }
  function sort(table, heading) {
    var place = heading.cellIndex, kind = heading.getAttribute("data-sort");
    var down = heading.getAttribute("aria-sort") === "ascending";
    all("th[aria-sort]", table).forEach(function (th) { th.removeAttribute("aria-sort"); });
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    var rows = all("tr", table.tBodies[0]).map(function (row) { return { row: row, v: value(row, place, kind) }; });
    rows.sort(function (a, b) {
      if (a.v === null || b.v === null) { return (a.v === null) - (b.v === null); }
      var order = kind === "text" ? a.v.localeCompare(b.v) : a.v - b.v;
      return down ? -order : order;
    });
    rows.forEach(function (each) { table.tBodies[0].appendChild(each.row); });
  }
  all("table.sortable").forEach(function (table) {
    all("button.sort", table).forEach(function (button) {
      button.addEventListener("click", function () { sort(table, button.closest("th")); });
    });
  });

  // filters: by name, and by finding
  function filter(id) {
    var words = all("[data-filter='" + id + "']")[0], finding = all("[data-filter-finding='" + id + "']")[0];
    var text = words.value.toLowerCase(), kind = finding ? finding.value : "", shown = 0;
    var rows = all("tr", get(id).tBodies[0]);
    rows.forEach(function (row) {
      var named = row.cells[0].textContent.toLowerCase().indexOf(text) >= 0;
      var found = !kind || all(".finding", row)[0].getAttribute("data-v").indexOf(kind) >= 0;
      row.hidden = !(named && found);
      shown += named && found ? 1 : 0;
    });
    all("[data-shown='" + id + "']")[0].textContent = shown + " of " + rows.length + " rows";
  }
  all("[data-filter]").forEach(function (e) {
    e.addEventListener("input", function () { filter(e.getAttribute("data-filter")); });
  });
  all("[data-filter-finding]").forEach(function (e) {
    e.addEventListener("change", function () { filter(e.getAttribute("data-filter-finding")); });
  });

  // the heat map: numbers of a cell, by pointer or by arrow keys
  var heat = get("heat-table"), detail = get("detail");
  function tell(cell) {
    var row = all("tr[data-category='" + cell.getAttribute("data-row") + "']")[0];
    if (!row) { return; }
    var headings = all("thead th", get("categories-table")).map(function (th) { return (th.querySelector(".plain") || th).textContent; });
    detail.textContent = "";
    all("th, td", row).forEach(function (part, i) {
      var name = document.createElement("span"), text = document.createElement("bdi");
      name.className = "dim";
      name.textContent = (i ? " · " : "") + headings[i] + " ";
      text.textContent = part.textContent.trim();
      detail.appendChild(name);
      detail.appendChild(text);
    });
  }
  function go(from, to) {
    if (!to || to.cellIndex === 0) { return; }
    from.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }
  if (heat) {
    all("tbody td", heat).forEach(function (cell) { cell.tabIndex = -1; });
    var first = all("tbody td", heat)[0];
    if (first) { first.tabIndex = 0; }
    heat.addEventListener("mouseover", function (e) { var c = e.target.closest("td[data-row]"); if (c) { tell(c); } });
    heat.addEventListener("focusin", function (e) { var c = e.target.closest("td[data-row]"); if (c) { tell(c); } });
    heat.addEventListener("keydown", function (e) {
      var cell = e.target.closest("tbody td");
      if (!cell) { return; }
      var row = cell.parentNode, next = null;
      if (e.key === "ArrowRight") { next = cell.nextElementSibling; }
      else if (e.key === "ArrowLeft") { next = cell.previousElementSibling; }
      else if (e.key === "ArrowDown" || e.key === "ArrowUp") {
        var other = row;
        do { other = e.key === "ArrowDown" ? other.nextElementSibling : other.previousElementSibling; } while (other && other.hidden);
        next = other && other.cells[cell.cellIndex];
      } else { return; }
      e.preventDefault();
      go(cell, next);
    });
  }

  // what is folded away on the screen, and short, is open on paper
  var closed = [];
  window.addEventListener("beforeprint", function () {
    closed = all(".on-paper:not([open])");
    closed.forEach(function (e) { e.open = true; });
  });
  window.addEventListener("afterprint", function () { closed.forEach(function (e) { e.open = false; }); });
})();
