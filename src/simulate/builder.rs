//! Puts a plan's swaps, orders and recomputations into a step, and the copies that TensorFlow then makes.

use std::collections::HashSet;
use std::ops::Range;

use rustc_hash::FxHashMap as HashMap;

use super::accumulations::Pace;
use super::loops::WholeBehind;
use super::merged::{Connected, Merged};
use super::outline::Outline;
use super::pool::in_chunks;
use super::program::{Buffer, NONE, Op, Origin, Program, Rest, Tensor};
use super::runs::{Runs, add_run, pieces};
use super::wiring::Input;
use crate::cost::Workspace;
use crate::graph::{Graph, NodeId, Rows, TensorId};
use crate::ops::Flow;
use crate::order::Place;
use crate::plan::{Analysis, Draft, Substitute, idle_ops};

/// How a value leaves a loop.
struct Leaving {
    /// What the `Switch` at the loop's beginning gives out when the loop is done.
    from: TensorId,
    /// What the body hands on to the next iteration.
    next: TensorId,
}

/// How a value leaves a loop by an op that is the way out. Gradients of version 1 have an `Identity` before it.
fn leaving(graph: &Graph, exit: NodeId) -> Option<Leaving> {
    let first = |node: NodeId| graph.data_inputs(node).first().copied();
    let maker = |tensor: TensorId| Some(graph.producer(tensor)).filter(|node| node.index() < graph.len());
    let is = |node: NodeId, flow: Flow| graph.flow(node) == Some(flow);
    if !is(exit, Flow::Exit) {
        return None;
    }
    let mut from = first(exit)?;
    while graph.flow(maker(from)?).is_none() && graph.op(maker(from)?).name() == "Identity" {
        from = first(maker(from)?)?;
    }
    let switch = maker(from).filter(|&node| is(node, Flow::Switch))?;
    let merge = maker(first(switch)?).filter(|&node| is(node, Flow::Merge))?;
    let mut inputs = graph.data_inputs(merge).iter().copied();
    let next = inputs.find(|&input| graph.is_back_edge(graph.producer(input), merge))?;
    Some(Leaving { from, next })
}

/// A program in the making.
pub(super) struct Builder<'a> {
    outline: &'a Outline<'a>,
    draft: &'a Draft,
    ops: Vec<Op>,
    tensors: Vec<Tensor>,
    /// For each tensor of the graph that the step makes, its number in the program.
    numbers: Vec<u32>,
    /// For each tensor that a loop keeps the numbers of the rest of it.
    rests: &'a HashMap<TensorId, Range<u32>>,
    /// What there is as a whole when a loop is done.
    behind_loops: Vec<Rest>,
    /// For each tensor of the graph whether the plan gives any of its readers another one.
    is_replaced: Vec<bool>,
    edges: Vec<(u32, u32)>,
    reads: Vec<(u32, u32)>,
    /// For each tensor of the program, place, and where the op runs that reads it there, the copy. What an op of a GPU reads in the host's
    /// memory is copied for that GPU's part of the graph, and for the host's part once more.
    copies: HashMap<(u32, Place, Place), u32>,
    signals: HashMap<(u32, Place), u32>,
    /// For each tensor of the graph its swap.
    swap_of: HashMap<TensorId, u32>,
    /// For each swap, the swap-in of each consumer.
    uses: HashMap<(TensorId, NodeId), u32>,
    /// For each swap and return the op on the host that gives the tensor back.
    keepers: HashMap<(u32, u32), u32>,
    /// For each consumer of what is computed again the plan's recomputation.
    recomputed: HashMap<(TensorId, NodeId), u32>,
    /// For each recomputation its entry; none if no step runs the op.
    again: Vec<u32>,
    /// For each op what waits until a tensor is out.
    waiting: HashMap<NodeId, Vec<u32>>,
    swap_outs: HashMap<u32, u32>,
    /// The entries of constants that are swapped.
    constants: HashMap<TensorId, u32>,
    /// The ops that do not run with the plan.
    idle: HashSet<NodeId>,
    /// For each op that takes elements off an accumulator on the host what is there until then.
    kept_on_host: HashMap<NodeId, Vec<TensorId>>,
    /// How often tensors of loops are there at a time that are copied for such an accumulator.
    at_a_time: HashMap<TensorId, u64>,
    merged: Merged,
}

