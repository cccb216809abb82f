//! The colours of a drawing.

use plotters::style::RGBColor;

use super::figure::Figure;

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
pub(super) const TEXT: RGBColor = RGBColor(34, 34, 34);
pub(super) const AXIS: RGBColor = RGBColor(110, 110, 110);
pub(super) const GRID: RGBColor = RGBColor(226, 226, 226);
pub(super) const LIMIT: RGBColor = RGBColor(34, 34, 34);
pub(super) const BAND: RGBColor = RGBColor(120, 120, 120);

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
