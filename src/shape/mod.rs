//! How large each tensor is.
//!
//! Shapes come from the file (`_output_shapes`) or from TensorFlow's own inference. A size that neither gives, because the data of a step
//! decides it, is counted as what it is at most (`bounds`) and named as bounded. Where nothing bounds it, it is unknown: it is counted
//! and named, and nothing ever takes its place.

mod bounds;
mod dimensions;
mod given;
mod parameters;

pub use bounds::{Counter, Growth, Iterated, LargestValue, decided_conditions, largest_value};
pub use dimensions::{Dimensions, DimensionsError, ParseDimensionsError};
pub use given::{
    Declared, FedValue, GivenShape, GivenShapeError, GivenShapes, GivenValue, ParseShapeError,
    ParseValueError, PlaceholderShapes,
};
pub use parameters::learning_parameter_bytes;

use crate::graph::{Graph, NodeId, TensorId, output_shapes};
use crate::ops::{Fact, Flow};

/// The dimensions of a tensor, -1 for each unknown one; none if even their number is unknown.
pub type Shape = Option<Box<[i64]>>;

/// The most bytes that all tensors of a graph may have together: a pebibyte. Sums and products of sizes stay far from 64 bits.
pub const MOST_BYTES: u64 = 1 << 50;

/// A tensor whose size, with those before it, is more than memory can be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "tensor {tensor} has the shape {shape:?}: with it the graph's tensors have more than {} TiB, more than any memory",
    MOST_BYTES >> 40
)]
pub struct SizeOverflow {
    /// The tensor, `node:output`.
    pub tensor: String,
    /// Its dimensions.
    pub shape: Vec<i64>,
}

/// Two shapes of one tensor that cannot both be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "tensor {tensor} is declared with the shape {declared:?} in the graph, but TensorFlow infers {inferred:?} (-1 is \
     unknown): the graph's `_output_shapes` are out of date"
)]
pub struct ShapeContradiction {
    /// The tensor, `node:output`.
    pub tensor: String,
    /// What the file says.
    pub declared: Vec<i64>,
    /// What TensorFlow says.
    pub inferred: Vec<i64>,
}

/// What two shapes of one tensor say together; none if they contradict each other.
fn merge(one: &[i64], other: &[i64]) -> Option<Vec<i64>> {
    if one.len() != other.len() {
        return None;
    }
    let sizes = one.iter().zip(other).map(|(&one, &other)| match (one, other) {
        (..0, known) => Some(known),
        (known, ..0) => Some(known),
        (one, other) => (one == other).then_some(one),
    });
    sizes.collect()
}

/// The shape of each tensor of a graph.
#[derive(Debug, Clone)]
pub struct Shapes {
    shapes: Vec<Shape>,
}

impl Shapes {
    /// The shapes that the graph's nodes declare in `_output_shapes`, and those that follow from them where an op hands its input on.
    pub fn declared(graph: &Graph) -> Shapes {
        let mut known = Shapes::unknown(graph);
        for node in graph.node_ids() {
            let Some(declared) = output_shapes(&graph.attrs(node)) else { continue };
            for (tensor, shape) in graph.outputs(node).zip(declared) {
                known.set(tensor, shape.map(Vec::into_boxed_slice));
            }
        }
        // What an op hands on as it is has the shape that it had. (Not every exporter says so.)
        for &node in graph.topological() {
            let inputs = graph.data_inputs(node);
            let handed_on = match (graph.op(node).name(), graph.flow(node)) {
                ("Identity" | "IdentityN", _) => inputs.to_vec(),
                (_, Some(Flow::Switch)) => inputs.first().map(|&data| vec![data; 2]).unwrap_or_default(),
                // Of whichever branch is taken.
                (_, Some(Flow::Merge))
                    if inputs.windows(2).all(|pair| known.get(pair[0]) == known.get(pair[1])) =>
                {
                    inputs.first().map(|&data| vec![data]).unwrap_or_default()
                }
                _ => continue,
            };
            for (tensor, from) in graph.outputs(node).zip(handed_on) {
                if known.get(tensor).is_none() {
                    let shape = known.get(from).map(Box::from);
                    known.set(tensor, shape);
                }
            }
            // Which branch it was is a number.
            let mut outputs = graph.outputs(node);
            if let (Some(Flow::Merge), Some(result), Some(which)) =
                (graph.flow(node), outputs.next(), outputs.next())
                && known.get(result).is_some()
            {
                known.set(which, Some(Box::default()));
            }
        }
        known
    }

    /// As many shapes as the graph has tensors, all unknown.
    pub fn unknown(graph: &Graph) -> Shapes {
        Shapes { shapes: vec![None; graph.tensor_count()] }
    }

    /// Adds what TensorFlow inferred for the same graph.
    ///
    /// # Errors
    ///
    /// If the two contradict each other.
    pub fn refine(&mut self, graph: &Graph, inferred: Shapes) -> Result<(), ShapeContradiction> {
        for (tensor, inferred) in graph.tensor_ids().zip(inferred.shapes) {
            let shape = &mut self.shapes[tensor.index()];
            let Some(inferred) = inferred else { continue };
            let Some(declared) = shape.as_deref() else {
                *shape = Some(inferred);
                continue;
            };
            *shape = match merge(declared, &inferred) {
                Some(merged) => Some(merged.into()),
                None => {
                    return Err(ShapeContradiction {
                        tensor: graph.tensor_name(tensor).to_string(),
                        declared: declared.to_vec(),
                        inferred: inferred.into_vec(),
                    });
                }
            };
        }
        Ok(())
    }