impl<'a> Builder<'a> {
    /// The ops of the step, not yet connected.
    pub(super) fn new(outline: &'a Outline<'a>, draft: &'a Draft, pace: Pace) -> Builder<'a> {
        let Runs { ops, tensors, numbers, rests, .. } = outline.runs();
        let mut builder = Builder {
            outline,
            draft,
            ops: ops.clone(),
            tensors: tensors.clone(),
            numbers: numbers.clone(),
            rests,
            behind_loops: Vec::new(),
            is_replaced: vec![false; numbers.len()],
            edges: Vec::with_capacity(outline.order.len() * 3),
            reads: Vec::with_capacity(outline.order.len() * 2),
            copies: HashMap::default(),
            signals: HashMap::default(),
            swap_of: draft.swaps.iter().enumerate().map(|(swap, of)| (of.tensor, swap as u32)).collect(),
            uses: HashMap::default(),
            keepers: HashMap::default(),
            recomputed: HashMap::default(),
            again: Vec::new(),
            waiting: HashMap::default(),
            swap_outs: HashMap::default(),
            constants: HashMap::default(),
            idle: idle_ops(outline.analysis, draft),
            kept_on_host: outline.on_host.kept_until(outline.analysis.graph),
            at_a_time: outline.copies_at_a_time(draft, pace),
            merged: Merged::default(),
        };
        for (&tensor, &times) in &builder.at_a_time {
            let number = builder.numbers[tensor.index()];
            if number != NONE
                && let Place::Gpu(_) = builder.tensors[number as usize].place
            {
                let bytes = &mut builder.tensors[number as usize].bytes;
                *bytes = bytes.saturating_mul(times);
            }
        }
        for (number, swap) in draft.swaps.iter().enumerate() {
            builder.is_replaced[swap.tensor.index()] = true;
            for (which, swap_in) in swap.uses.iter().enumerate() {
                builder
                    .uses
                    .extend(swap_in.consumers.iter().map(|&node| ((swap.tensor, node), which as u32)));
            }
            for &node in &swap.waiting {
                builder.waiting.entry(node).or_default().push(number as u32);
            }
        }
        for (number, again) in (0u32..).zip(&draft.recomputations) {
            for (tensor, consumers) in &again.outputs {
                builder.is_replaced[tensor.index()] = true;
                builder.recomputed.extend(consumers.iter().map(|&node| ((*tensor, node), number)));
            }
            let runs = outline.number(again.op).is_some();
            let origin = Origin::Recomputation(again.op, number);
            builder.again.push(if runs { builder.ops.len() as u32 } else { NONE });
            if runs {
                add_run(outline, again.op, origin, &mut builder.ops, &mut builder.tensors);
            }
        }
        builder
    }

    /// Lets an op of the step wait for what it reads and for what it does not.
    pub(super) fn connect(&mut self, op: u32, node: NodeId) {
        if self.idle.contains(&node) {
            self.empty(op);
            return;
        }
        let wiring = self.outline.wiring();
        self.connect_node(op, node, (wiring.inputs(op), wiring.before(op)));
    }

    /// Lets the entry of an op that does not run take no time and no memory.
    fn empty(&mut self, op: u32) {
        let Op { first_tensor, tensors, .. } = self.ops[op as usize];
        let made = first_tensor as usize..(first_tensor + tensors) as usize;
        self.tensors[made].iter_mut().for_each(|tensor| *tensor = Tensor::absent(tensor.place));
        let entry = &mut self.ops[op as usize];
        (entry.seconds, entry.workspace) = (0.0, Workspace::NONE);
    }

    fn connect_node(&mut self, op: u32, node: NodeId, wires: (&[Input], &[u32])) {
        self.connect_inputs(op, wires, |builder, tensor| {
            if !builder.is_replaced[tensor.index()] {
                return None;
            }
            let swap_in = builder.uses.get(&(tensor, node)).map(|&which| Substitute::SwapIn(which));
            swap_in.or_else(|| {
                builder.recomputed.get(&(tensor, node)).map(|&again| Substitute::Recomputation(again))
            })
        });
        self.connect_result(op, node, wires.0.len());
        for &kept in self.outline.loops.taken(node) {
            if self.outline.number(self.outline.analysis.graph.producer(kept)).is_some() {
                self.read(op, self.numbers[kept.index()]);
            }
        }
        for kept in self.outline.loops.rest_taken(node) {
            for rest in self.rests.get(kept).cloned().into_iter().flatten() {
                self.read(op, rest);
            }
        }
        for added in self.kept_on_host.remove(&node).unwrap_or_default() {
            if let Some(maker) = self.maker(added) {
                let (_, on_host) = self.brought_to_host(maker, self.numbers[added.index()], added);
                self.read(op, on_host);
            }
        }
        let waiting = if self.waiting.is_empty() { None } else { self.waiting.remove(&node) };
        for swap in waiting.unwrap_or_default() {
            if let Some(swap_out) = self.swap_out(swap) {
                self.wait(op, swap_out);
            }
        }
    }

    /// Lets what leaves a loop be what the body made last, which waits to be handed on to the next iteration, and not what the loop began
    /// with, which is gone by then. `inputs` is how many inputs the op has that is the way out.
    fn connect_result(&mut self, op: u32, exit: NodeId, inputs: usize) {
        let Some(Leaving { from, next }) = leaving(self.outline.analysis.graph, exit) else { return };
        let (made, result) = (self.numbers[next.index()], self.ops[op as usize].first_tensor);
        if made != NONE && self.tensors[made as usize].place == self.tensors[result as usize].place {
            self.tensors[result as usize].buffer = Buffer::Input(inputs as u32);
            self.read(op, made);
            if let Some(began) = self.tensors.get_mut(self.numbers[from.index()] as usize) {
                began.buffer = Buffer::Persistent;
            }
        }
    }

    /// The same for all that runs a second time.
    pub(super) fn connect_recomputations(&mut self) {
        let draft = self.draft;
        let wiring = self.outline.wiring();
        for (number, again) in draft.recomputations.iter().enumerate() {
            let op = self.again[number];
            let Some(first) = self.outline.number(again.op).filter(|_| op != NONE) else { continue };
            self.connect_inputs(op, (wiring.inputs(first), wiring.before(first)), |_, tensor| {
                again.inputs.iter().find(|(read, _)| *read == tensor).map(|&(_, from)| from)
            });
            again.triggers.iter().for_each(|&trigger| self.wait_for_node(op, trigger));
        }
    }

    /// Has what a loop made be there as a whole when it is done, until somebody takes it.
    pub(super) fn connect_whole_behind(&mut self) {
        let outline = self.outline;
        let mut takers: HashMap<TensorId, Vec<u32>> =
            outline.loops.whole_behind().map(|(tensor, ..)| (tensor, Vec::new())).collect();
        if takers.is_empty() {
            return;
        }
        for (number, &node) in (0u32..).zip(&outline.order) {
            for taken in outline.loops.taken(node) {
                takers.entry(*taken).and_modify(|takers| takers.push(number));
            }
        }
        for (tensor, WholeBehind { exit, bytes, count }) in outline.loops.whole_behind() {
            let Some(exit_entry) = outline.number(exit) else { continue };
            let bytes = if outline.case.is_absent(outline.analysis.graph, tensor) { 0 } else { bytes };
            let place = outline.placement.output(tensor);
            let op = self.add(Origin::Op(exit), place, place, false, None);
            self.edges.push((exit_entry, op));
            let first = self.tensors.len() as u32;
            let pieces = pieces(in_chunks(bytes), count);
            self.tensors.extend(pieces.map(|bytes| Tensor::of_rest(bytes, place)));
            let made = first..self.tensors.len() as u32;
            self.ops[op as usize].tensors = made.end - made.start;
            self.behind_loops.push(Rest { of: tensor, tensors: made.clone() });
            for &taker in &takers[&tensor] {
                self.edges.push((op, taker));
                made.clone().for_each(|piece| self.read(taker, piece));
            }
        }
    }

    /// Lets an entry read inputs, those from elsewhere that `substitute` names, and wait for what it does not read.
    fn connect_inputs(
        &mut self,
        op: u32,
        (inputs, before): (&[Input], &[u32]),
        substitute: impl Fn(&Builder, TensorId) -> Option<Substitute>,
    ) {
        let is_switch = match self.ops[op as usize].origin {
            Origin::Op(node) | Origin::Recomputation(node, _) => {
                self.outline.analysis.graph.flow(node) == Some(Flow::Switch)
            }
            _ => false,
        };
        for (slot, input) in inputs.iter().enumerate() {
            let &Input { tensor, mut wanted, is_there, .. } = input;
            let from = substitute(self, tensor);
            let is_swapped = matches!(from, Some(Substitute::SwapIn(_)));
            if is_there && (is_swapped || input.is_copied_constant) {
                self.keep_constant(tensor);
            }
            let maker =
                if input.maker == NONE { self.constants.get(&tensor).copied() } else { Some(input.maker) };
            let Some(maker) = maker.filter(|_| is_there) else {
                self.reads.push((op, NONE));
                continue;
            };
            let ((maker, made), copy) = match from {
                Some(Substitute::SwapIn(which)) => {
                    (self.swapped(maker, tensor, which), Origin::SwapIn(tensor, which))
                }
                // What is the same in each step does not run again.
                Some(Substitute::Recomputation(again)) if self.again[again as usize] != NONE => {
                    (self.made_again(tensor, again), Origin::Copy(tensor))
                }
                _ => ((maker, self.numbers[tensor.index()]), Origin::Copy(tensor)),
            };
            // A `Switch` is where its data come from, and copies are made behind it, of the branch that is taken.
            if is_switch && slot == 0 && self.ops[maker as usize].receiver == Place::Host {
                self.go_to_host(op);
            }
            let runs_on = self.ops[op as usize].from;
            if is_switch && runs_on == Place::Host {
                wanted = Place::Host;
            }
            let (maker, made) = self.brought((maker, made), wanted, runs_on, copy);
            self.edges.push((maker, op));
            self.read(op, made);
        }
        before.iter().for_each(|&before| self.wait(op, before));
    }

    /// A tensor that is computed again, and what does that.
    fn made_again(&self, tensor: TensorId, again: u32) -> (u32, u32) {
        let entry = self.again[again as usize];
        (entry, self.ops[entry as usize].first_tensor + self.outline.analysis.graph.output_index(tensor))
    }

    /// What makes a tensor.
    fn maker(&self, tensor: TensorId) -> Option<u32> {
        let producer = self.outline.analysis.graph.producer(tensor);
        self.outline.number(producer).or_else(|| self.constants.get(&tensor).copied())
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
        // A copy of it goes in each iteration.
        let times = outline.loops.times_given(graph, tensor);
        let content_bytes = sizes.bytes(tensor).unwrap_or(0).saturating_mul(times);
        let output = Some((content_bytes, Buffer::Persistent));
        let op = self.add(Origin::Op(producer), place, place, false, output);
        // One of a GPU begins with that GPU's ops, wherever its value lies.
        let runs_on = outline.placement.op(producer);
        let entry = &mut self.ops[op as usize];
        (entry.from, entry.to, entry.receiver) = (runs_on, runs_on, runs_on);
        self.numbers[tensor.index()] = self.ops[op as usize].first_tensor;
        self.constants.insert(tensor, op);
    }

    /// The edges that a plan adds between ops.
    pub(super) fn order_ops(&mut self) {
        for order in &self.draft.orders {
            if let Some(after) = self.outline.number(order.after) {
                self.wait_for_node(after, order.before);
            }
        }
    }

    fn read(&mut self, op: u32, tensor: u32) {
        self.tensors[tensor as usize].uses += 1;
        self.reads.push((op, tensor));
    }

    /// Has an entry run on the host, with all that it makes.
    fn go_to_host(&mut self, op: u32) {
        let entry = &mut self.ops[op as usize];
        (entry.from, entry.to, entry.receiver) = (Place::Host, Place::Host, Place::Host);
        let made = entry.first_tensor as usize..(entry.first_tensor + entry.tensors) as usize;
        self.tensors[made].iter_mut().for_each(|tensor| tensor.place = Place::Host);
    }

    /// A tensor of the graph on the host, and what brings it there.
    fn brought_to_host(&mut self, maker: u32, number: u32, tensor: TensorId) -> (u32, u32) {
        self.brought((maker, number), Place::Host, Place::Host, Origin::Copy(tensor))
    }

    /// A tensor in another place, for an op that runs on `receiver`, and what brings it there. TensorFlow makes one copy for all who read it
    /// there.
    fn brought(
        &mut self,
        (maker, tensor): (u32, u32),
        wanted: Place,
        receiver: Place,
        origin: Origin,
    ) -> (u32, u32) {
        let Tensor { place, content_bytes, .. } = self.tensors[tensor as usize];
        if place == wanted {
            return (maker, tensor);
        }
        let copy = match self.copies.get(&(tensor, wanted, receiver)) {
            Some(&copy) => copy,
            None => {
                let copy = self.add(origin, place, wanted, true, Some((content_bytes, Buffer::Own)));
                self.ops[copy as usize].receiver = receiver;
                self.ops[copy as usize].is_expensive = self.ops[maker as usize].receiver == Place::Host;
                self.count_in_loop(copy, origin);
                self.edges.push((maker, copy));
                self.read(copy, tensor);
                self.copies.insert((tensor, wanted, receiver), copy);
                copy
            }
        };
        (copy, self.ops[copy as usize].first_tensor)
    }

    /// Has an entry stand for as many copies of a tensor as a loop makes, which take the memory of those that are there at a time.
    fn count_in_loop(&mut self, copy: u32, origin: Origin) {
        let (Origin::Copy(tensor) | Origin::SwapIn(tensor, _)) = origin else { return };
        let outline = self.outline;
        self.ops[copy as usize].copies = outline.loops.times_given(outline.analysis.graph, tensor);
        // Of a constant that is copied in each iteration one copy is there at a time.
        let times = self.at_a_time.get(&tensor).copied().or(self.constants.get(&tensor).map(|_| 1));
        if let Place::Gpu(_) = self.ops[copy as usize].to
            && let Some(times) = times
        {
            let once = self.outline.analysis.sizes.bytes(tensor).unwrap_or(0);
            let made = &mut self.tensors[self.ops[copy as usize].first_tensor as usize];
            if made.content_bytes > 0 {
                made.bytes = in_chunks(once).saturating_mul(times);
            }
        }
    }

    /// Lets an entry wait for an op of the graph; for a constant, for what that waits for.
    fn wait_for_node(&mut self, op: u32, before: NodeId) {
        let outline = self.outline;
        match outline.number(before) {
            Some(before) => self.wait(op, before),
            None => {
                let behind = outline.late.behind(before).iter();
                behind.filter_map(|&node| outline.number(node)).for_each(|node| self.wait(op, node));
            }
        }
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
            self.ops[signal as usize].is_expensive = self.ops[before as usize].receiver == Place::Host;
            self.edges.push((before, signal));
            self.signals.insert((before, wanted), signal);
            signal
        };
        self.edges.push((before, op));
    }

