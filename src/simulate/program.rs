//! What one step runs, in flat arrays: the ops of the graph, and the copies between memories that TensorFlow puts
//! between them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use super::pool::in_chunks;
use super::{Liveness, constants, persistent};
use crate::dtype::DataType;
use crate::graph::{Graph, NodeId, Rows, TensorId};
use crate::ops::{is_persistent, passes_on, takes_over};
use crate::order::{Place, Placement};
use crate::plan::{Analysis, Draft};

/// What a step of a graph runs, whatever a plan adds: to be made once for many plans.
#[derive(Debug)]
pub struct Outline<'a> {
    analysis: &'a Analysis<'a>,
    placement: &'a Placement,
    liveness: Liveness,
    /// The ops of the step in the order in which TensorFlow lists them: each after all that it reads, else as in the file.
    order: Vec<NodeId>,
    /// For each node its place in `order`.
    place_of: Vec<u32>,
    seconds: Vec<f64>,
    workspace_bytes: Vec<u64>,
    persistent: Vec<Vec<u64>>,
}

/// Tensors whose size somebody must say before memory can be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the sizes of {count} tensors that a step keeps on a GPU are unknown ({}{}); give the free sizes of the graph's \
     placeholders with --batch-size or --shape{}",
    examples.join(", "),
    if *count > examples.len() { ", …" } else { "" },
    if placeholders.is_empty() { String::new() } else { format!(": {}", placeholders.join(", ")) }
)]
pub struct UnknownSizes {
    /// How many there are.
    pub count: usize,
    /// Some of them.
    pub examples: Vec<String>,
    /// The placeholders that leave sizes open, with what is known of their shapes.
    pub placeholders: Vec<String>,
}

/// How many tensors a message names.
const MOST_EXAMPLES: usize = 3;

/// How long an op takes, and what it needs meanwhile.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpCost {
    /// Seconds on its device.
    pub seconds: f64,
    /// Scratch memory in bytes.
    pub workspace_bytes: u64,
}

impl<'a> Outline<'a> {
    /// Finds out what a step runs.
    ///
    /// # Errors
    ///
    /// If sizes that matter are unknown.
    pub fn new(
        analysis: &'a Analysis<'a>,
        placement: &'a Placement,
        cost: impl Fn(NodeId) -> OpCost,
    ) -> Result<Outline<'a>, UnknownSizes> {
        let graph = analysis.graph;
        let liveness = Liveness::of(graph, true);
        let constant = constants::constant_ops(analysis);
        let runs = |node: NodeId| {
            analysis.step.contains(node) && !liveness.is_dead_op(node) && !constant[node.index()]
        };
        let order = listing(graph, runs);
        let mut place_of = vec![NONE; graph.len()];
        for (place, node) in order.iter().enumerate() {
            place_of[node.index()] = place as u32;
        }
        check_sizes(analysis, placement, &order)?;
        let costs: Vec<OpCost> = order.iter().map(|&node| cost(node)).collect();
        Ok(Outline {
            analysis,
            placement,
            persistent: persistent::sizes(analysis, placement, &constant, |node| {
                place_of[node.index()] != NONE
            }),
            liveness,
            place_of,
            seconds: costs.iter().map(|cost| cost.seconds).collect(),
            workspace_bytes: costs.iter().map(|cost| cost.workspace_bytes).collect(),
            order,
        })
    }

    /// The graph and what is known of it.
    pub fn analysis(&self) -> &'a Analysis<'a> {
        self.analysis
    }

    /// Where ops run and tensors lie.
    pub fn placement(&self) -> &'a Placement {
        self.placement
    }

    /// The step's ops in the order in which TensorFlow lists them.
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }

    /// The seconds that an op of the step takes on its device.
    pub fn seconds(&self, node: NodeId) -> f64 {
        self.number(node).map_or(0.0, |op| self.seconds[op as usize])
    }

    /// What certainly does not run.
    pub fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    /// The entry that an op is in every program of this outline; none if no step runs it.
    pub fn entry(&self, node: NodeId) -> Option<u32> {
        self.number(node)
    }

    /// Variables and constants, in bytes, for each GPU.
    pub fn persistent_bytes(&self) -> impl Iterator<Item = u64> {
        self.persistent.iter().map(|sizes| sizes.iter().sum())
    }

    fn number(&self, node: NodeId) -> Option<u32> {
        self.place_of.get(node.index()).copied().filter(|&place| place != NONE)
    }
}

