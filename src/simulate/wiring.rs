//! What the ops of a step read and wait for, whatever a plan changes: found out once, since hundreds of programs are made of it.

use super::outline::Outline;
use super::program::NONE;
use crate::dtype::DataType;
use crate::graph::{NodeId, Rows, TensorId};
use crate::order::Place;
use crate::plan::Analysis;

/// One data input of an op.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input {
    pub tensor: TensorId,
    /// The entry that makes it; none if no step does.
    pub maker: u32,
    /// Where the op wants it.
    pub wanted: Place,
    /// Whether it comes within the step: neither around in a loop, nor from what certainly does not run.
    pub is_there: bool,
    /// Whether it is a constant that each step copies to a GPU: one of `int32`, which TensorFlow keeps on the host, or one whose
    /// device is the host, for a reader that wants it in the GPU's memory.
    pub is_copied_constant: bool,
}

/// Inputs and waits of all ops of a step, by their places in it.
#[derive(Debug)]
pub(super) struct Wiring {
    inputs: Rows<Input>,
    before: Rows<u32>,
}

impl Wiring {
    /// Those of a step.
    pub fn of(outline: &Outline) -> Wiring {
        let ops = outline.order.len();
        let (mut inputs, mut before) = (Rows::with_capacity(ops, ops * 2), Rows::with_capacity(ops, ops));
        for &node in &outline.order {
            inputs_of(outline, node).for_each(|input| inputs.push(input));
            inputs.end_row();
            before_of(outline, node).for_each(|entry| before.push(entry));
            before.end_row();
        }
        Wiring { inputs, before }
    }

    /// What an op of the step reads.
    pub fn inputs(&self, op: u32) -> &[Input] {
        self.inputs.row(op as usize)
    }

    /// The entries that an op of the step waits for without reading them.
    pub fn before(&self, op: u32) -> &[u32] {
        self.before.row(op as usize)
    }
}

/// What a node reads.
fn inputs_of(outline: &Outline, node: NodeId) -> impl Iterator<Item = Input> {
    let Analysis { graph, .. } = outline.analysis;
    graph.data_inputs(node).iter().zip(outline.placement.inputs(node)).map(move |(&tensor, &wanted)| {
        let producer = graph.producer(tensor);
        let maker = outline.number(producer).unwrap_or(NONE);
        Input {
            tensor,
            maker,
            wanted,
            is_there: !graph.is_back_edge(producer, node) && !outline.liveness.is_dead(graph, tensor),
            is_copied_constant: maker == NONE
                && outline.placement.output(tensor) == Place::Host
                && wanted != Place::Host
                && (outline.placement.names_host(producer)
                    || graph.output_type(tensor).dtype == DataType::INT32),
        }
    })
}

/// The entries that a node waits for without reading them: its control inputs, and what constants wait for that it reads.
fn before_of(outline: &Outline, node: NodeId) -> impl Iterator<Item = u32> {
    let graph = outline.analysis.graph;
    let control = graph.control_inputs(node).iter().filter(move |&&before| !graph.is_back_edge(before, node));
    control.chain(outline.late.before(node)).filter_map(|&before| outline.number(before))
}