    /// The op on the host that has the tensor once it is out; none if no step makes the tensor.
    fn swap_out(&mut self, swap: u32) -> Option<u32> {
        if let Some(&op) = self.swap_outs.get(&swap) {
            return Some(op);
        }
        let tensor = self.draft.swaps[swap as usize].tensor;
        // Who waits for a constant may come before all who read it.
        self.keep_constant(tensor);
        let maker = self.maker(tensor)?;
        let number = self.numbers[tensor.index()];
        let (copy, on_host) = self.brought_to_host(maker, number, tensor);
        let op = self.pass_on(Origin::SwapOut(tensor), copy, on_host);
        self.swap_outs.insert(swap, op);
        Some(op)
    }

    /// The op on the host that gives a tensor back, and what it gives: the executor copies that to where it is read. `maker` makes the
    /// tensor.
    fn swapped(&mut self, maker: u32, tensor: TensorId, which: u32) -> (u32, u32) {
        let swap = self.swap_of[&tensor];
        if let Some(&keeper) = self.keepers.get(&(swap, which)) {
            return (keeper, self.ops[keeper as usize].first_tensor);
        }
        let draft = self.draft;
        let number = self.numbers[tensor.index()];
        let swap_out = match draft.swaps[swap as usize].waiting.is_empty() {
            true => None,
            false => self.swap_out(swap),
        };
        let (maker, on_host) = match swap_out {
            Some(op) => (op, self.ops[op as usize].first_tensor),
            None => self.brought_to_host(maker, number, tensor),
        };
        let keeper = self.pass_on(Origin::Swap(tensor, which), maker, on_host);
        for &trigger in &draft.swaps[swap as usize].uses[which as usize].triggers {
            self.wait_for_node(keeper, trigger);
        }
        self.keepers.insert((swap, which), keeper);
        (keeper, self.ops[keeper as usize].first_tensor)
    }

