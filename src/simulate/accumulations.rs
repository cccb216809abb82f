//! Accumulators of loops on the host: what goes there together, and what that copies.

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use super::carried::Carried;
use super::holders::root;
use super::loops::Loops;
use super::pool::in_chunks;
use crate::graph::{FrameId, Graph, NodeId, TensorId};
use crate::ops::{Attr, AttrLookup, Flow};
use crate::order::{Place, Placement};
use crate::plan::{Accumulator, Analysis, Draft, TensorSwap, Traffic};

/// In how many copies an element is on a GPU at a time that goes to the host or comes back, if the loop waits for the copies: the one that is
/// copied, and the one that is made or read meanwhile.
const AT_A_TIME: u64 = 2;

/// How many iterations a loop has under way at once that does not say it: the default of `Enter`.
const DEFAULT_AT_ONCE: i64 = 10;

/// How far loops may run ahead of the copies of their elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// As far as a plan's orders let them.
    AsPlanned,
    /// As if a plan's orders held back what leaves.
    Paced,
    /// Not at all, as no plan can have it better.
    OneAtATime,
}

/// Accumulators that go to the host together: those that keep the same tensors. With one of them alone these would stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accumulation {
    /// All of them as one.
    pub accumulator: Accumulator,
    /// What the GPU keeps less if they go, in bytes.
    pub kept_bytes: u64,
}

/// What can go to the host, of which GPUs keep something.
pub(super) fn accumulations(analysis: &Analysis, loops: &Loops, all: &[Accumulator]) -> Vec<Accumulation> {
    // Who keeps the same tensors, by the number of the first of them.
    let mut group: Vec<usize> = (0..all.len()).collect();
    let of_holder: HashMap<NodeId, usize> = (0..).zip(all).map(|(number, of)| (of.first, number)).collect();
    let mut freed: Vec<(usize, u64)> = Vec::new();
    for (&tensor, holders) in loops.holders() {
        let numbers: Option<Vec<usize>> =
            holders.iter().map(|holder| of_holder.get(holder).copied()).collect();
        // One that stays keeps the tensor anyway.
        let Some(&[first, ref others @ ..]) = numbers.as_deref() else { continue };
        for &other in others {
            let (low, high) = (group[first].min(group[other]), group[first].max(group[other]));
            group.iter_mut().filter(|of| **of == high).for_each(|of| *of = low);
        }
        let once = in_chunks(analysis.sizes.bytes(tensor).unwrap_or(0));
        freed.push((first, loops.bytes(tensor, once).saturating_sub(AT_A_TIME * once)));
    }
    let mut joined: Vec<Accumulation> = Vec::new();
    for number in (0..all.len()).filter(|&number| group[number] == number) {
        let members = || (0..all.len()).filter(|&other| group[other] == number);
        let kept_bytes = freed.iter().filter(|(of, _)| group[*of] == number).map(|(_, bytes)| bytes).sum();
        let mut accumulator = all[number].clone();
        for other in members().skip(1).map(|other| &all[other]) {
            accumulator.ops.extend(&other.ops);
            accumulator.added.extend(&other.added);
            accumulator.taken.extend(&other.taken);
        }
        accumulator.ops.sort_unstable();
        accumulator.ops.dedup();
        if kept_bytes > 0 && members().all(|other| is_sized(analysis, &all[other])) {
            joined.push(Accumulation { accumulator, kept_bytes });
        }
    }
    joined
}

/// Whether it is known how large all elements are.
fn is_sized(analysis: &Analysis, accumulator: &Accumulator) -> bool {
    accumulator.added.iter().chain(&accumulator.taken).all(|&tensor| analysis.sizes.bytes(tensor).is_some())
}

/// What is known of the accumulators that are on the host with a plan.
#[derive(Debug, Clone, Default)]
pub(super) struct OnHost {
    accumulators: Vec<Accumulator>,
}

impl OnHost {
    /// Those of which all ops go to the host.
    pub fn of(all: &[Accumulator], host_ops: &[NodeId]) -> OnHost {
        let goes = |of: &&Accumulator| of.ops.iter().all(|op| host_ops.binary_search(op).is_ok());
        OnHost { accumulators: all.iter().filter(goes).cloned().collect() }
    }

    pub fn accumulators(&self) -> &[Accumulator] {
        &self.accumulators
    }

    /// For each op that takes elements off what was added, which is on the host until then.
    pub fn kept_until(&self, graph: &Graph) -> HashMap<NodeId, Vec<TensorId>> {
        let mut kept: HashMap<NodeId, Vec<TensorId>> = HashMap::default();
        for accumulator in &self.accumulators {
            let takers = accumulator.taken.iter().map(|&tensor| graph.producer(tensor));
            takers.for_each(|taker| kept.entry(taker).or_default().extend(&accumulator.added));
        }
        kept
    }

