//! What is wrong with shapes that are given.

use std::fmt;

/// Dimensions as messages show them: `[?, 224, 224, 3]`.
pub(super) struct Show<'a>(pub Option<&'a [i64]>);

impl fmt::Display for Show<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(dimensions) = self.0 else { return f.write_str("of unknown rank") };
        f.write_str("[")?;
        for (index, &dimension) in dimensions.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            match dimension {
                ..0 => write!(f, "{comma}?")?,
                _ => write!(f, "{comma}{dimension}")?,
            }
        }
        f.write_str("]")
    }
}

/// Why the shapes that the user gave do not fit the graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GivenShapeError {
    /// No node of this name.
    #[error(
        "{flag} {name}: the graph has no node of that name; its placeholders are {}",
        names(placeholders)
    )]
    NoSuchNode {
        /// The flag that has the name.
        flag: &'static str,
        /// The name.
        name: String,
        /// The placeholders that there are.
        placeholders: Vec<String>,
    },
    /// A node of another op.
    #[error(
        "{flag} {name}: that node is a {op}, not a placeholder; the graph's placeholders are {}",
        names(placeholders)
    )]
    NotAPlaceholder {
        /// The flag that has the name.
        flag: &'static str,
        /// The name.
        name: String,
        /// Its op.
        op: String,
        /// The placeholders that there are.
        placeholders: Vec<String>,
    },
    /// Two shapes for one placeholder.
    #[error("--shape {name}: is given twice")]
    Twice {
        /// The placeholder.
        name: String,
    },
    /// A shape that the graph rules out.
    #[error(
        "--shape {name}: {} contradicts the graph, in which the placeholder is {}",
        Show(Some(given)),
        Show(Some(declared))
    )]
    Contradiction {
        /// The placeholder.
        name: String,
        /// The shape that the user gave.
        given: Vec<i64>,
        /// What the graph says, -1 for each free dimension.
        declared: Vec<i64>,
    },
    /// Numbers that a placeholder cannot be fed.
    #[error("--value {name}: {why}")]
    Value {
        /// The placeholder.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A batch size where none is free.
    #[error("--batch-size {batch_size}: no placeholder has a free first dimension ({})", placeholders.join(", "))]
    NoFreeBatch {
        /// The batch size.
        batch_size: u64,
        /// The placeholders with their shapes.
        placeholders: Vec<String>,
    },
    /// A batch size that cannot be.
    #[error("--batch-size {0}: a batch size is at least 1 and fits in 63 bits")]
    BatchSize(u64),
}

fn names(placeholders: &[String]) -> String {
    const MOST: usize = 10;
    match placeholders {
        [] => "none".to_string(),
        few if few.len() <= MOST => few.join(", "),
        many => format!("{} and {} more", many[..MOST].join(", "), many.len() - MOST),
    }
}
