//! A drawing as pixels.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};

use super::ChartError;
use super::strokes::failed;

/// A font for machines that have none; its licence lies beside it.
const FONT: &[u8] = include_bytes!("font/DejaVuSans-subset.ttf");

/// A PNG has this many pixels for each of the drawing's, so that its text stays sharp.
const PIXELS_PER_UNIT: f32 = 2.0;

/// Renders SVG. Only the font that comes along is used, so that every machine makes the same pixels.
pub(super) fn render(svg: &str) -> Result<Vec<u8>, ChartError> {
    let mut fonts = Database::new();
    fonts.load_font_data(FONT.to_vec());
    let options = Options { fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(failed)?;
    let size = tree.size().to_int_size().scale_by(PIXELS_PER_UNIT);
    let size = size.ok_or_else(|| failed("it has no size"))?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or_else(|| failed("it is too large"))?;
    let scale = Transform::from_scale(PIXELS_PER_UNIT, PIXELS_PER_UNIT);
    resvg::render(&tree, scale, &mut pixels.as_mut());
    pixels.encode_png().map_err(failed)
}
