//! Shapes that the user gives: a batch size, the shape of a placeholder, and the numbers that are fed to one which sizes depend on.
//!
//! They are never written to the model. [`GivenShapes::resolve`] checks them against the graph, and
//! [`PlaceholderShapes::graph_def`] makes the copy of the graph from which TensorFlow infers all other shapes.
//!
//! A file may declare shapes for another batch size than its placeholders are now given. TensorFlow would believe them,
//! or refuse the graph. So where a placeholder's own declared shape contradicts what it is given, the declared
//! shapes of all that is computed from it are out of date, and do not count.

mod error;
mod parse;
mod placeholders;
mod value;

#[cfg(test)]
mod tests;

pub use error::GivenShapeError;
pub use parse::{GivenShape, ParseShapeError};
pub use placeholders::{Declared, PlaceholderShapes};
pub use value::{FedValue, GivenValue, ParseValueError};

use crate::graph::{ByName, Graph, NodeId};
use crate::ops::Fact;
use error::Show;
use placeholders::outdated;

/// The attribute that holds a placeholder's shape.
const SHAPE: &str = "shape";
/// The attribute that holds what was inferred from it when the file was written.
const OUTPUT_SHAPES: &str = "_output_shapes";

/// All shapes that the user gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenShapes {
    /// The first dimension of each placeholder that leaves it open.
    pub batch_size: Option<u64>,
    /// The shapes of single placeholders.
    pub shapes: Vec<GivenShape>,
    /// What is fed to single placeholders.
    pub values: Vec<GivenValue>,
}

impl GivenShapes {
    /// Whether nothing is given.
    pub fn is_empty(&self) -> bool {
        self.batch_size.is_none() && self.shapes.is_empty() && self.values.is_empty()
    }

    /// Finds the placeholders, and checks that what is given fits them.
    ///
    /// The batch size goes to each placeholder whose first dimension neither the graph nor a shape given for it fixes.
    ///
    /// # Errors
    ///
    /// If a name is no placeholder's, or if what is given contradicts the graph.
    pub fn resolve(&self, graph: &Graph) -> Result<PlaceholderShapes, GivenShapeError> {
        let mut resolved = PlaceholderShapes::default();
        if self.is_empty() {
            return Ok(resolved);
        }
        let placeholders: Vec<NodeId> =
            graph.node_ids().filter(|&node| is_placeholder(graph, node)).collect();
        let by_name = ByName::of(graph);
        let find = |flag, name: &str| find(graph, &by_name, &placeholders, flag, name);
        self.resolve_shapes(graph, find, &mut resolved)?;
        self.resolve_values(graph, find, &mut resolved)?;
        if let Some(batch_size) = self.batch_size {
            resolve_batch(batch_size, graph, &placeholders, &mut resolved)?;
        }
        resolved.outdated = outdated(graph, &resolved.shapes);
        Ok(resolved)
    }

    fn resolve_shapes(
        &self,
        graph: &Graph,
        find: impl Fn(&'static str, &str) -> Result<NodeId, GivenShapeError>,
        resolved: &mut PlaceholderShapes,
    ) -> Result<(), GivenShapeError> {
        for GivenShape { placeholder, dimensions } in &self.shapes {
            let name = placeholder.clone();
            let node = find("--shape", &name)?;
            let shape = match declared_shape(graph, node) {
                None => dimensions.clone(),
                Some(declared) => {
                    let merged = super::merge(dimensions, &declared);
                    let given = dimensions.clone();
                    merged.ok_or(GivenShapeError::Contradiction { name: name.clone(), given, declared })?
                }
            };
            if resolved.shapes.insert(node, shape).is_some() {
                return Err(GivenShapeError::Twice { name });
            }
        }
        Ok(())
    }

    fn resolve_values(
        &self,
        graph: &Graph,
        find: impl Fn(&'static str, &str) -> Result<NodeId, GivenShapeError>,
        resolved: &mut PlaceholderShapes,
    ) -> Result<(), GivenShapeError> {
        for GivenValue { placeholder, numbers } in &self.values {
            let node = find("--value", placeholder)?;
            let value = FedValue::of(graph, node, resolved.shapes.get(&node), numbers)?;
            resolved.shapes.insert(node, value.shape().to_vec());
            if resolved.values.insert(node, value).is_some() {
                let why = "is given twice".to_string();
                return Err(GivenShapeError::Value { name: placeholder.clone(), why });
            }
        }
        Ok(())
    }
}

/// The placeholder of a name that a flag has.
fn find(
    graph: &Graph,
    by_name: &ByName,
    placeholders: &[NodeId],
    flag: &'static str,
    name: &str,
) -> Result<NodeId, GivenShapeError> {
    let known = || placeholders.iter().map(|&node| graph.name(node).to_string()).collect();
    let name = name.to_string();
    match by_name.node(&name) {
        None => Err(GivenShapeError::NoSuchNode { flag, name, placeholders: known() }),
        Some(node) if is_placeholder(graph, node) => Ok(node),
        Some(node) => {
            let op = graph.op(node).name().to_string();
            Err(GivenShapeError::NotAPlaceholder { flag, name, op, placeholders: known() })
        }
    }
}

fn resolve_batch(
    batch_size: u64,
    graph: &Graph,
    placeholders: &[NodeId],
    resolved: &mut PlaceholderShapes,
) -> Result<(), GivenShapeError> {
    let size = i64::try_from(batch_size).ok().filter(|&size| size > 0);
    let size = size.ok_or(GivenShapeError::BatchSize(batch_size))?;
    let mut shown = Vec::new();
    let mut is_used = false;
    for &node in placeholders {
        let shape = resolved.shapes.get(&node).cloned().or_else(|| declared_shape(graph, node));
        shown.push(format!("{} {}", graph.name(node), Show(shape.as_deref())));
        let Some(mut shape) = shape else { continue };
        if let Some(first @ ..0) = shape.first_mut() {
            *first = size;
            is_used = true;
            resolved.shapes.insert(node, shape);
        }
    }
    if is_used { Ok(()) } else { Err(GivenShapeError::NoFreeBatch { batch_size, placeholders: shown }) }
}

fn is_placeholder(graph: &Graph, node: NodeId) -> bool {
    graph.op(node).facts().has(Fact::Fed)
}

/// The shape that a placeholder asks its feed to have; none if any will do.
fn declared_shape(graph: &Graph, node: NodeId) -> Option<Vec<i64>> {
    graph.attrs(node).shape(SHAPE)
}