    /// For each tensor of a GPU that is on its way to or from the host in a loop how often it is there at a time.
    pub fn at_a_time(
        &self,
        analysis: &Analysis,
        loops: &Loops,
        carried: &Carried,
        draft: &Draft,
        pace: Pace,
    ) -> HashMap<TensorId, u64> {
        let Analysis { graph, flow, .. } = analysis;
        let mut times = HashMap::default();
        if self.accumulators.is_empty() {
            return times;
        }
        let at_once = iterations_at_once(analysis);
        let most = |node: NodeId, is_paced: bool, unpaced: u64| match (pace, is_paced) {
            (Pace::OneAtATime, _) => 1,
            (Pace::AsPlanned, true) | (Pace::Paced, true) => loops.times(node).min(AT_A_TIME),
            (Pace::AsPlanned | Pace::Paced, false) => loops.times(node).min(unpaced),
        };
        for accumulator in &self.accumulators {
            for &tensor in &accumulator.added {
                let Some(made) = root(graph, &analysis.sizes, tensor) else { continue };
                let maker = graph.producer(made);
                let is_paced = next_waits_for_adding(graph, accumulator, tensor)
                    || draft.orders.iter().any(|order| order.after == maker && accumulator.has(order.before));
                let of = times.entry(made).or_default();
                // Nothing but such an edge has a GPU wait until what it sent has left.
                *of = most(maker, is_paced || pace == Pace::Paced, u64::MAX).max(*of);
            }
            for &tensor in &accumulator.taken {
                let taker = graph.producer(tensor);
                let next = Carried::next_iteration(graph, flow, taker);
                let is_paced = draft.orders.iter().any(|order| {
                    next == Some(order.after)
                        && carried.waits(order.before)
                        && flow.frame(order.before) == flow.frame(taker)
                });
                // What came is there until its iteration is over, and there are only so many at once.
                let unpaced = at_once.get(&flow.frame(taker)).copied().unwrap_or(u64::MAX);
                times.insert(tensor, most(taker, is_paced, unpaced));
            }
        }
        times
    }

    /// What a step with a plan copies for them beyond what it copies as it is, and beyond what its swaps copy: for each GPU. `placement` is
    /// that of the graph as it is.
    pub fn traffic(
        &self,
        analysis: &Analysis,
        loops: &Loops,
        placement: &Placement,
        draft: &Draft,
    ) -> Vec<Traffic> {
        let graph = analysis.graph;
        let mut traffic = vec![Traffic::default(); placement.gpus().len()];
        let bytes = |tensor: TensorId| {
            let once = analysis.sizes.bytes(tensor).unwrap_or(0);
            once.saturating_mul(loops.times_given(graph, tensor))
        };
        let swapped: HashMap<TensorId, &TensorSwap> =
            draft.swaps.iter().map(|swap| (swap.tensor, swap)).collect();
        let comes_later = &|tensor: TensorId, node: NodeId| {
            let swap = swapped.get(&tensor);
            swap.is_some_and(|swap| swap.uses.iter().any(|back| back.consumers.contains(&node)))
        };
        let wanted = |tensor: TensorId| {
            let readers = graph.uses(tensor).iter().filter(move |reader| {
                analysis.step.contains(reader.node)
                    && !comes_later(tensor, reader.node)
                    && !draft.is_host_op(reader.node)
            });
            readers.filter_map(|reader| placement.inputs(reader.node).get(reader.slot as usize).copied())
        };
        let all = |tensors: fn(&Accumulator) -> &[TensorId]| -> HashSet<TensorId> {
            self.accumulators.iter().flat_map(tensors).copied().collect()
        };
        for tensor in all(|of| &of.added) {
            // Whoever reads it on the host has it copied anyway, and so has a swap.
            if let Place::Gpu(gpu) = placement.output(tensor)
                && !wanted(tensor).any(|place| place == Place::Host)
                && !swapped.contains_key(&tensor)
                && !draft.is_host_op(graph.producer(tensor))
            {
                traffic[usize::from(gpu)].out_bytes += bytes(tensor);
            }
        }
        for tensor in all(|of| &of.taken) {
            let gpus: HashSet<Place> = wanted(tensor).collect();
            for gpu in gpus {
                if let Place::Gpu(gpu) = gpu {
                    traffic[usize::from(gpu)].in_bytes += bytes(tensor);
                }
            }
        }
        traffic
    }
}

/// How many iterations of each loop TensorFlow has under way at once, at most.
pub(super) fn iterations_at_once(analysis: &Analysis) -> HashMap<FrameId, u64> {
    let Analysis { graph, flow, .. } = analysis;
    let enters = graph.node_ids().filter(|&node| graph.flow(node) == Some(Flow::Enter));
    let said = enters.map(|node| {
        let said = match graph.attrs(node).attr("parallel_iterations") {
            Some(Attr::Int(said)) => said,
            _ => DEFAULT_AT_ONCE,
        };
        (flow.output_frame(node), u64::try_from(said).unwrap_or(1).max(1))
    });
    said.collect()
}

/// Whether the loop waits by itself for the op that adds a tensor before it goes on, as with stacks of TensorFlow 1.
fn next_waits_for_adding(graph: &Graph, accumulator: &Accumulator, tensor: TensorId) -> bool {
    let adds = |node: &&NodeId| {
        graph.op(**node).facts().adds().is_some() && graph.data_inputs(**node).contains(&tensor)
    };
    let mut next = accumulator.ops.iter().filter(adds).flat_map(|&node| graph.control_outputs(node));
    next.any(|&node| graph.flow(node) == Some(Flow::NextIteration))
}
