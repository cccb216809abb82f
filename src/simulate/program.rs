//! What one step runs, in flat arrays: the ops of the graph, and the copies between memories that TensorFlow puts
//! between them.

use std::ops::Range;
use std::sync::Arc;

use super::Outline;
use super::accumulations::Pace;
use super::builder::Builder;
use super::changed_variables::ChangedVariables;
use super::initial::Initial;
use super::merged::Merged;
use super::parts::Parts;
use crate::cost::Workspace;
use crate::dtype::DataType;
use crate::graph::{Graph, NodeId, Rows, TensorId};
use crate::ops::{Fact, Flow};
use crate::order::Place;
use crate::plan::{Draft, NodeOrder};
use crate::shape::Sizes;

/// No op, no tensor.
pub(super) const NONE: u32 = u32::MAX;

/// What an output's buffer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// Its own.
    Own,
    /// That of an input, whoever else reads it.
    Input(u32),
    /// That of the first of its inputs that a step makes.
    AnyInput,
    /// That of a tensor of the program that another op makes, which runs in place of this one.
    Same(u32),
    /// That of an input that dies, or else its own.
    DyingInput,
    /// One that is there anyway.
    Persistent,
}

impl Buffer {
    /// Whether it may be a buffer of its own.
    pub fn may_be_own(self) -> bool {
        matches!(self, Buffer::Own | Buffer::DyingInput)
    }
}

/// The buffer of an output of a node.
pub(super) fn buffer(graph: &Graph, sizes: &Sizes, node: NodeId, tensor: TensorId) -> Buffer {
    let facts = graph.op(node).facts();
    let output = graph.output_index(tensor);
    if graph.output_type(tensor).is_ref || facts.has(Fact::Persistent) || graph.is_argument(node) {
        Buffer::Persistent
    } else if facts.flow() == Some(Flow::Merge) && output == 0 {
        full_optional(graph, sizes, node, tensor).map_or(Buffer::AnyInput, Buffer::Input)
    } else if let Some(slot) = facts.passes_on(output) {
        Buffer::Input(slot)
    } else if facts.has(Fact::GivesElement) && !(facts.has(Fact::SameList) && output == 0) {
        // It was kept, and is there until all have read it that take it off.
        Buffer::Persistent
    } else if let Some(slot) = sizes.handed_on(graph, node) {
        Buffer::Input(slot)
    } else if facts.has(Fact::TakesOver) {
        Buffer::DyingInput
    } else {
        Buffer::Own
    }
}

/// The input of a `Merge` of optionals that may hold the most, where others hold less or nothing: what branches save for the gradient is
/// there only if their branch was taken, and one slot may have an activation of one branch, and a weight of the other.
fn full_optional(graph: &Graph, sizes: &Sizes, merge: NodeId, output: TensorId) -> Option<u32> {
    if graph.output_type(output).dtype != DataType::VARIANT {
        return None;
    }
    let inputs = graph.data_inputs(merge);
    let held: Vec<u64> = inputs.iter().map(|&input| held_bytes(graph, sizes, input).unwrap_or(0)).collect();
    let most = held.iter().copied().max()?;
    if most > 0 {
        return held.iter().position(|&bytes| bytes == most).map(|at| at as u32);
    }
    let full = inputs.iter().position(|&input| !is_empty_optional(graph, input))?;
    inputs.iter().any(|&input| is_empty_optional(graph, input)).then_some(full as u32)
}

/// How much memory an optional keeps, if it is one that holds a tensor; of a variable there is nothing to keep.
fn held_bytes(graph: &Graph, sizes: &Sizes, mut optional: TensorId) -> Option<u64> {
    loop {
        let node = graph.producer(optional);
        if node.index() >= graph.len() {
            return None;
        }
        match (graph.op(node).name(), graph.data_inputs(node)) {
            ("OptionalFromValue", values) => {
                let kept = values.iter().filter(|&&value| {
                    let maker = graph.producer(value);
                    maker.index() < graph.len() && graph.op(maker).name() != "ReadVariableOp"
                });
                return Some(kept.map(|&value| sizes.bytes(value).unwrap_or(0)).sum());
            }
            ("Identity", &[input]) => optional = input,
            _ => return None,
        }
    }
}

/// Whether a tensor is an optional that certainly holds nothing.
pub(super) fn is_empty_optional(graph: &Graph, mut tensor: TensorId) -> bool {
    loop {
        let node = graph.producer(tensor);
        if node.index() >= graph.len() {
            return false;
        }
        match (graph.op(node).name(), graph.data_inputs(node)) {
            ("OptionalNone", _) => return true,
            ("Identity", &[input]) => tensor = input,
            _ => return false,
        }
    }
}

