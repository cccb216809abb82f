//! Draws a figure as SVG.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::ChartError;
use super::figure::{Curve, Figure, Panel};
use super::legend::Legend;
use super::marks::draw_marks;
use super::palette::{AXIS, BAND, GRID, colour, colour_of};
use super::pointing::Reading;
use super::strokes::{Area, cross, dashes, failed};
use super::text::{NAME_PIXELS, TEXT_PIXELS, TITLE_PIXELS, shorten, style, text};
use super::thin::{column_of, kept_points};

const WIDTH: u32 = 1000;
const MARGIN: i32 = 24;
const TITLE_HEIGHT: i32 = 48;
const PANEL_NAME_HEIGHT: i32 = 24;
const PLOT_HEIGHT: i32 = 270;
const TICK_LABELS_HEIGHT: i32 = 30;
const AXIS_TITLE_HEIGHT: i32 = 26;
const LEFT: i32 = 70;
const PANEL_GAP: i32 = 14;

/// Where a panel's plot went, and which points of its curves were drawn.
pub(super) struct Placed {
    pub(super) left: i32,
    pub(super) top: i32,
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) kept: Vec<Vec<usize>>,
}

/// Draws a figure and says where its panels went.
pub(super) fn draw(figure: &Figure, svg: &mut String) -> Result<Vec<Placed>, ChartError> {
    let legends: Vec<Legend> =
        figure.panels.iter().map(|panel| Legend::of(figure, panel, WIDTH as i32 - LEFT - MARGIN)).collect();
    let heights: Vec<i32> = legends.iter().map(panel_height).collect();
    let height = TITLE_HEIGHT + heights.iter().sum::<i32>() + AXIS_TITLE_HEIGHT;
    let root = SVGBackend::with_string(svg, (WIDTH, height as u32)).into_drawing_area();
    root.fill(&WHITE).map_err(failed)?;
    text(
        &root,
        &figure.title,
        (WIDTH as i32 / 2, TITLE_HEIGHT / 2),
        TITLE_PIXELS,
        HPos::Center,
        VPos::Center,
    )?;
    let mut placed = Vec::new();
    let mut top = TITLE_HEIGHT;
    for (index, panel) in figure.panels.iter().enumerate() {
        let area = root.clone().shrink((0, top), (WIDTH, heights[index] as u32));
        placed.push(draw_panel(&area, figure, panel, &legends[index])?);
        top += heights[index];
    }
    let middle = LEFT + (WIDTH as i32 - LEFT - MARGIN) / 2;
    text(&root, &figure.x.title(), (middle, top), TEXT_PIXELS, HPos::Center, VPos::Center)?;
    root.present().map_err(failed)?;
    drop(root);
    Ok(placed)
}

fn panel_height(legend: &Legend) -> i32 {
    PANEL_NAME_HEIGHT + legend.height() + PLOT_HEIGHT + TICK_LABELS_HEIGHT + PANEL_GAP
}

fn draw_panel(area: &Area, figure: &Figure, panel: &Panel, legend: &Legend) -> Result<Placed, ChartError> {
    let name = match panel.name.as_str() {
        "" => panel.y.title(),
        name => format!("{name}: {}", panel.y.title()),
    };
    let name = shorten(&name, NAME_PIXELS, WIDTH as i32 - LEFT - MARGIN);
    text(area, &name, (LEFT, PANEL_NAME_HEIGHT / 2), NAME_PIXELS, HPos::Left, VPos::Center)?;
    legend.draw(area, (LEFT, PANEL_NAME_HEIGHT))?;
    let mut chart = ChartBuilder::on(area)
        .margin_top(PANEL_NAME_HEIGHT + legend.height())
        .margin_right(MARGIN)
        .margin_bottom(PANEL_GAP)
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, TICK_LABELS_HEIGHT)
        .build_cartesian_2d(0.0..figure.x.end, panel.y.start..panel.y.end)
        .map_err(failed)?;
    let x_label = |value: &f64| figure.x.label(*value, figure.x.end);
    let y_label = |value: &f64| panel.y.label(*value, panel.y.end - panel.y.start);
    chart
        .configure_mesh()
        .x_labels(11)
        .y_labels(7)
        .max_light_lines(0)
        .bold_line_style(GRID)
        .axis_style(AXIS)
        .label_style(style(TEXT_PIXELS))
        .x_label_formatter(&x_label)
        .y_label_formatter(&y_label)
        .draw()
        .map_err(failed)?;
    let plot = chart.plotting_area().strip_coord_spec();
    let (x_range, y_range) = chart.plotting_area().get_pixel_range();
    let (width, height) = plot.dim_in_pixel();
    let scale = Scale {
        x_end: figure.x.end,
        y_start: panel.y.start,
        y_end: panel.y.end,
        right: width.saturating_sub(1),
        bottom: height.saturating_sub(1),
    };
    let kept = draw_curves(&plot, figure, panel, &scale)?;
    Ok(Placed { left: x_range.start, top: y_range.start, width: width as i32, height: height as i32, kept })
}

