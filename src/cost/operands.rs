//! What one node reads and makes.

use crate::dtype::DataType;
use crate::graph::{Graph, NodeAttrs, NodeId, TensorId};
use crate::ops::{Attr, AttrLookup};
use crate::shape::{Shapes, Sizes};

/// A node with the shapes and sizes around it.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    pub graph: &'a Graph<'a>,
    pub shapes: &'a Shapes,
    pub sizes: &'a Sizes,
    pub node: NodeId,
}

impl<'a> Operands<'a> {
    pub fn attrs(&self) -> NodeAttrs<'a> {
        self.graph.attrs(self.node)
    }

    /// A truth value; false if the node does not say, as most ops' defaults are.
    pub fn flag(&self, attr: &str) -> bool {
        self.attrs().attr(attr) == Some(Attr::Bool(true))
    }

    /// Whether the channels of images are their last dimension, as they are if the node does not say.
    pub fn has_channels_last(&self) -> bool {
        !self.attrs().string("data_format").is_some_and(|format| format.starts_with(b"NC"))
    }

    pub fn input(&self, index: usize) -> Option<TensorId> {
        self.graph.data_inputs(self.node).get(index).copied()
    }

    pub fn output(&self, index: usize) -> Option<TensorId> {
        self.graph.outputs(self.node).nth(index)
    }

    /// The shape of a tensor if all of it is known.
    pub fn shape(&self, tensor: Option<TensorId>) -> Option<&'a [i64]> {
        self.shapes.get(tensor?).filter(|shape| shape.iter().all(|&size| size >= 0))
    }

    pub fn bytes(&self, tensor: Option<TensorId>) -> Option<f64> {
        self.sizes.bytes(tensor?).map(|bytes| bytes as f64)
    }

    /// The type in which the op computes: that of its first output.
    pub fn dtype(&self) -> DataType {
        self.output(0).map_or(DataType::FLOAT, |output| self.graph.output_type(output).dtype)
    }
}

/// How many values a shape holds.
pub(super) fn volume(shape: &[i64]) -> f64 {
    shape.iter().map(|&size| size as f64).product()
}