/// No op, no tensor.
pub(super) const NONE: u32 = u32::MAX;

/// The ops that run, each after all that it waits for; among those that could come next, the first in the file.
///
/// So TensorFlow builds its graphs from files, and so its executor lists an op's readers.
fn listing(graph: &Graph, runs: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
    let counts = |from: &NodeId, node: NodeId| {
        from.index() < graph.len() && runs(*from) && !graph.is_back_edge(*from, node)
    };
    let mut waits = vec![0u32; graph.len()];
    let mut ready = BinaryHeap::new();
    for node in graph.node_ids().filter(|&node| runs(node)) {
        waits[node.index()] = graph.predecessors(node).filter(|from| counts(from, node)).count() as u32;
        if waits[node.index()] == 0 {
            ready.push(Reverse(node));
        }
    }
    let mut order = Vec::new();
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for next in graph.successors(node).filter(|&next| runs(next) && !graph.is_back_edge(node, next)) {
            waits[next.index()] -= 1;
            if waits[next.index()] == 0 {
                ready.push(Reverse(next));
            }
        }
    }
    order
}

/// What an output's buffer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// Its own.
    Own,
    /// That of an input, whoever else reads it.
    Input(u32),
    /// That of the first input that is there.
    AnyInput,
    /// That of an input that dies, or else its own.
    DyingInput,
    /// One that is there anyway.
    Persistent,
}

fn buffer(op: &str, output: u32, is_ref: bool) -> Buffer {
    if is_ref || is_persistent(op) {
        Buffer::Persistent
    } else if matches!(op, "Merge" | "RefMerge") && output == 0 {
        Buffer::AnyInput
    } else if let Some(slot) = passes_on(op, output) {
        Buffer::Input(slot)
    } else if takes_over(op) {
        Buffer::DyingInput
    } else {
        Buffer::Own
    }
}

/// Outputs that TensorFlow's shape functions leave without a shape although the kernels make next to nothing: what batch
/// norm passes to its gradient for cuDNN, beyond the statistics.
fn is_reserve_space(op: &str, output: u32) -> bool {
    op == "FusedBatchNormV3" && output == 5 || op == "FusedBatchNormGradV3" && output >= 3
}

fn check_sizes(analysis: &Analysis, placement: &Placement, order: &[NodeId]) -> Result<(), UnknownSizes> {
    let graph = analysis.graph;
    let mut unknown: Vec<TensorId> = Vec::new();
    for &node in order {
        let op = graph.op(node).name();
        for tensor in graph.outputs(node) {
            let output = graph.output_index(tensor);
            let output_type = graph.output_type(tensor);
            let has_own = matches!(buffer(op, output, output_type.is_ref), Buffer::Own | Buffer::DyingInput);
            if has_own
                && output_type.dtype.size_in_bytes().is_some()
                && placement.output(tensor) != Place::Host
                && analysis.sizes.bytes(tensor).is_none()
                && !is_reserve_space(op, output)
            {
                unknown.push(tensor);
            }
        }
    }
    if unknown.is_empty() {
        return Ok(());
    }
    let is_open = |node: &NodeId| {
        graph.op(*node).name().starts_with("Placeholder")
            && graph.outputs(*node).any(|tensor| analysis.sizes.bytes(tensor).is_none())
    };
    let shape_of =
        |node: NodeId| match graph.outputs(node).next().and_then(|tensor| analysis.shapes.get(tensor)) {
            Some(shape) => {
                let sizes: Vec<String> = shape
                    .iter()
                    .map(|&size| if size < 0 { "?".to_string() } else { size.to_string() })
                    .collect();
                format!("{}={}", graph.name(node), sizes.join("x"))
            }
            None => graph.name(node).to_string(),
        };
    Err(UnknownSizes {
        count: unknown.len(),
        examples: unknown
            .iter()
            .take(MOST_EXAMPLES)
            .map(|&tensor| graph.tensor_name(tensor).to_string())
            .collect(),
        placeholders: order.iter().copied().filter(is_open).map(shape_of).collect(),
    })
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
    pub is_copy: bool,
    pub seconds: f64,
    pub workspace_bytes: u64,
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
}

