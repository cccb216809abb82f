//! Text in a drawing.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::ChartError;
use super::palette::TEXT;
use super::strokes::{Area, failed};

/// The font that PNGs are drawn with, then what a viewer of the SVG may have in its place.
const FONT: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";
pub(super) const TEXT_PIXELS: f64 = 12.0;
pub(super) const NAME_PIXELS: f64 = 13.5;
pub(super) const TITLE_PIXELS: f64 = 17.0;

/// How wide a character is on average, in parts of the font's size.
const CHARACTER_WIDTH: f64 = 0.61;

/// How text of a size is written.
pub(super) fn style<'a>(pixels: f64) -> TextStyle<'a> {
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
    (content.chars().count() as f64 * pixels * CHARACTER_WIDTH).ceil() as i32
}

/// A text with its middle left out if it is too wide: an op's name tells most at its two ends.
pub(super) fn shorten(content: &str, pixels: f64, width: i32) -> String {
    let characters: Vec<char> = content.chars().collect();
    let fitting = (f64::from(width) / (pixels * CHARACTER_WIDTH)) as usize;
    if characters.len() <= fitting {
        return content.to_string();
    }
    let kept = fitting.saturating_sub(1);
    let (front, back) = (kept - kept / 3, kept / 3);
    let start: String = characters[..front].iter().collect();
    let end: String = characters[characters.len() - back..].iter().collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_loses_its_middle() {
        assert_eq!(shorten("short", 12.0, 100), "short");
        let short = shorten(&"ä".repeat(500), 12.0, 200);
        assert!(text_width(&short, 12.0) <= 200, "{short}");
        assert!(short.contains('…'));
    }
}
