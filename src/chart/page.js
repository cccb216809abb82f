"use strict";
// Shows, where one points at a panel, what its curves say there.
(() => {
  const pointing = JSON.parse(document.getElementById("pointing").textContent);
  const figure = document.querySelector("svg");
  const tip = document.getElementById("tip");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  line.setAttribute("stroke", "#222222");
  line.setAttribute("stroke-width", "1");
  line.setAttribute("pointer-events", "none");
  line.setAttribute("visibility", "hidden");
  figure.append(line);

  const number = (value, unit, isLogarithmic) =>
    `${Number((isLogarithmic ? 2 ** value : value).toPrecision(4))} ${unit}`.trim();

  // The place of the last point at or before x, -1 if there is none.
  const lastBefore = (points, x) => {
    let low = 0;
    let high = points.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle][0] <= x) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  };

  // The point of a curve of steps that is shown for what lies between two places, undefined where there is no step.
  // Many points can lie under one pixel: then the highest is meant, as it is what one sees.
  const stepAt = (points, from, to) => {
    let best = lastBefore(points, from);
    let next = best + 1;
    // Behind its last point a step is over.
    if (next === points.length && points[best]?.[0] < from) return undefined;
    for (; next < points.length && points[next][0] <= to; next += 1) {
      if (best < 0 || points[next][1] > points[best][1]) best = next;
    }
    return points[best];
  };

  // Of all places where something was measured, the one that is nearest to x.
  const nearest = (curves, x) => {
    const places = curves.flatMap((curve) => curve.points.map((point) => point[0]));
    return places.reduce((best, place) => (Math.abs(place - x) < Math.abs(best - x) ? place : best), places[0] ?? x);
  };

  const add = (text, className, colour) => {
    const row = document.createElement("div");
    row.textContent = text;
    if (className) row.className = className;
    if (colour) row.style.borderLeftColor = colour;
    tip.append(row);
  };

  const hide = () => {
    tip.hidden = true;
    line.setAttribute("visibility", "hidden");
  };

  const show = (event) => {
    const matrix = figure.getScreenCTM();
    if (!matrix) return hide();
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    const panel = pointing.panels.find(
      (one) => at.x >= one.left && at.x < one.left + one.width && at.y >= one.top && at.y < one.top + one.height,
    );
    if (!panel) return hide();
    const x = ((at.x - panel.left) / Math.max(panel.width - 1, 1)) * panel.x_end;

    line.setAttribute("x1", at.x);
    line.setAttribute("x2", at.x);
    line.setAttribute("y1", panel.top);
    line.setAttribute("y2", panel.top + panel.height);
    line.setAttribute("visibility", "visible");

    const measured = panel.curves.filter((curve) => curve.reading === "points");
    const place = measured.length > 0 ? nearest(measured, x) : x;
    const half = panel.x_end / Math.max(panel.width - 1, 1) / 2;
    tip.replaceChildren();
    add(number(place, pointing.x_unit, pointing.x_is_logarithmic), "at");
    for (const curve of panel.curves) {
      const point =
        curve.reading === "points"
          ? curve.points.find((one) => one[0] === place)
          : stepAt(curve.points, x - half, x + half);
      if (point === undefined) continue;
      add(`${curve.name}: ${number(point[1], panel.y_unit, panel.y_is_logarithmic)}`, "curve", curve.colour);
      for (const text of point[2] === null ? [] : pointing.labels[point[2]]) add(text, "label");
    }
    tip.hidden = false;

    // Beside the pointer, and within the window.
    const room = { width: document.documentElement.clientWidth, height: document.documentElement.clientHeight };
    const right = event.clientX + 16;
    const left = right + tip.offsetWidth <= room.width ? right : event.clientX - 16 - tip.offsetWidth;
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${Math.max(0, Math.min(event.clientY + 16, room.height - tip.offsetHeight))}px`;
  };

  figure.addEventListener("pointermove", show);
  figure.addEventListener("pointerdown", show);
  figure.addEventListener("pointerleave", hide);
})();