/// What an entry of a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// An op of the graph.
    Op(NodeId),
    /// The op on the host that a swap adds for one return of a tensor; the number counts the tensor's returns.
    Swap(TensorId, u32),
    /// The op on the host that a swap adds so that others can wait until the tensor is out.
    SwapOut(TensorId),
    /// A copy of a tensor that was made by an op of the graph.
    Copy(TensorId),
    /// The copy of a tensor back to the GPU.
    SwapIn(TensorId, u32),
    /// A second run of an op, by its place among those of the plan.
    Recomputation(NodeId, u32),
    /// What lets an op in one place wait for this entry in another.
    Signal(u32),
}

#[derive(Debug, Clone)]
pub(super) struct Op {
    pub origin: Origin,
    /// Where it runs; a copy comes from here.
    pub from: Place,
    /// Where its outputs are to be; elsewhere than `from` only for a copy.
    pub to: Place,
    /// Where the ops run that wait for it, if it is a copy; else where it runs itself. An op of a GPU may want its input in the host's memory.
    pub receiver: Place,
    pub is_copy: bool,
    /// Whether it runs on the host, and the host's threads hand it on to each other.
    pub is_expensive: bool,
    pub seconds: f64,
    pub workspace: Workspace,
    /// How many copies it stands for: in a loop, one for each iteration.
    pub copies: u64,
    /// How many edges lead to it.
    pub waits: u32,
    pub first_tensor: u32,
    pub tensors: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Tensor {
    /// What it takes in memory, in whole chunks.
    pub bytes: u64,
    /// What a copy of it moves.
    pub content_bytes: u64,
    pub place: Place,
    pub buffer: Buffer,
    /// How many inputs read it.
    pub uses: u32,
}

impl Tensor {
    /// One that nobody makes, in this place.
    pub fn absent(place: Place) -> Tensor {
        Tensor { bytes: 0, content_bytes: 0, place, buffer: Buffer::Persistent, uses: 0 }
    }

    /// One that stands for what other iterations of a loop made: nobody copies it.
    pub fn of_rest(bytes: u64, place: Place) -> Tensor {
        Tensor { bytes, content_bytes: 0, place, buffer: Buffer::Own, uses: 0 }
    }
}

/// The tensors that stand for what a loop keeps of one beside the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rest {
    pub of: TensorId,
    pub tensors: Range<u32>,
}

/// What a step runs with a plan.
#[derive(Debug)]
pub struct Program {
    pub(super) ops: Vec<Op>,
    pub(super) tensors: Vec<Tensor>,
    /// For each op the tensors that it reads, by input; none for constants and what is never made.
    pub(super) reads: Rows<u32>,
    /// For each op those that wait for it, in the order in which they become ready.
    pub(super) successors: Rows<u32>,
    /// For each GPU the sizes of what is there from step to step.
    pub(super) persistent: Vec<Vec<u64>>,
    /// What happens in the pools before a step like this one.
    pub(super) initial: Arc<Initial>,
    /// The variables that the step reads and changes in place.
    pub(super) changed_variables: Arc<ChangedVariables>,
    /// The entries that do not run because others do that are equal.
    pub(super) merged: Merged,
    /// What stands for the rest of something, in the order of tensors.
    pub(super) rests: Vec<Rest>,
    /// In which order the parts of the graph begin.
    pub(super) parts: Parts,
}

impl Program {
    /// The step with what a plan changes.
    pub fn new(outline: &Outline, draft: &Draft) -> Program {
        Program::with(outline, draft, Pace::AsPlanned)
    }

    /// The same where iterations are side by side of the loops in which the plan does not keep them from it ([`FreeLoop`]); none if there
    /// are none.
    ///
    /// [`FreeLoop`]: super::FreeLoop
    pub fn side_by_side(outline: &Outline, draft: &Draft) -> Option<Program> {
        let outline = outline.side_by_side(draft)?;
        Some(Program::with(&outline, draft, Pace::AsPlanned))
    }

    /// The step without a plan, but with these ops on the host, and with loops that wait for what they copy, as a plan makes them do: for what
    /// leaves in any case, for what comes where these orders see to it. Equal ops are not merged in it: what a plan gives to one of them
    /// alone makes it differ.
    pub fn paced(outline: &Outline, host_ops: &[NodeId], orders: Vec<NodeOrder>) -> Program {
        let draft = Draft { host_ops: host_ops.to_vec(), orders, ..Draft::default() };
        Program::with(outline, &draft, Pace::Paced)
    }

