// Tabs by pointer and keyboard, and the charts: first those in sight, the others when the page is idle.
(function () {
  "use strict";
  const tabs = Array.from(document.querySelectorAll('[role="tab"]'));
  const panels = tabs.map((tab) => document.getElementById(tab.getAttribute("aria-controls")));
  const config = JSON.parse(document.getElementById("chart-config").textContent);
  const views = new Map();
  const begun = new Set();
  const charts = Array.from(document.querySelectorAll(".chart"));

  // The widths of figures are equal in all sections, and so are those of small panels; a hidden one has none.
  function width(chart) {
    const small = chart.classList.contains("small");
    const shown = charts.find((each) => each.clientWidth > 0 && each.classList.contains("small") === small);
    if (small && !chart.clientWidth && !shown) return 220;
    const own = chart.clientWidth || (shown ? shown.clientWidth : Math.min(520, document.body.clientWidth - 40));
    return Math.max(220, Math.floor(own) - 4);
  }

  function draw(chart) {
    if (begun.has(chart)) return Promise.resolve();
    begun.add(chart);
    const spec = JSON.parse(document.getElementById(chart.dataset.spec).textContent);
    spec.width = width(chart);
    spec.autosize = { type: "fit", contains: "padding" };
    // Expressions are interpreted: the page's policy forbids code made from text.
    return window
      .vegaEmbed(chart, spec, { ast: true, actions: false, renderer: "svg", config, tooltip: { theme: "custom" } })
      .then(function (result) {
        views.set(chart, result.view);
        chart.classList.add("drawn");
      })
      .catch(function (error) {
        chart.textContent = "This chart could not be drawn; its table is below.";
        chart.classList.add("drawn");
        console.error(error);
      });
  }

  function idle(then) {
    if (window.requestIdleCallback) window.requestIdleCallback(then, { timeout: 2000 });
    else window.setTimeout(then, 50);
  }

  async function drawIn(panel) {
    for (const chart of panel.querySelectorAll(".chart")) await draw(chart);
  }

  function drawRest() {
    const next = charts.find((chart) => !begun.has(chart));
    if (!next) {
      document.documentElement.dataset.charts = "drawn";
      return;
    }
    idle(() => draw(next).then(drawRest));
  }

  function select(index, focus) {
    tabs.forEach(function (tab, place) {
      const chosen = place === index;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      panels[place].hidden = !chosen;
    });
    if (focus) tabs[index].focus();
    return drawIn(panels[index]);
  }

  function choose(index, focus) {
    try {
      history.replaceState(null, "", "#" + panels[index].id);
    } catch (error) {
      // A page from a sandbox has no history.
    }
    return select(index, focus);
  }

  tabs.forEach(function (tab, index) {
    tab.addEventListener("click", function (event) {
      event.preventDefault();
      choose(index, true);
    });
    tab.addEventListener("keydown", function (event) {
      const last = tabs.length - 1;
      const to = { ArrowRight: index === last ? 0 : index + 1, ArrowLeft: index === 0 ? last : index - 1, Home: 0, End: last, " ": index };
      if (!(event.key in to)) return;
      event.preventDefault();
      choose(to[event.key], true);
    });
  });

  function named() {
    return Math.max(0, panels.findIndex((panel) => "#" + panel.id === location.hash));
  }
  window.addEventListener("hashchange", function () {
    const index = panels.findIndex((panel) => "#" + panel.id === location.hash);
    if (index >= 0) select(index, false);
  });

  let resized = 0;
  window.addEventListener("resize", function () {
    window.clearTimeout(resized);
    resized = window.setTimeout(function () {
      views.forEach((view, chart) => view.width(width(chart)).runAsync());
    }, 150);
  });

  select(named(), false).then(drawRest);
})();
