//! What is swept: which sizes, from where to where, in which steps.

use std::fmt::{self, Display};
use std::str::FromStr;

use super::GraphArgs;
use crate::graph::Graph;
use crate::shape::{Dimensions, ParseDimensionsError};

/// What is swept: `images:1,2=500..9500/500`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepSpec {
    /// All of them get the same size.
    pub free: Vec<Dimensions>,
    first: u64,
    /// Swept too, if a step leads there.
    last: u64,
    step: u64,
}

/// What describes no sweep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseSweepError {
    /// No `=`, or no `..`, or no numbers around it.
    #[error("expected sizes and a range, as in batch=1..16 or images:1,2=500..9500/500")]
    Form,
    /// What is left of `=`.
    #[error("{0:?}: {1}")]
    Sizes(String, ParseDimensionsError),
    /// No size lies in the range.
    #[error("the range must begin at 1 or more, end where it begins or above, and have steps of 1 or more")]
    Range,
    /// So many that the step must have been forgotten.
    #[error("that is more than {MOST} sizes; give a larger step, as in images:1,2=500..9500/500")]
    Many,
}

/// The most sizes of a sweep. Each takes seconds.
const MOST: u64 = 10_000;

impl FromStr for SweepSpec {
    type Err = ParseSweepError;

    fn from_str(text: &str) -> Result<SweepSpec, ParseSweepError> {
        let (sizes, range) = text.split_once('=').ok_or(ParseSweepError::Form)?;
        let (range, step) = range.split_once('/').map_or((range, "1"), |(range, step)| (range, step));
        let (first, last) = range.split_once("..").ok_or(ParseSweepError::Form)?;
        let number = |text: &str| text.parse().map_err(|_| ParseSweepError::Form);
        let (first, last, step): (u64, u64, u64) = (number(first)?, number(last)?, number(step)?);
        // TensorFlow counts in 63 bits.
        if first < 1 || last < first || step < 1 || i64::try_from(last).is_err() {
            return Err(ParseSweepError::Range);
        }
        if (last - first) / step >= MOST {
            return Err(ParseSweepError::Many);
        }
        let dimensions =
            |text: &str| text.parse().map_err(|error| ParseSweepError::Sizes(text.to_string(), error));
        // No name of TensorFlow's has a `+` in it.
        let free = sizes.split('+').map(dimensions).collect::<Result<_, _>>()?;
        Ok(SweepSpec { free, first, last, step })
    }
}

impl Display for SweepSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}..{}", self.sizes_name(), self.first, self.last)?;
        if self.step > 1 { write!(f, "/{}", self.step) } else { Ok(()) }
    }
}

impl SweepSpec {
    /// What is left of the `=`.
    pub fn sizes_name(&self) -> String {
        self.free.iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
    }

    /// The sizes, from the least to the largest.
    pub fn sizes(&self) -> impl Iterator<Item = u64> + use<> {
        let (last, step) = (self.last, self.step);
        std::iter::successors(Some(self.first), move |size| {
            size.checked_add(step).filter(|&next| next <= last)
        })
    }

    /// The flags that describe the graph, with one size put in for all that is free.
    ///
    /// # Errors
    ///
    /// If the graph has no such dimensions.
    pub fn graph_args(&self, size: u64, graph: &Graph, args: &GraphArgs) -> anyhow::Result<GraphArgs> {
        let flag = format!("--sweep {self}");
        self.free.iter().try_fold(args.clone(), |sized, free| sized.with_size(free, size, graph, &flag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_sizes_and_a_range() {
        let sizes = |text: &str| text.parse::<SweepSpec>().unwrap().sizes().collect::<Vec<_>>();
        assert_eq!(sizes("batch=1..4"), [1, 2, 3, 4]);
        assert_eq!(sizes("images:1,2=500..1700/500"), [500, 1000, 1500]);
        assert_eq!(sizes("volume:1,2,3+truth:1,2,3=16..16/16"), [16]);
        assert_eq!(sizes("batch=9223372036854775806..9223372036854775807/9"), [9223372036854775806]);
        for text in ["batch=1..16", "images:1,2=500..9500/500", "a/volume:1,2+b:0=8..64/8"] {
            assert_eq!(text.parse::<SweepSpec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_spec_is_told_apart() {
        let error = |text: &str| text.parse::<SweepSpec>().unwrap_err();
        for form in [
            "",
            "batch",
            "batch=",
            "batch=1",
            "batch=1..",
            "batch=a..b",
            "batch=1..2/x",
            "1..2",
            "batch=-1..2",
        ] {
            assert_eq!(error(form), ParseSweepError::Form, "{form}");
        }
        for range in ["batch=0..4", "batch=4..3", "batch=1..4/0", "batch=1..18446744073709551615"] {
            assert_eq!(error(range), ParseSweepError::Range, "{range}");
        }
        assert_eq!(error("batch=1..10001"), ParseSweepError::Many);
        for sizes in ["images=1..2", "=1..2", "images:x=1..2", "batch+=1..2", "batch/4=1..8"] {
            assert!(matches!(error(sizes), ParseSweepError::Sizes(..)), "{sizes}");
        }
    }
}
