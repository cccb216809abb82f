//! Which of a graph's sizes are free, and the shapes that follow when they get a size.

use std::fmt::{self, Display};
use std::str::FromStr;

use super::{GivenShape, GivenShapes, Shapes};
use crate::graph::{Graph, NodeAttrs, NodeId};

/// Sizes that are free together: the batch, or dimensions of a placeholder, as `images:1,2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dimensions {
    /// The placeholder; none for the batch.
    pub placeholder: Option<String>,
    /// Its dimensions, counted from 0.
    pub dimensions: Vec<usize>,
}

/// What names no free sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected `batch`, or a placeholder and its dimensions as in images:1,2")]
pub struct ParseDimensionsError;

/// Why a graph's dimensions cannot be given a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DimensionsError {
    /// A name that no node has.
    #[error("the graph has no node {placeholder:?}")]
    NoSuchNode {
        /// The name.
        placeholder: String,
    },
    /// A placeholder of which not even the number of dimensions is known.
    #[error("nothing is known of the shape of {placeholder}; give it with --shape {placeholder}=…")]
    UnknownShape {
        /// The placeholder.
        placeholder: String,
    },
    /// A dimension that the placeholder does not have.
    #[error("{placeholder} has the dimensions 0 to {last}")]
    NoSuchDimension {
        /// The placeholder.
        placeholder: String,
        /// Its last dimension, counted from 0.
        last: usize,
    },
}

impl FromStr for Dimensions {
    type Err = ParseDimensionsError;

    fn from_str(text: &str) -> Result<Dimensions, ParseDimensionsError> {
        if text == "batch" {
            return Ok(Dimensions { placeholder: None, dimensions: vec![0] });
        }
        let (name, dimensions) =
            text.rsplit_once(':').filter(|(name, _)| !name.is_empty()).ok_or(ParseDimensionsError)?;
        let dimensions: Result<Vec<usize>, _> = dimensions.split(',').map(str::parse).collect();
        Ok(Dimensions {
            placeholder: Some(name.to_string()),
            dimensions: dimensions.map_err(|_| ParseDimensionsError)?,
        })
    }
}

impl Display for Dimensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(name) = &self.placeholder else { return f.write_str("batch") };
        let dimensions: Vec<String> = self.dimensions.iter().map(ToString::to_string).collect();
        write!(f, "{name}:{}", dimensions.join(","))
    }
}

impl Dimensions {
    /// Puts a size into what is given of a graph's shapes.
    ///
    /// # Errors
    ///
    /// If the graph has no such placeholder or dimension, or if nothing is known of the placeholder's other dimensions.
    pub fn set(&self, size: u64, graph: &Graph, given: &mut GivenShapes) -> Result<(), DimensionsError> {
        let Some(name) = &self.placeholder else {
            given.batch_size = Some(size);
            return Ok(());
        };
        let placeholder = || name.clone();
        let place = given.shapes.iter().position(|given| given.placeholder == *name);
        let known = match place {
            Some(place) => Some(given.shapes.remove(place).dimensions),
            None => {
                let node = graph.node_ids().find(|&node| graph.name(node) == name);
                let node = node.ok_or_else(|| DimensionsError::NoSuchNode { placeholder: placeholder() })?;
                known_shape(graph, node)
            }
        };
        let mut dimensions =
            known.ok_or_else(|| DimensionsError::UnknownShape { placeholder: placeholder() })?;
        for &dimension in &self.dimensions {
            let last = dimensions.len().saturating_sub(1);
            let place = dimensions.get_mut(dimension);
            let place =
                place.ok_or_else(|| DimensionsError::NoSuchDimension { placeholder: placeholder(), last })?;
            *place = i64::try_from(size).unwrap_or(i64::MAX);
        }
        given.shapes.push(GivenShape { placeholder: placeholder(), dimensions });
        Ok(())
    }
}

/// The shape that a file declares for a node's first output, or that a placeholder asks its feed to have.
fn known_shape(graph: &Graph, node: NodeId) -> Option<Vec<i64>> {
    let declared = Shapes::declared(graph);
    let first = graph.outputs(node).next();
    let shape = first.and_then(|tensor| declared.get(tensor)).map(<[i64]>::to_vec);
    shape.or_else(|| NodeAttrs::shape(&graph.attrs(node), "shape"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_sizes_are_named_by_placeholder_and_dimension() {
        let parsed = |text: &str| text.parse::<Dimensions>();
        let of = |placeholder: Option<&str>, dimensions: &[usize]| Dimensions {
            placeholder: placeholder.map(str::to_string),
            dimensions: dimensions.to_vec(),
        };
        assert_eq!(parsed("batch"), Ok(of(None, &[0])));
        assert_eq!(parsed("images:1,2"), Ok(of(Some("images"), &[1, 2])));
        assert_eq!(parsed("scope/images:1"), Ok(of(Some("scope/images"), &[1])));
        for text in ["batch", "images:1,2", "scope/images:3"] {
            assert_eq!(parsed(text).unwrap().to_string(), text);
        }
        for wrong in ["", "images", "images:", ":1", "images:x", "images:-1", "images:1/2"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
