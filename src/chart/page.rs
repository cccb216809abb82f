//! A drawing as a page of its own, which needs no other file and no network.

use super::ChartError;
use super::figure::Drawing;

const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// The page: the drawing, the points that it was drawn of, and the script that shows them where one points.
pub(super) fn page(drawing: &Drawing) -> Result<String, ChartError> {
    let pointing = serde_json::to_string(&drawing.pointing)
        .map_err(|error| ChartError::Draw { reason: error.to_string() })?
        // A name could hold `</script>`; in JSON a `<` can always be written so.
        .replace('<', "\\u003c");
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n{}<div id=\"tip\" hidden></div>\n\
         <script type=\"application/json\" id=\"pointing\">{pointing}</script>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        escape(&drawing.title),
        drawing.svg,
    ))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
