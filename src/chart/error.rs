//! Why a chart was not drawn.

use std::path::PathBuf;

use crate::format::FormatError;

/// What is wrong with a chart's values, or with the file that it should go to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChartError {
    /// A file name whose extension is none of those that can be written.
    #[error("{}: no chart can be written to such a file: its name must end in .svg, .png or .html", path.display())]
    Extension {
        /// The file.
        path: PathBuf,
    },
    /// NaN or infinity, or a time or size less than 0.
    #[error("{curve:?}, point {index}: its {quantity} is {value}, which has no place on the axis")]
    Value {
        /// The name of the curve, or of what else was to be drawn.
        curve: String,
        /// Which point, counted from 0.
        index: usize,
        /// Which of the point's numbers.
        quantity: &'static str,
        /// The number.
        value: f64,
    },
    /// Points of one curve that are not in the order of their times or sizes.
    #[error("{curve:?}, point {index}: its {quantity} is less than that of the point before it")]
    Order {
        /// The name of the curve.
        curve: String,
        /// Which point, counted from 0.
        index: usize,
        /// Which of the point's numbers.
        quantity: &'static str,
    },
    /// A point whose label is not in the table.
    #[error("{curve:?}, point {index}: its label is number {label} of a table of {labels}")]
    Label {
        /// The name of the curve.
        curve: String,
        /// Which point, counted from 0.
        index: usize,
        /// The label's number.
        label: u32,
        /// How many labels there are.
        labels: usize,
    },
    /// A PNG, which takes what this was built without.
    #[error(
        "this was built without PNG: name a file that ends in .svg or .html, or build it with --features png"
    )]
    NoPng,
    /// The drawing library gave up.
    #[error("the chart cannot be drawn: {reason}")]
    Draw {
        /// The library's reason.
        reason: String,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] FormatError),
}
