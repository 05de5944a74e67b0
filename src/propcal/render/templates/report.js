(function () {
  "use strict";
  var all = function (selector, root) { return Array.prototype.slice.call((root || document).querySelectorAll(selector)); };
  var get = function (id) { return document.getElementById(id); };
  all(".needs-script, button.sort").forEach(function (e) { e.hidden = false; });
  all(".no-script, th > .plain").forEach(function (e) { e.hidden = true; });

  // on a phone tables show their key columns, and all of them on request
  all("button.columns").forEach(function (button) {
    button.addEventListener("click", function () {
      var wide = get(button.getAttribute("data-columns")).classList.toggle("all-columns");
      button.setAttribute("aria-pressed", String(wide));
      button.textContent = wide ? "key columns" : "all columns";
    });
  });

  // long tables show their first rows, and the rest on request
  var AT_ONCE = 60;
  all("table.sortable").forEach(function (table) {
    var rows = all("tr", table.tBodies[0]);
    if (rows.length <= AT_ONCE + 10) { return; }
    var button = document.createElement("button");
    button.type = "button";
    button.className = "rest";
    button.textContent = "Show all " + rows.length + " rows";
    table.classList.add("long");
    rows.slice(AT_ONCE).forEach(function (row) { row.hidden = true; row.classList.add("rest-row"); });
    button.addEventListener("click", function () { unfold(table); });
    table.parentNode.parentNode.insertBefore(button, table.parentNode.nextSibling);
    table.unfold = button;
  });
  function unfold(table) {
    if (!table.unfold) { return; }
    all("tr.rest-row", table).forEach(function (row) { row.hidden = false; });
    table.unfold.remove();
    table.unfold = null;
  }

  // sorting: a button in each heading
  function value(row, place, kind) {
    var cell = row.cells[place];
    var text = cell.hasAttribute("data-v") ? cell.getAttribute("data-v") : cell.textContent;
    if (kind === "text") { return text; }
    var number = parseFloat(text.replace(/[<,\s]/g, "").replace("−", "-"));
    return isNaN(number) ? null : number;
  }
  function sort(table, heading) {
    unfold(table);
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
    unfold(get(id));
    var text = words.value.toLowerCase(), kind = finding ? finding.value : "", shown = 0;
    var rows = all("tr", get(id).tBodies[0]);
    rows.forEach(function (row) {
      var named = row.cells[0].textContent.toLowerCase().indexOf(text) >= 0;
      var found = !kind || all(".finding", row)[0].textContent.indexOf(kind) >= 0;
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
    var row = all("#categories-table tr[data-key='" + cell.getAttribute("data-row") + "']")[0];
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

  // the group that the reader picks
  function pictures(groups) {
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
  }

  // thresholds: the table at any whole percent, and at those that were given
  function thresholds(content) {
    var slider = get("threshold"), Z = 1.959963984540054;
    function last() {
      if (!content.audits) { return content; }
      var names = Object.keys(content.audits);
      return content.audits[names[names.length - 1]];
    }
    function wilson(share, n) {
      if (share === null || !(n > 0)) { return null; }
      var shrink = Z * Z / n, middle = (share + shrink / 2) / (1 + shrink);
      var reach = Z / (1 + shrink) * Math.sqrt(share * (1 - share) / n + shrink / (4 * n));
      return [Math.max(middle - reach, 0), Math.min(middle + reach, 1)];
    }
    function number(value) {
      if (value === null || !isFinite(value)) { return "–"; }
      var text = (100 * value).toFixed(1);
      return (parseFloat(text) === 0 ? "0.0" : text).replace("-", "−");
    }
    function put(cell, value, ends) {
      cell.textContent = number(value);
      cell.setAttribute("data-v", number(value));
      if (!ends || ends[0] === null) { return; }
      var interval = document.createElement("span");
      interval.className = "ci";
      interval.textContent = number(ends[0]) + " to " + number(ends[1]);
      cell.appendChild(interval);
    }
    function act(threshold) {
      var audit = last(), groups = {}, points = {};
      var label = parseFloat((100 * threshold).toPrecision(4)) + " %";
      audit.groups.forEach(function (g) { groups[g.group] = g; });
      audit.net_benefit.forEach(function (p) { points[p.group] = p; });
      get("threshold-value").textContent = label;
      var table = get("threshold-0-table");
      table.caption.textContent = table.caption.textContent.replace(/^Threshold [^:]*/, "Threshold " + label);
      all("tr", table.tBodies[0]).forEach(function (row) {
        var g = groups[row.getAttribute("data-key")], p = points[row.getAttribute("data-key")];
        if (!p) { return; }
        var i = p.threshold.findIndex(function (t) { return Math.abs(t - threshold) < 1e-6; });
        var n = g.people / g.design_effect, rate = g.outcome_rate;
        var flagged = p.treated[i], found = p.sensitivity[i], spared = p.specificity[i];
        var right = flagged > 0 && found !== null ? found * rate / flagged : null;
        put(row.cells[1], flagged, wilson(flagged, n));
        put(row.cells[2], found, wilson(found, n * rate));
        put(row.cells[3], spared, wilson(spared, n * (1 - rate)));
        put(row.cells[4], right, wilson(right, n * flagged));
        put(row.cells[5], p.net_benefit[i], [p.low[i], p.high[i]]);
        // arithmetic would take a number that is withheld (null) for 0
        var withheld = p.net_benefit[i] === null || p.treat_all[i] === null;
        var avoided = (p.net_benefit[i] - p.treat_all[i]) * (1 - threshold) / threshold;
        put(row.cells[6], withheld ? null : avoided);
      });
      all("button.choose").forEach(function (b) {
        b.setAttribute("aria-pressed", String(Math.abs(+b.getAttribute("data-threshold") - threshold) < 1e-6));
      });
    }
    if (slider) {
      slider.addEventListener("input", function () { act(slider.value / 100); });
      all("button.choose").forEach(function (b) {
        b.addEventListener("click", function () {
          var threshold = +b.getAttribute("data-threshold");
          slider.value = Math.round(100 * threshold);
          act(threshold);
        });
      });
      if (all("button.choose").length) { act(+all("button.choose")[0].getAttribute("data-threshold")); }
    }
  }

  // the numbers of the page: JSON, compressed with gzip, as base64
  function unpack(id) {
    var bytes = Uint8Array.from(atob(get(id).textContent), function (c) { return c.charCodeAt(0); });
    var stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  }
  Promise.all([unpack("groups-data"), unpack("audit-data")]).then(function (unpacked) {
    pictures(unpacked[0]);
    thresholds(unpacked[1]);
    document.documentElement.setAttribute("data-ready", "");
  });

  // what is folded away on the screen, and short, is open on paper
  var closed = [];
  window.addEventListener("beforeprint", function () {
    closed = all(".on-paper:not([open])");
    closed.forEach(function (e) { e.open = true; });
  });
  window.addEventListener("afterprint", function () { closed.forEach(function (e) { e.open = false; }); });
})();
