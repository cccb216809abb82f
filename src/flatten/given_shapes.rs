//! Shapes that ops in loops are given.
//!
//! Graphs that call a function look into it for the shapes of what it returns (`ShapeRefiner::InferShapesForFunction`). TensorFlow then
//! goes through the body from its end, each op behind all that it reads, and breaks loops where it comes to an op that it is still at. Of
//! what is not known there nothing is assumed, with one exception: an op that is given a shape as a tensor asks what is known of that, and
//! if nothing is, the call fails ("Missing src context"). As long as a loop is a function of its own there are no circles. Once it is flat
//! there are: an edge that has a loop wait for a computation is enough.
//!
//! So in loops, what says a shape goes through an `Identity` for each op that is given it. Nobody else reads that, so it is always gone
//! through before its reader.

use std::collections::HashMap;

use super::error::FlattenError;
use super::expand::Expansion;
use super::library::{Body, CallKind, Local, LocalTensor, Read};
use super::parts::{FlatNode, Made, MadeInput, Tensor, of_type, output_of};
use crate::dtype::DataType;
use crate::graph::NodeAttrs;
use crate::ops::{Attr, AttrLookup};

/// For each body how many inputs read each of its nodes, or wait for it.
#[derive(Debug, Default)]
pub(super) struct Readers {
    of_function: HashMap<usize, Vec<u32>>,
}

impl Readers {
    fn count(&mut self, function: usize, body: &Body<'_>, node: u32) -> u32 {
        let counts = self.of_function.entry(function).or_insert_with(|| {
            let mut counts = vec![0; body.nodes.len()];
            for node in 0..body.nodes.len() {
                for read in body.inputs.row(node) {
                    let (Read::Data(LocalTensor { from, .. }) | Read::Control(from)) = *read;
                    if let Local::Node(from) = from {
                        counts[from as usize] += 1;
                    }
                }
            }
            counts
        });
        counts[node as usize]
    }
}

/// Which of an op's inputs are shapes, and the attribute that says their type; none if that is always the same.
fn shapes_given(op: &str) -> (&'static [usize], Option<&'static str>) {
    match op {
        "Reshape" => (&[1], Some("Tshape")),
        "Fill" => (&[0], Some("index_type")),
        "BroadcastTo" => (&[1], Some("Tidx")),
        "Tile" => (&[1], Some("Tmultiples")),
        "Slice" => (&[1, 2], Some("Index")),
        "StridedSliceGrad" => (&[0], Some("Index")),
        "ScatterNd" => (&[2], Some("Tindices")),
        "Conv2DBackpropInput" | "DepthwiseConv2dNativeBackpropInput" => (&[0], None),
        "Conv3DBackpropInputV2" => (&[0], Some("Tshape")),
        "Conv2DBackpropFilter" | "DepthwiseConv2dNativeBackpropFilter" | "Conv3DBackpropFilterV2" => {
            (&[1], None)
        }
        "EmptyTensorList" | "TensorListReserve" => (&[0], Some("shape_type")),
        "TensorListFromTensor" => (&[1], Some("shape_type")),
        "TensorListPopBack" | "TensorListStack" | "TensorListConcatV2" => (&[1], None),
        "TensorListGetItem" => (&[2], None),
        "Empty" => (&[0], None),
        "RandomUniform"
        | "RandomStandardNormal"
        | "TruncatedNormal"
        | "StatelessRandomUniform"
        | "StatelessRandomNormal"
        | "StatelessTruncatedNormal" => (&[0], Some("T")),
        "StatelessRandomUniformV2" | "StatelessRandomNormalV2" | "StatelessTruncatedNormalV2" => {
            (&[0], Some("Tshape"))
        }
        _ => (&[], None),
    }
}

impl Expansion<'_, '_> {
    /// Makes the nodes by which a node of a body gets the shapes that it is given, if it is in a loop: for each such input, by its number,
    /// the node.
    pub(super) fn give_shapes(
        &mut self,
        readers: &mut Readers,
        instance: u32,
        node: u32,
    ) -> Result<Vec<(usize, u32)>, FlattenError> {
        let body = self.body(instance);
        let (slots, type_attr) = shapes_given(body.nodes.op(node as usize));
        if slots.is_empty() || !self.is_in_loop(instance) {
            return Ok(Vec::new());
        }
        let attrs = NodeAttrs::new(body.nodes, node as usize);
        let dtype = match type_attr.and_then(|name| attrs.attr(name)) {
            Some(Attr::Type(dtype)) => dtype,
            _ => DataType::INT32,
        };
        // On a GPU, `Identity` has numbers of another type in the GPU's memory.
        if dtype != DataType::INT32 {
            return Ok(Vec::new());
        }
        let mut made = Vec::new();
        for &slot in slots {
            let Some(read) = body.data_input(node, slot) else { continue };
            if let Local::Node(from) = read.from
                && body.nodes.op(from as usize) == "Const"
                && readers.count(self.instances[instance as usize].function, body, from) == 1
            {
                continue;
            }
            let wanted = format!("{}/shape_{slot}", self.name(FlatNode::Body { instance, node }));
            let name = self.free_name(wanted).into();
            let device = self.device(instance, node)?;
            made.push((
                slot,
                self.make(Made {
                    name,
                    op: "Identity".to_string(),
                    inputs: vec![MadeInput::Data(instance, read)],
                    device,
                    attrs: vec![of_type(dtype)],
                    owner: instance,
                    ..Made::default()
                }),
            ));
        }
        Ok(made)
    }

    /// Whether a body is part of a loop.
    fn is_in_loop(&self, instance: u32) -> bool {
        let calls = std::iter::successors(self.instances[instance as usize].call, |&(caller, _)| {
            self.instances[caller as usize].call
        });
        calls.into_iter().any(|(caller, node)| self.body(caller).calls[&node].kind == CallKind::While)
    }
}

/// What a node reads at an input, given what was made for it.
pub(super) fn given_shape(made: &[(usize, u32)], slot: usize) -> Option<Tensor> {
    made.iter().find(|(of, _)| *of == slot).map(|&(_, node)| output_of(node, 0))
}
