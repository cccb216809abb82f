//! The values of all placeholders that a step reads.

use std::collections::BTreeMap;

use super::feed::{FeedSpec, Values};
use super::{Recipe, TrainError, npy};
use crate::dtype::DataType;
use crate::graph::{Graph, NodeId};
use crate::ops::{Attr, AttrLookup, Fact};
use crate::runtime::{Tensor, TensorError};
use crate::shape::{FedValue, PlaceholderShapes};

/// A placeholder with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Fed {
    /// The placeholder.
    pub name: String,
    /// Its value.
    pub tensor: Tensor,
}

/// What each step is fed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Feeds(pub Vec<Fed>);

impl Feeds {
    /// Makes the values of the placeholders that the recipe's step reads, and of those that `specs` name.
    ///
    /// # Errors
    ///
    /// If a feed is for no placeholder or does not fit it, or if a shape is open.
    pub fn make(
        graph: &Graph,
        recipe: &Recipe,
        specs: &[FeedSpec],
        shapes: &PlaceholderShapes,
        seed: u64,
    ) -> Result<Feeds, TrainError> {
        let given: BTreeMap<NodeId, &[i64]> = shapes.iter().collect();
        let placeholders: Vec<NodeId> =
            graph.node_ids().filter(|&node| is_placeholder(graph, node)).collect();
        for spec in specs {
            check_name(graph, &placeholders, spec)?;
        }
        let mut feeds = Vec::new();
        for (k, &node) in (0..).zip(&placeholders) {
            let name = graph.name(node);
            // The last one counts, as with all flags.
            let spec = specs.iter().rev().find(|spec| spec.name == name);
            if spec.is_none() && !recipe.placeholders.iter().any(|read| read == name) {
                continue;
            }
            let feed = |why: String| TrainError::Feed { name: name.to_string(), why };
            let attrs = graph.attrs(node);
            let Some(Attr::Type(dtype)) = attrs.attr("dtype") else {
                return Err(feed("the placeholder has no type".to_string()));
            };
            let shape = given.get(&node).map(|shape| shape.to_vec()).or_else(|| attrs.shape("shape"));
            let sizes = shapes.value(node).map(|value| numbers(value, dtype)).transpose();
            let sizes = sizes.map_err(|error| feed(error.to_string()))?;
            if let (None, Some(tensor)) = (spec, &sizes) {
                feeds.push(Fed { name: name.to_string(), tensor: tensor.clone() });
                continue;
            }
            let tensor = match spec.map(|spec| spec.values.clone()).or_else(|| Values::default_for(dtype)) {
                None => return Err(feed(no_default(dtype))),
                Some(Values::File(path)) => {
                    let tensor = npy::read(&path, dtype)?;
                    check_file(&tensor, shape.as_deref()).map_err(|why| TrainError::File { path, why })?;
                    tensor
                }
                Some(values) => {
                    let shape = closed(name, shape)?;
                    let made = values.make(dtype, &shape, seed, k);
                    let made = made.ok_or_else(|| feed(no_default(dtype)))?;
                    made.map_err(|error| feed(error.to_string()))?
                }
            };
            if sizes.is_some_and(|sizes| sizes != tensor) {
                return Err(feed("is something else than --value says".to_string()));
            }
            feeds.push(Fed { name: name.to_string(), tensor });
        }
        Ok(Feeds(feeds))
    }

    /// The shape of the data: of the feed with the most values.
    pub fn data_shape(&self) -> Option<&[i64]> {
        let count = |shape: &&[i64]| shape.iter().product::<i64>();
        self.0.iter().map(|fed| fed.tensor.shape()).max_by_key(count)
    }
}

/// How many examples data of a shape has: the first dimension, if there is more than one.
pub fn examples(shape: &[i64]) -> Option<u64> {
    if shape.len() < 2 { None } else { u64::try_from(shape[0]).ok() }
}

/// How many pixels (4 dimensions) or voxels (5) data of a shape has: the batch times the extents. The dimension that is taken for
/// channels is the smaller one of the second and the last.
pub fn points(shape: &[i64]) -> Option<(u64, &'static str)> {
    let unit = match shape.len() {
        4 => "pixels",
        5 => "voxels",
        _ => return None,
    };
    let channels = shape[1].min(shape[shape.len() - 1]).max(1);
    u64::try_from(shape.iter().product::<i64>() / channels).ok().map(|points| (points, unit))
}

fn is_placeholder(graph: &Graph, node: NodeId) -> bool {
    graph.op(node).facts().has(Fact::Fed)
}

fn check_name(graph: &Graph, placeholders: &[NodeId], spec: &FeedSpec) -> Result<(), TrainError> {
    if placeholders.iter().any(|&node| graph.name(node) == spec.name) {
        return Ok(());
    }
    let known: Vec<&str> = placeholders.iter().map(|&node| graph.name(node)).take(8).collect();
    let why = format!("the graph has no such placeholder; it has {}", known.join(", "));
    Err(TrainError::Feed { name: spec.name.clone(), why })
}

fn no_default(dtype: DataType) -> String {
    format!("values of type {dtype} cannot be made up, and .npy files have none")
}

/// The tensor of what a placeholder is to be fed.
fn numbers(value: &FedValue, dtype: DataType) -> Result<Tensor, TensorError> {
    match dtype {
        DataType::INT64 => Tensor::of(value.shape(), value.numbers()),
        _ => Tensor::of(
            value.shape(),
            &value.numbers().iter().map(|&number| number as i32).collect::<Vec<i32>>(),
        ),
    }
}

/// The shape of a placeholder without open dimensions.
fn closed(name: &str, shape: Option<Vec<i64>>) -> Result<Vec<i64>, TrainError> {
    let open = |shape: String| TrainError::OpenShape { name: name.to_string(), shape };
    let shape = shape.ok_or_else(|| open("nothing is known of it".to_string()))?;
    if shape.iter().any(|&size| size < 0) {
        let sizes = shape.iter().map(|&size| if size < 0 { "?".to_string() } else { size.to_string() });
        return Err(open(sizes.collect::<Vec<_>>().join("x")));
    }
    Ok(shape)
}

fn check_file(tensor: &Tensor, shape: Option<&[i64]>) -> Result<(), String> {
    if let Some(shape) = shape {
        let fits = shape.len() == tensor.shape().len()
            && shape.iter().zip(tensor.shape()).all(|(&wanted, &found)| wanted < 0 || wanted == found);
        if !fits {
            return Err(format!("has the shape {:?}, but the placeholder takes {shape:?}", tensor.shape()));
        }
    }
    let wrong = tensor.to_f64().and_then(|values| values.iter().position(|value| !value.is_finite()));
    wrong.map_or(Ok(()), |at| {
        Err(format!("value number {at} is not a finite number: training on it spoils all variables"))
    })
}