impl Program {
    /// The step with the swaps and orders of a plan.
    pub fn new(outline: &Outline, draft: &Draft) -> Program {
        let mut builder = Builder::new(outline, draft);
        for (number, &node) in outline.order.iter().enumerate() {
            builder.connect(number as u32, node);
        }
        builder.order_ops();
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

    /// The tensors that an entry reads, by input; none for constants and what is never made.
    pub fn reads(&self, op: u32) -> impl Iterator<Item = Option<u32>> {
        self.reads.row(op as usize).iter().map(|&tensor| (tensor != NONE).then_some(tensor))
    }

    /// The scratch memory that an entry takes while it runs.
    pub fn workspace_bytes(&self, op: u32) -> u64 {
        self.ops[op as usize].workspace_bytes
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

struct Builder<'a> {
    outline: &'a Outline<'a>,
    draft: &'a Draft,
    ops: Vec<Op>,
    tensors: Vec<Tensor>,
    /// For each tensor of the graph that the step makes, its number in the program.
    numbers: Vec<u32>,
    edges: Vec<(u32, u32)>,
    reads: Vec<(u32, u32)>,
    /// For each tensor of the program and place the copy there.
    copies: HashMap<(u32, Place), u32>,
    signals: HashMap<(u32, Place), u32>,
    /// For each tensor of the graph its swap.
    swap_of: HashMap<TensorId, u32>,
    /// For each swap, the swap-in of each consumer.
    uses: HashMap<(TensorId, NodeId), u32>,
    swapped_in: HashMap<(u32, u32), u32>,
    /// For each op what waits until a tensor is out.
    waiting: HashMap<NodeId, Vec<u32>>,
    swap_outs: HashMap<u32, u32>,
    /// The entries of constants that are swapped.
    constants: HashMap<TensorId, u32>,
}

impl<'a> Builder<'a> {
    fn new(outline: &'a Outline<'a>, draft: &'a Draft) -> Builder<'a> {
        let Analysis { graph, sizes, .. } = outline.analysis;
        let mut builder = Builder {
            outline,
            draft,
            ops: Vec::with_capacity(outline.order.len() * 5 / 4),
            tensors: Vec::with_capacity(outline.order.len() * 2),
            numbers: vec![NONE; graph.tensor_count()],
            edges: Vec::with_capacity(outline.order.len() * 3),
            reads: Vec::with_capacity(outline.order.len() * 2),
            copies: HashMap::new(),
            signals: HashMap::new(),
            swap_of: draft.swaps.iter().enumerate().map(|(swap, of)| (of.tensor, swap as u32)).collect(),
            uses: HashMap::new(),
            swapped_in: HashMap::new(),
            waiting: HashMap::new(),
            swap_outs: HashMap::new(),
            constants: HashMap::new(),
        };
        for (number, swap) in draft.swaps.iter().enumerate() {
            for (which, swap_in) in swap.uses.iter().enumerate() {
                builder
                    .uses
                    .extend(swap_in.consumers.iter().map(|&node| ((swap.tensor, node), which as u32)));
            }
            for &node in &swap.waiting {
                builder.waiting.entry(node).or_default().push(number as u32);
            }
        }
        for (number, &node) in outline.order.iter().enumerate() {
            let op = graph.op(node).name();
            let place = outline.placement.op(node);
            let first_tensor = builder.tensors.len() as u32;
            for tensor in graph.outputs(node) {
                builder.numbers[tensor.index()] = builder.tensors.len() as u32;
                let output = graph.output_index(tensor);
                let content_bytes = sizes.bytes(tensor).unwrap_or(0);
                builder.tensors.push(Tensor {
                    bytes: in_chunks(content_bytes),
                    content_bytes,
                    place: outline.placement.output(tensor),
                    buffer: buffer(op, output, graph.output_type(tensor).is_ref),
                    uses: 0,
                });
            }
            builder.ops.push(Op {
                origin: Origin::Op(node),
                from: place,
                to: place,
                is_copy: false,
                seconds: outline.seconds[number],
                workspace_bytes: outline.workspace_bytes[number],
                waits: 0,
                first_tensor,
                tensors: builder.tensors.len() as u32 - first_tensor,
            });
        }
        builder
    }

    /// Lets an op of the graph wait for what it reads and for what it does not.
    fn connect(&mut self, op: u32, node: NodeId) {
        let Analysis { graph, .. } = self.outline.analysis;
        for (slot, &tensor) in graph.data_inputs(node).iter().enumerate() {
            let producer = graph.producer(tensor);
            let is_there =
                !graph.is_back_edge(producer, node) && !self.outline.liveness.is_dead(graph, tensor);
            let is_swapped = self.uses.contains_key(&(tensor, node));
            if is_there && (is_swapped || self.is_copied_constant(tensor, node, slot)) {
                self.keep_constant(tensor);
            }
            let Some(maker) = self.maker(tensor).filter(|_| is_there) else {
                self.reads.push((op, NONE));
                continue;
            };
            let wanted = self.outline.placement.inputs(node)[slot];
            let (maker, made) = match self.uses.get(&(tensor, node)) {
                Some(&which) => self.swap_in(tensor, which),
                None => (maker, self.numbers[tensor.index()]),
            };
            let (maker, made) = self.brought(maker, made, wanted, Origin::Copy(tensor));
            self.edges.push((maker, op));
            self.read(op, made);
        }
        for &before in graph.control_inputs(node).iter().filter(|&&before| !graph.is_back_edge(before, node))
        {
            if let Some(before) = self.outline.number(before) {
                self.wait(op, before);
            }
        }
        for swap in self.waiting.remove(&node).unwrap_or_default() {
            let swap_out = self.swap_out(swap);
            self.wait(op, swap_out);
        }
    }

    /// What makes a tensor.
    fn maker(&self, tensor: TensorId) -> Option<u32> {
        let producer = self.outline.analysis.graph.producer(tensor);
        self.outline.number(producer).or_else(|| self.constants.get(&tensor).copied())
    }

    /// Whether a tensor is a constant that each step copies to a GPU: one of `int32`, which TensorFlow keeps on the host, for
    /// a reader that wants it in the GPU's memory.
    fn is_copied_constant(&self, tensor: TensorId, node: NodeId, slot: usize) -> bool {
        let Outline { analysis, placement, .. } = self.outline;
        analysis.graph.output_type(tensor).dtype == DataType::INT32
            && self.maker(tensor).is_none()
            && placement.output(tensor) == Place::Host
            && placement.inputs(node)[slot] != Place::Host
    }

    /// Makes an entry for a tensor that is to be swapped although it is a constant: it is copied all the same, from where it
    /// is kept.
    fn keep_constant(&mut self, tensor: TensorId) {
        let outline = self.outline;
        let Analysis { graph, sizes, step, .. } = outline.analysis;
        let producer = graph.producer(tensor);
        let is_made = self.maker(tensor).is_some();
        if is_made || !step.contains(producer) || outline.liveness.is_dead_op(producer) {
            return;
        }
        let place = outline.placement.output(tensor);
        let content_bytes = sizes.bytes(tensor).unwrap_or(0);
        let output = Some((content_bytes, Buffer::Persistent));
        let op = self.add(Origin::Op(producer), place, place, false, output);
        self.numbers[tensor.index()] = self.ops[op as usize].first_tensor;
        self.constants.insert(tensor, op);
    }

    /// The edges that a plan adds between ops.
    fn order_ops(&mut self) {
        for order in &self.draft.orders {
            if let (Some(before), Some(after)) =
                (self.outline.number(order.before), self.outline.number(order.after))
            {
                self.wait(after, before);
            }
        }
    }

    fn read(&mut self, op: u32, tensor: u32) {
        self.tensors[tensor as usize].uses += 1;
        self.reads.push((op, tensor));
    }

    /// A tensor in another place, and what brings it there. TensorFlow makes one copy for all who read it there.
    fn brought(&mut self, maker: u32, tensor: u32, wanted: Place, origin: Origin) -> (u32, u32) {
        let Tensor { place, content_bytes, .. } = self.tensors[tensor as usize];
        if place == wanted {
            return (maker, tensor);
        }
        let copy = match self.copies.get(&(tensor, wanted)) {
            Some(&copy) => copy,
            None => {
                let copy = self.add(origin, place, wanted, true, Some((content_bytes, Buffer::Own)));
                self.edges.push((maker, copy));
                self.read(copy, tensor);
                self.copies.insert((tensor, wanted), copy);
                copy
            }
        };
        (copy, self.ops[copy as usize].first_tensor)
    }

    /// Lets an op wait for another without reading it.
    fn wait(&mut self, op: u32, before: u32) {
        let (from, wanted) = (self.ops[before as usize].to, self.ops[op as usize].from);
        let before = if from == wanted {
            before
        } else if let Some(&signal) = self.signals.get(&(before, wanted)) {
            signal
        } else {
            let signal = self.add(Origin::Signal(before), from, wanted, true, None);
            self.edges.push((before, signal));
            self.signals.insert((before, wanted), signal);
            signal
        };
        self.edges.push((before, op));
    }

    /// The op on the host that has the tensor once it is out.
    fn swap_out(&mut self, swap: u32) -> u32 {
        if let Some(&op) = self.swap_outs.get(&swap) {
            return op;
        }
        let tensor = self.draft.swaps[swap as usize].tensor;
        let number = self.numbers[tensor.index()];
        let Some(maker) = self.maker(tensor) else { return NONE };
        let (copy, on_host) = self.brought(maker, number, Place::Host, Origin::Copy(tensor));
        let op =
            self.add(Origin::SwapOut(tensor), Place::Host, Place::Host, false, Some((0, Buffer::Input(0))));
        self.edges.push((copy, op));
        self.read(op, on_host);
        self.swap_outs.insert(swap, op);
        op
    }

    /// A tensor that comes back, and what brings it.
    fn swap_in(&mut self, tensor: TensorId, which: u32) -> (u32, u32) {
        let swap = self.swap_of[&tensor];
        if let Some(&copy) = self.swapped_in.get(&(swap, which)) {
            return (copy, self.ops[copy as usize].first_tensor);
        }
        let draft = self.draft;
        let Tensor { place, content_bytes, .. } = self.tensors[self.numbers[tensor.index()] as usize];
        let number = self.numbers[tensor.index()];
        let (maker, on_host) = if draft.swaps[swap as usize].waiting.is_empty() {
            let maker = self.maker(tensor).unwrap_or(NONE);
            self.brought(maker, number, Place::Host, Origin::Copy(tensor))
        } else {
            let op = self.swap_out(swap);
            (op, self.ops[op as usize].first_tensor)
        };
        let keeper = self.add(
            Origin::Swap(tensor, which),
            Place::Host,
            Place::Host,
            false,
            Some((0, Buffer::Input(0))),
        );
        self.edges.push((maker, keeper));
        self.read(keeper, on_host);
        for &trigger in &draft.swaps[swap as usize].uses[which as usize].triggers {
            if let Some(trigger) = self.outline.number(trigger) {
                self.wait(keeper, trigger);
            }
        }
        let copy = self.add(
            Origin::SwapIn(tensor, which),
            Place::Host,
            place,
            true,
            Some((content_bytes, Buffer::Own)),
        );
        self.edges.push((keeper, copy));
        self.read(copy, self.ops[keeper as usize].first_tensor);
        self.swapped_in.insert((swap, which), copy);
        (copy, self.ops[copy as usize].first_tensor)
    }

    fn add(
        &mut self,
        origin: Origin,
        from: Place,
        to: Place,
        is_copy: bool,
        output: Option<(u64, Buffer)>,
    ) -> u32 {
        let first_tensor = self.tensors.len() as u32;
        self.tensors.extend(output.map(|(content_bytes, buffer)| Tensor {
            bytes: in_chunks(content_bytes),
            content_bytes,
            place: to,
            buffer,
            uses: 0,
        }));
        self.ops.push(Op {
            origin,
            from,
            to,
            is_copy,
            seconds: 0.0,
            workspace_bytes: 0,
            waits: 0,
            first_tensor,
            tensors: self.tensors.len() as u32 - first_tensor,
        });
        self.ops.len() as u32 - 1
    }

    fn finish(mut self) -> Program {
        for &(_, to) in &self.edges {
            self.ops[to as usize].waits += 1;
        }
        let rows = |pairs: &[(u32, u32)]| {
            Rows::group(self.ops.len(), || pairs.iter().map(|&(row, value)| (row as usize, value)), NONE)
        };
        Program {
            reads: rows(&self.reads),
            successors: rows(&self.edges),
            persistent: self.outline.persistent.clone(),
            tensors: self.tensors,
            ops: self.ops,
        }
    }
}