    /// An op on the host that passes a tensor on.
    fn pass_on(&mut self, origin: Origin, maker: u32, tensor: u32) -> u32 {
        let content_bytes = self.tensors[tensor as usize].content_bytes;
        let op = self.add(origin, Place::Host, Place::Host, false, Some((content_bytes, Buffer::Input(0))));
        self.edges.push((maker, op));
        self.read(op, tensor);
        op
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
            receiver: to,
            is_copy,
            is_expensive: false,
            seconds: 0.0,
            workspace: Workspace::NONE,
            copies: u64::from(is_copy),
            waits: 0,
            first_tensor,
            tensors: self.tensors.len() as u32 - first_tensor,
        });
        self.ops.len() as u32 - 1
    }

    /// Merges what TensorFlow takes for one, now that all is connected.
    pub(super) fn merge_equals(&mut self) {
        let connected = Connected {
            ops: &mut self.ops,
            tensors: &mut self.tensors,
            reads: &mut self.reads,
            edges: &mut self.edges,
        };
        self.merged = connected.merge(self.outline.equals());
    }

    /// All in flat arrays.
    pub(super) fn finish(mut self) -> Program {
        for &(_, to) in &self.edges {
            self.ops[to as usize].waits += 1;
        }
        let rows = |pairs: &[(u32, u32)]| {
            Rows::group(self.ops.len(), || pairs.iter().map(|&(row, value)| (row as usize, value)), NONE)
        };
        let kept = self.rests.iter().map(|(&of, tensors)| Rest { of, tensors: tensors.clone() });
        let mut rests: Vec<Rest> = kept.chain(self.behind_loops).collect();
        rests.sort_unstable_by_key(|rest| rest.tensors.start);
        // Plans have all of them or none.
        let beginning = &self.outline.beginning;
        let initial = if self.draft.initial_values.is_empty() { &beginning.shared } else { &beginning.own };
        Program {
            parts: self.outline.runs().parts.clone(),
            reads: rows(&self.reads),
            successors: rows(&self.edges),
            persistent: self.outline.persistent.clone(),
            initial: initial.clone(),
            changed_variables: self.outline.changed_variables().clone(),
            tensors: self.tensors,
            ops: self.ops,
            merged: self.merged,
            rests,
        }
    }
}