    /// The shape of a tensor.
    pub fn get(&self, tensor: TensorId) -> Option<&[i64]> {
        self.shapes[tensor.index()].as_deref()
    }

    /// Sets what is now known of a tensor's shape.
    pub fn set(&mut self, tensor: TensorId, shape: Shape) {
        self.shapes[tensor.index()] = shape;
    }

    /// How many dimensions a tensor has.
    pub fn rank(&self, tensor: TensorId) -> Option<usize> {
        self.get(tensor).map(<[i64]>::len)
    }
}

/// The bytes of each tensor of a graph.
#[derive(Debug, Clone)]
pub struct Sizes {
    bytes: Vec<Option<u64>>,
    bounded: Vec<TensorId>,
    unknown: Vec<TensorId>,
    /// For each node whether its op only makes parts of its input.
    makes_parts: Vec<bool>,
}

impl Sizes {
    /// Multiplies out all shapes.
    ///
    /// # Errors
    ///
    /// If all tensors together would have more than [`MOST_BYTES`].
    pub fn of(graph: &Graph, shapes: &Shapes) -> Result<Sizes, SizeOverflow> {
        Sizes::with_iterated(graph, shapes, &Iterated::default())
    }

    /// The same where it is known how often loops run.
    ///
    /// # Errors
    ///
    /// As [`Sizes::of`].
    pub fn with_iterated(graph: &Graph, shapes: &Shapes, iterated: &Iterated) -> Result<Sizes, SizeOverflow> {
        let mut sizes = Sizes {
            bytes: Vec::with_capacity(graph.tensor_count()),
            bounded: Vec::new(),
            unknown: Vec::new(),
            makes_parts: bounds::parts::of(graph, shapes),
        };
        let mut left = MOST_BYTES;
        let mut bytes_of = |tensor: TensorId, element: u64, shape: &[i64]| {
            let product = shape.iter().try_fold(element, |product, &size| product.checked_mul(size as u64));
            let taken = product.and_then(|bytes| Some((bytes, left.checked_sub(bytes)?)));
            let (bytes, rest) = taken.ok_or_else(|| SizeOverflow {
                tensor: graph.tensor_name(tensor).to_string(),
                shape: shape.to_vec(),
            })?;
            left = rest;
            Ok(bytes)
        };
        for tensor in graph.tensor_ids() {
            let element = graph.output_type(tensor).dtype.size_in_bytes();
            sizes.bytes.push(match (element, shapes.get(tensor)) {
                (Some(element), Some(shape)) if shape.iter().all(|&size| size >= 0) => {
                    Some(bytes_of(tensor, element, shape)?)
                }
                // Strings, resources and variants have no size that a shape could tell.
                (None, _) => None,
                (Some(_), _) => {
                    let maker = graph.producer(tensor);
                    let reserve = (maker.index() < graph.len())
                        .then(|| graph.op(maker).facts().reserve_bytes(graph.output_index(tensor)))
                        .flatten();
                    if reserve.is_none() {
                        sizes.unknown.push(tensor);
                    }
                    reserve
                }
            });
        }
        if !sizes.unknown.is_empty() {
            let bounds = bounds::upper_bounds(graph, shapes, iterated);
            let unknown = std::mem::take(&mut sizes.unknown);
            for tensor in unknown {
                let element = graph.output_type(tensor).dtype.size_in_bytes();
                match (element, bounds.get(&tensor)) {
                    (Some(element), Some(most)) => {
                        sizes.bytes[tensor.index()] = Some(bytes_of(tensor, element, most)?);
                        sizes.bounded.push(tensor);
                    }
                    _ => sizes.unknown.push(tensor),
                }
            }
        }
        Ok(sizes)
    }

    /// The bytes of a tensor, if its shape is known in full, or what it has at most.
    pub fn bytes(&self, tensor: TensorId) -> Option<u64> {
        self.bytes[tensor.index()]
    }

    /// The input in whose memory all is that a node's op makes, though others of its kind have memory of their own: what only makes its
    /// input larger or smaller, and here does not, and what only makes parts that need not be copied.
    pub fn handed_on(&self, graph: &Graph, node: NodeId) -> Option<u32> {
        if self.makes_parts[node.index()] {
            return Some(bounds::parts::source(graph.op(node).name()));
        }
        let size = |tensor: Option<TensorId>| self.bytes(tensor?);
        let resizes_nothing = graph.op(node).facts().has(Fact::Resizes)
            && size(graph.data_inputs(node).first().copied())
                .is_some_and(|bytes| size(graph.outputs(node).next()) == Some(bytes));
        resizes_nothing.then_some(0)
    }

    /// The tensors whose bytes are what they have at most: only the data of a step decides how many it is.
    pub fn bounded(&self) -> &[TensorId] {
        &self.bounded
    }

    /// The tensors of numbers whose size is unknown.
    pub fn unknown(&self) -> &[TensorId] {
        &self.unknown
    }
}
