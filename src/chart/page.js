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

  const number = (value, unit) => `${Number(value.toPrecision(4))} ${unit}`.trim();

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

  // The point of a curve that is shown at x, or undefined where the curve says nothing.
  const pointAt = (curve, x) => {
    const points = curve.points;
    const before = lastBefore(points, x);
    if (curve.reading === "points") {
      const near = [points[before], points[before + 1]].filter((point) => point !== undefined);
      near.sort((a, b) => Math.abs(a[0] - x) - Math.abs(b[0] - x));
      return near[0];
    }
    // Behind its last point a step is over.
    return before === points.length - 1 && points[before]?.[0] < x ? undefined : points[before];
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

    tip.replaceChildren();
    add(number(x, pointing.x_unit), "at");
    for (const curve of panel.curves) {
      const point = pointAt(curve, x);
      if (point === undefined) continue;
      const from = `from ${number(point[0], pointing.x_unit)}`;
      const where = curve.reading === "points" ? `at ${number(point[0], pointing.x_unit)}` : from;
      add(`${curve.name}: ${number(point[1], panel.y_unit)} ${where}`, "curve", curve.colour);
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