    /// The step without a plan, but with these ops on the host, and no more memory for what loops copy than any plan needs.
    pub fn with_least_memory(outline: &Outline, host_ops: &[NodeId]) -> Program {
        let draft = Draft { host_ops: host_ops.to_vec(), ..Draft::default() };
        Program::with(outline, &draft, Pace::OneAtATime)
    }

    fn with(outline: &Outline, draft: &Draft, pace: Pace) -> Program {
        let moved;
        let outline = if outline.host_ops() == draft.host_ops {
            outline
        } else {
            moved = outline.alone(&draft.host_ops, &outline.case);
            &moved
        };
        let mut builder = Builder::new(outline, draft, pace);
        for (number, &node) in outline.order.iter().enumerate() {
            builder.connect(number as u32, node);
        }
        builder.connect_recomputations();
        builder.connect_whole_behind();
        builder.order_ops();
        if pace != Pace::Paced {
            builder.merge_equals();
        }
        builder.finish()
    }

    /// How many ops and copies there are.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// What an entry is.
    pub fn origin(&self, op: u32) -> Origin {
        self.ops[op as usize].origin
    }

    /// The tensors that an entry makes.
    pub fn outputs(&self, op: u32) -> Range<u32> {
        let entry = &self.ops[op as usize];
        entry.first_tensor..entry.first_tensor + entry.tensors
    }

    /// The entry that makes a tensor.
    pub fn maker(&self, tensor: u32) -> u32 {
        // Entries number their tensors one after the other.
        self.ops.partition_point(|op| op.first_tensor <= tensor).saturating_sub(1) as u32
    }

    /// The tensor of the graph of which one stands for what other iterations of a loop made, if it does.
    pub fn rest_of(&self, tensor: u32) -> Option<TensorId> {
        let behind = self.rests.partition_point(|rest| rest.tensors.start <= tensor);
        let rest = self.rests.get(behind.checked_sub(1)?)?;
        rest.tensors.contains(&tensor).then_some(rest.of)
    }

    /// The tensors that an entry reads, by input; none for constants and what is never made.
    pub fn reads(&self, op: u32) -> impl Iterator<Item = Option<u32>> {
        self.reads.row(op as usize).iter().map(|&tensor| (tensor != NONE).then_some(tensor))
    }

    /// What an entry reads if it runs by itself: the same, but for one that does not run because another one does that is equal.
    pub fn reads_alone(&self, op: u32) -> impl Iterator<Item = Option<u32>> {
        let reads = self.merged.reads(op).unwrap_or_else(|| self.reads.row(op as usize));
        reads.iter().map(|&tensor| (tensor != NONE).then_some(tensor))
    }

    /// The entries that wait for an entry, in the order in which they become ready.
    pub fn successors(&self, op: u32) -> &[u32] {
        self.successors.row(op as usize)
    }

    /// The variable with this number among those that the step changes in place, and its bytes.
    pub fn changed_variable(&self, number: u32) -> (NodeId, u64) {
        let variable = &self.changed_variables.variables[number as usize];
        (variable.node, variable.bytes)
    }

    /// Where an entry runs; of a copy, where it leads.
    pub fn place(&self, op: u32) -> Place {
        self.ops[op as usize].to
    }

    /// Whether an entry is a copy from one memory to another, or a signal.
    pub fn is_copy(&self, op: u32) -> bool {
        self.ops[op as usize].is_copy
    }

    /// How long an entry keeps its device busy; a copy's time depends on the machine.
    pub fn seconds(&self, op: u32) -> f64 {
        self.ops[op as usize].seconds
    }

    /// Where a tensor lies.
    pub fn tensor_place(&self, tensor: u32) -> Place {
        self.tensors[tensor as usize].place
    }

    /// How many inputs read a tensor.
    pub fn readers(&self, tensor: u32) -> u32 {
        self.tensors[tensor as usize].uses
    }

    /// Variables and constants, in bytes, of each GPU.
    pub fn persistent_bytes(&self) -> impl Iterator<Item = u64> {
        self.persistent.iter().map(|sizes| sizes.iter().sum())
    }

    /// The scratch memory that an entry takes while it runs, in bytes.
    pub fn workspace_bytes(&self, op: u32) -> u64 {
        self.ops[op as usize].workspace.bytes()
    }

    /// How many tensors all entries make.
    pub fn tensor_count(&self) -> usize {
        self.tensors.len()
    }

    /// What a tensor's buffer is.
    pub fn buffer(&self, tensor: u32) -> Buffer {
        self.tensors[tensor as usize].buffer
    }

    /// How many bytes a tensor of the program takes.
    pub fn tensor_bytes(&self, tensor: u32) -> u64 {
        self.tensors[tensor as usize].bytes
    }
}
