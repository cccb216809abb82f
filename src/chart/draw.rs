//! Draws a figure as SVG.

use std::fmt::Display;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::ChartError;
use super::figure::{Curve, Figure, Mark, Panel};
use super::legend::{self, Legend};
use super::pointing::Reading;
use super::thin::{column_of, kept_points};
use super::unit::number;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The font that PNGs are drawn with, then what a viewer of the SVG may have in its place.
const FONT: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";
pub(super) const TEXT_PIXELS: f64 = 12.0;
const NAME_PIXELS: f64 = 13.5;
const TITLE_PIXELS: f64 = 17.0;

/// Okabe and Ito's colours, which colour-blind people can tell apart.
const COLOURS: [RGBColor; 7] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];
const TEXT: RGBColor = RGBColor(34, 34, 34);
const AXIS: RGBColor = RGBColor(110, 110, 110);
const GRID: RGBColor = RGBColor(226, 226, 226);
pub(super) const LIMIT: RGBColor = RGBColor(34, 34, 34);
pub(super) const BAND: RGBColor = RGBColor(120, 120, 120);

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

fn failed(error: impl Display) -> ChartError {
    ChartError::Draw { reason: error.to_string() }
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
    let x_label = |value: &f64| number(*value, figure.x.end);
    let y_label = |value: &f64| number(*value, panel.y.end - panel.y.start);
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
struct Scale {
    x_end: f64,
    y_start: f64,
    y_end: f64,
    right: u32,
    bottom: u32,
}

impl Scale {
    fn x(&self, x: f64) -> i32 {
        column_of(x, self.x_end, self.right) as i32
    }

    fn y(&self, y: f64) -> i32 {
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
            draw_cross(plot, (scale.x(x), bottom - 8), colour)?;
        }
    }
    let limit = panel.limit.as_ref().map(|limit| scale.y(limit.y));
    if let Some(y) = limit {
        legend::dashes(plot, (0, right), y)?;
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

fn draw_cross(plot: &Area, (x, y): (i32, i32), colour: RGBColor) -> Result<(), ChartError> {
    for (from, to) in [((x - 6, y - 6), (x + 6, y + 6)), ((x - 6, y + 6), (x + 6, y - 6))] {
        plot.draw(&PathElement::new(vec![from, to], colour.stroke_width(3))).map_err(failed)?;
    }
    Ok(())
}

/// Marks the curves' peaks, and writes beside each its size, where nothing else was written.
fn draw_marks(
    plot: &Area,
    figure: &Figure,
    panel: &Panel,
    scale: &Scale,
    limit: Option<i32>,
) -> Result<(), ChartError> {
    let mut taken: Vec<Rect> = limit
        .map(|y| Rect { left: 0, right: scale.right as i32, top: y - 2, bottom: y + 2 })
        .into_iter()
        .collect();
    let peaks: Vec<(&Curve, &Mark)> =
        panel.curves.iter().filter_map(|curve| curve.peak.as_ref().map(|peak| (curve, peak))).collect();
    for (curve, peak) in peaks {
        let at = (scale.x(peak.x), scale.y(peak.y));
        let colour = colour(colour_of(figure, &curve.name));
        plot.draw(&Circle::new(at, 5, WHITE.filled())).map_err(failed)?;
        plot.draw(&Circle::new(at, 5, colour.stroke_width(2))).map_err(failed)?;
        let place = Rect::beside(at, text_width(&peak.text, TEXT_PIXELS), scale, &taken);
        plot.draw(&Rectangle::new(
            [(place.left, place.top), (place.right, place.bottom)],
            WHITE.mix(0.8).filled(),
        ))
        .map_err(failed)?;
        let centre = ((place.left + place.right) / 2, (place.top + place.bottom) / 2);
        text(plot, &peak.text, centre, TEXT_PIXELS, HPos::Center, VPos::Center)?;
        taken.push(place);
    }
    Ok(())
}

/// A rectangle of pixels.
#[derive(Debug, Clone, Copy)]
struct Rect {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl Rect {
    /// The first free place beside a point: above, below, to its right, to its left; above if none is free.
    fn beside((x, y): (i32, i32), width: i32, scale: &Scale, taken: &[Rect]) -> Rect {
        let (right, bottom, height, gap) = (scale.right as i32, scale.bottom as i32, 18, 8);
        let left = (x - width / 2).clamp(2, (right - width - 2).max(2));
        let places = [
            (left, y - gap - height),
            (left, y + gap),
            (x + gap, y - height / 2),
            (x - gap - width, y - height / 2),
        ];
        let boxes = places.map(|(left, top)| Rect { left, right: left + width, top, bottom: top + height });
        let free = |place: &&Rect| {
            place.left >= 0
                && place.right <= right
                && place.top >= 0
                && place.bottom <= bottom
                && !taken.iter().any(|other| place.overlaps(other))
        };
        boxes.iter().find(free).copied().unwrap_or(boxes[0])
    }

    fn overlaps(&self, other: &Rect) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

/// The number of a curve's colour. Curves of one name have one colour in all panels.
pub(super) fn colour_of(figure: &Figure, name: &str) -> usize {
    let mut names: Vec<&str> = Vec::new();
    for curve in figure.panels.iter().flat_map(|panel| &panel.curves) {
        if curve.name == name {
            break;
        }
        if !names.contains(&curve.name.as_str()) {
            names.push(&curve.name);
        }
    }
    names.len() % COLOURS.len()
}

/// The colour of a number.
pub(super) fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

/// The colour of a number as CSS has it.
pub(super) fn colour_text(number: usize) -> String {
    let RGBColor(red, green, blue) = colour(number);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn style<'a>(pixels: f64) -> TextStyle<'a> {
    // The library takes the height of a line for a font's size.
    TextStyle::from((FONT, pixels * 1.24).into_font()).color(&TEXT)
}

/// Writes a line of text.
pub(super) fn text(
    area: &Area,
    content: &str,
    at: (i32, i32),
    pixels: f64,
    horizontal: HPos,
    vertical: VPos,
) -> Result<(), ChartError> {
    let style = style(pixels).pos(Pos::new(horizontal, vertical));
    // XML has no way to write a control character.
    let content = content.replace(
        |character: char| character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}'),
        "\u{fffd}",
    );
    area.draw(&Text::new(content, at, style)).map_err(failed)
}

/// About how wide a text is. A viewer may use another font, so no more than that can be known.
pub(super) fn text_width(content: &str, pixels: f64) -> i32 {
    (content.chars().count() as f64 * pixels * 0.61).ceil() as i32
}
