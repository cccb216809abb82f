//! What is fed and does not count.

use crate::simulate::Outline;

/// How many are named.
const MOST_NAMED: usize = 3;

/// Which placeholders' copies on a GPU count nothing, since nobody said how large they are.
pub fn uncounted_note(outline: &Outline) -> Option<String> {
    let graph = outline.analysis().graph;
    let feeds = outline.uncounted_feeds();
    let named: Vec<&str> = feeds.iter().take(MOST_NAMED).map(|&node| graph.name(node)).collect();
    let more = if feeds.len() > MOST_NAMED { ", …" } else { "" };
    (!named.is_empty()).then(|| {
        format!(
            "nobody said how large what is fed to {}{more} is: its copy on a GPU counts nothing, unless its shape is given",
            named.join(", ")
        )
    })
}