/// From an axis' values to pixels of the plot.
pub(super) struct Scale {
    pub(super) x_end: f64,
    pub(super) y_start: f64,
    pub(super) y_end: f64,
    pub(super) right: u32,
    pub(super) bottom: u32,
}

impl Scale {
    pub(super) fn x(&self, x: f64) -> i32 {
        column_of(x, self.x_end, self.right) as i32
    }

    pub(super) fn y(&self, y: f64) -> i32 {
        self.bottom as i32 - column_of(y - self.y_start, self.y_end - self.y_start, self.bottom) as i32
    }
}

fn draw_curves(
    plot: &Area,
    figure: &Figure,
    panel: &Panel,
    scale: &Scale,
) -> Result<Vec<Vec<usize>>, ChartError> {
    let (right, bottom) = (scale.right as i32, scale.bottom as i32);
    if let Some(band) = &panel.band {
        let rectangle = Rectangle::new([(0, scale.y(band.y)), (right, bottom)], BAND.mix(0.25).filled());
        plot.draw(&rectangle).map_err(failed)?;
    }
    let kept: Vec<Vec<usize>> =
        panel.curves.iter().map(|curve| kept_points(&curve.points, scale.x_end, scale.right)).collect();
    let lines: Vec<_> =
        panel.curves.iter().zip(&kept).map(|(curve, kept)| line_of(curve, kept, scale)).collect();
    // All areas come before all lines, which they would tint.
    for (curve, line) in panel.curves.iter().zip(&lines) {
        if curve.reading == Reading::Steps
            && let (Some(&(first, _)), Some(&(last, _))) = (line.first(), line.last())
        {
            let area: Vec<_> = line.iter().copied().chain([(last, bottom), (first, bottom)]).collect();
            let colour = colour(colour_of(figure, &curve.name));
            plot.draw(&Polygon::new(area, colour.mix(0.13))).map_err(failed)?;
        }
    }
    for ((curve, kept), line) in panel.curves.iter().zip(&kept).zip(lines) {
        let colour = colour(colour_of(figure, &curve.name));
        if curve.reading == Reading::Points || line.len() == 1 {
            for &index in kept {
                let (x, y) = curve.points[index];
                let dot = Circle::new((scale.x(x), scale.y(y)), 3, colour.filled());
                plot.draw(&dot).map_err(failed)?;
            }
        }
        if line.len() > 1 {
            plot.draw(&PathElement::new(line, colour.stroke_width(2))).map_err(failed)?;
        }
        if let Some(x) = curve.broken_at {
            cross(plot, (scale.x(x), bottom - 8), colour)?;
        }
    }
    let limit = panel.limit.as_ref().map(|limit| scale.y(limit.y));
    if let Some(y) = limit {
        dashes(plot, (0, right), y)?;
    }
    draw_marks(plot, figure, panel, scale, limit)?;
    Ok(kept)
}

/// The pixels that a curve leads through, without those that lie on a straight line between others.
fn line_of(curve: &Curve, kept: &[usize], scale: &Scale) -> Vec<(i32, i32)> {
    let mut line: Vec<(i32, i32)> = Vec::new();
    for &index in kept {
        let (x, y) = curve.points[index];
        let next = (scale.x(x), scale.y(y));
        if let (Reading::Steps, Some(&(_, y_before))) = (curve.reading, line.last()) {
            extend(&mut line, (next.0, y_before));
        }
        extend(&mut line, next);
    }
    line
}

fn extend(line: &mut Vec<(i32, i32)>, next: (i32, i32)) {
    if line.last() == Some(&next) {
        return;
    }
    if let [.., before, last] = line[..] {
        let onward = |a: i32, b: i32, c: i32| (a <= b && b <= c) || (a >= b && b >= c);
        let level = before.1 == last.1 && last.1 == next.1 && onward(before.0, last.0, next.0);
        let upright = before.0 == last.0 && last.0 == next.0 && onward(before.1, last.1, next.1);
        if level || upright {
            line.pop();
        }
    }
    line.push(next);
}
