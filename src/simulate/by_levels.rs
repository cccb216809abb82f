//! The model of memory that TFLMSv2's tuner has, for comparison with ours.
//!
//! It walks the levels of the categorized topological sort, counts outputs of an op when the op runs, and drops a tensor when
//! its last consumer has run. Of a tensor that leaves, consumers that read a returned copy do not count; the copy counts from
//! when its trigger has run until its own last consumer has. It knows no time, no alignment, no fragmentation, no workspace, no
//! host memory; it takes every op of the graph for a part of the step, initializers too, and tensors
//! that share a buffer for different ones. What a graph learns is no part of the peak: TFLMSv2 takes it off the memory
//! instead, see [`usable_bytes`].
//!
//! TFLMSv2 says that a tensor which leaves asynchronously is there for one op more. That holds only where some consumer is too
//! near to read a copy; the extra op is then counted as part of the last such consumer, and nothing of it remains to be seen.
//! So here the two modes of leaving differ in nothing, and only those of returning do, through the triggers of the plan.
//!
//! Swapping can raise the peak of this model, even where all is synchronous and every threshold is 1: consumers that share no
//! copy get one each, all at once if they wait for the same op.
//!
//! Where the peaks are not TFLMSv2's own:
//! - Within a level TFLMSv2 goes by the order of a Python set, which differs from run to run; here it is that of the file.
//! - A tensor that leaves although several consumers on one level are too near for a copy is dropped there after one of these; the
//!   others get it again, for as many readers as it has in all. Here it stays until all of them have run.
//! - A copy whose trigger runs before the tensor is made never comes back there: the consumer gets the original again, for as
//!   many readers as it has in all. Here it gets its copy.
//! - Triggers are those of our plans; TFLMSv2 searches for them itself, with other ties.
//! - The branch that Keras's learning phase does not take is left out by what the graph's `Switch` ops pass on.
//! - What has no known size counts one byte there and nothing here.

use crate::graph::{Device, DeviceError, FrameId, Liveness, NodeId, Rows, TensorId};
use crate::plan::tflms::{Mode, Parameters, SyncMode};
use crate::plan::{Analysis, Draft, TensorSwap, TensorUse};
use crate::shape::decided_conditions;

/// The most memory that a step takes in the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LevelPeak {
    /// How much, without what the graph learns.
    pub bytes: u64,
    /// The op at which it is first reached; none if nothing has a size.
    pub node: Option<NodeId>,
}

/// What TFLMSv2's tuner leaves a step of a GPU's memory: a part of what learning parameters do not take.
pub fn usable_bytes(memory_bytes: u64, parameter_bytes: u64, memory_ratio: f64) -> u64 {
    (memory_bytes.saturating_sub(parameter_bytes) as f64 * memory_ratio) as u64
}

/// The peak of a plan in training on all GPUs together, as [`LevelModel::peak`].
pub fn peak_by_levels(analysis: &Analysis, draft: &Draft, sync_mode: SyncMode) -> LevelPeak {
    LevelModel::with_gpus(analysis, Mode::Training, |_| true).peak(draft, sync_mode)
}

/// A graph as the model sees it: to be made once for many plans.
#[derive(Debug)]
pub struct LevelModel<'a> {
    analysis: &'a Analysis<'a>,
    /// The ops that count, by level, then in the order of the file.
    order: Vec<NodeId>,
    /// For each node whether it counts: it runs on one of the GPUs and takes part in the mode.
    counts: Vec<bool>,
    /// For each node its place among the levels, whether it counts or not.
    place_of: Vec<u32>,
    /// What the ops of `order` read, each tensor once.
    inputs: Rows<TensorId>,
    /// For each tensor its size.
    bytes: Vec<u64>,
    /// For each tensor how many ops that count read it.
    readers: Vec<u32>,
}

/// No node, no copy.
const NONE: u32 = u32::MAX;

impl<'a> LevelModel<'a> {
    /// Looks at the GPUs that parameters name; at all together if they name none.
    ///
    /// # Errors
    ///
    /// If one of the names is none of a device.
    pub fn new(analysis: &'a Analysis<'a>, parameters: &Parameters) -> Result<LevelModel<'a>, DeviceError> {
        let patterns = parameters.gpu_patterns()?;
        let matches = |gpu: &Device| patterns.iter().any(|pattern| gpu.matches(pattern));
        Ok(LevelModel::with_gpus(analysis, parameters.mode, |gpu| patterns.is_empty() || matches(gpu)))
    }

    fn with_gpus(analysis: &'a Analysis<'a>, mode: Mode, wanted: impl Fn(&Device) -> bool) -> LevelModel<'a> {
        let graph = analysis.graph;
        let device_counts: Vec<bool> =
            graph.devices().iter().map(|device| device.gpu().is_some_and(|gpu| wanted(&gpu))).collect();
        let decided = decided_conditions(graph, &analysis.shapes);
        let liveness = Liveness::of(graph, Some(mode == Mode::Training), &decided);
        let flow = &analysis.flow;
        let is_in_loop = |node| flow.frame(node) != FrameId::TOP && flow.output_frame(node) != FrameId::TOP;
        let inactive = |node: NodeId| is_in_loop(node) || liveness.is_dead_op(node);
        let counts: Vec<bool> =
            graph.node_ids().map(|node| device_counts[graph.device_index(node)] && !inactive(node)).collect();
        let walk = (0..analysis.levels.count() as u32).flat_map(|level| analysis.levels.nodes(level));

        let mut place_of = vec![0; graph.len()];
        let mut order = Vec::new();
        for (place, &node) in walk.enumerate() {
            place_of[node.index()] = place as u32;
            if counts[node.index()] {
                order.push(node);
            }
        }
        let mut inputs = Rows::with_capacity(order.len(), graph.tensor_count());
        let mut readers = vec![0; graph.tensor_count()];
        let mut read = Vec::new();
        for &node in &order {
            read.clear();
            read.extend_from_slice(graph.data_inputs(node));
            read.retain(|&tensor| {
                let producer = graph.producer(tensor);
                // A function's arguments are its caller's, and what a loop brings back was there already.
                producer.index() < graph.len() && !graph.is_back_edge(producer, node) && !inactive(producer)
            });
            read.sort_unstable();
            read.dedup();
            for &tensor in &read {
                readers[tensor.index()] += 1;
                inputs.push(tensor);
            }
            inputs.end_row();
        }
        let bytes = graph.tensor_ids().map(|tensor| analysis.sizes.bytes(tensor).unwrap_or(0)).collect();
        LevelModel { analysis, order, counts, place_of, inputs, bytes, readers }
    }

    /// What is known of the graph.
    pub fn analysis(&self) -> &'a Analysis<'a> {
        self.analysis
    }

    /// The op that a swap-in waits for that is synchronized with its first consumer: what runs last of all that the consumer reads.
    fn last_other_input(&self, swap: &TensorSwap, swap_in: &TensorUse) -> Option<NodeId> {
        let graph = self.analysis.graph;
        let first = *swap_in.consumers.iter().min_by_key(|&node| self.place_of[node.index()])?;
        let others = graph.data_inputs(first).iter().map(|&tensor| graph.producer(tensor)).filter(|&node| {
            node.index() < graph.len() && self.counts[node.index()] && node != graph.producer(swap.tensor)
        });
        others
            .filter(|&node| !graph.is_back_edge(node, first))
            .max_by_key(|&node| self.place_of[node.index()])
    }

    /// The peak of a plan. Where swap-ins are synchronous, they start when all else that their consumer reads is there,
    /// whatever triggers the plan has.
    pub fn peak(&self, draft: &Draft, sync_mode: SyncMode) -> LevelPeak {
        let copies = Copies::new(self, draft, sync_mode);
        let mut memory = Memory {
            model: self,
            held: vec![false; self.bytes.len()],
            awaited: copies.near_readers.clone(),
            copy_held: vec![false; copies.tensor.len()],
            copy_awaited: copies.readers.clone(),
            used: 0,
            peak: LevelPeak::default(),
        };
        for (place, &node) in self.order.iter().enumerate() {
            let inputs = self.inputs.row(place);
            for &tensor in inputs {
                match copies.read_by(node, tensor) {
                    Some(copy) => memory.take_copy(node, copy, tensor),
                    None => memory.take(node, tensor),
                }
            }
            for tensor in self.analysis.graph.outputs(node) {
                if self.readers[tensor.index()] > 0 {
                    memory.take(node, tensor);
                }
            }
            for &tensor in inputs {
                match copies.read_by(node, tensor) {
                    Some(copy) => memory.read_copy(copy, tensor),
                    None => memory.read(tensor),
                }
            }
            for tensor in self.analysis.graph.outputs(node) {
                memory.drop_unawaited(tensor);
            }
            for &copy in copies.triggered.row(node.index()) {
                memory.take_copy(node, copy, copies.tensor[copy as usize]);
            }
        }
        memory.peak
    }
}

/// The swap-ins of a plan.
struct Copies {
    /// For each copy the tensor.
    tensor: Vec<TensorId>,
    /// For each copy how many ops read it.
    readers: Vec<u32>,
    /// For each tensor how many ops read it and no copy of it.
    near_readers: Vec<u32>,
    /// For each node what it reads copies of.
    read: Rows<(TensorId, u32)>,
    /// For each node the copies that come back when it has run.
    triggered: Rows<u32>,
}

impl Copies {
    fn new(model: &LevelModel, draft: &Draft, sync_mode: SyncMode) -> Copies {
        let nodes = model.analysis.graph.len();
        let mut copies = Copies {
            tensor: Vec::new(),
            readers: Vec::new(),
            near_readers: model.readers.clone(),
            read: Rows::with_capacity(0, 0),
            triggered: Rows::with_capacity(0, 0),
        };
        let mut triggers = Vec::new();
        let mut reads = Vec::new();
        for swap in &draft.swaps {
            let made = model.place_of[model.analysis.graph.producer(swap.tensor).index()];
            for swap_in in &swap.uses {
                let copy = copies.tensor.len() as u32;
                copies.tensor.push(swap.tensor);
                copies.readers.push(swap_in.consumers.len() as u32);
                for &consumer in &swap_in.consumers {
                    let near = &mut copies.near_readers[swap.tensor.index()];
                    *near = near.saturating_sub(1);
                    reads.push((consumer.index(), (swap.tensor, copy)));
                }
                let trigger = if sync_mode.swap_in {
                    model.last_other_input(swap, swap_in)
                } else {
                    swap_in.triggers.iter().copied().max_by_key(|&node| model.place_of[node.index()])
                };
                // Without a trigger that runs in time, the copy comes with its first reader.
                if let Some(last) = trigger.filter(|&node| model.place_of[node.index()] > made) {
                    triggers.push((last.index(), copy));
                }
            }
        }
        copies.read = Rows::group(nodes, || reads.iter().copied(), (TensorId(0), NONE));
        copies.triggered = Rows::group(nodes, || triggers.iter().copied(), NONE);
        copies
    }

    /// The copy of a tensor that a node reads instead of it.
    fn read_by(&self, node: NodeId, tensor: TensorId) -> Option<u32> {
        let read = self.read.row(node.index());
        read.iter().find(|&&(original, _)| original == tensor).map(|&(_, copy)| copy)
    }
}

/// What is there at one time.
struct Memory<'a> {
    model: &'a LevelModel<'a>,
    held: Vec<bool>,
    awaited: Vec<u32>,
    copy_held: Vec<bool>,
    copy_awaited: Vec<u32>,
    used: u64,
    peak: LevelPeak,
}

impl Memory<'_> {
    fn take(&mut self, node: NodeId, tensor: TensorId) {
        if !std::mem::replace(&mut self.held[tensor.index()], true) {
            self.add(node, tensor);
        }
    }

    fn take_copy(&mut self, node: NodeId, copy: u32, tensor: TensorId) {
        let copy = copy as usize;
        if self.copy_awaited[copy] > 0 && !std::mem::replace(&mut self.copy_held[copy], true) {
            self.add(node, tensor);
        }
    }

    fn add(&mut self, node: NodeId, tensor: TensorId) {
        self.used = self.used.saturating_add(self.model.bytes[tensor.index()]);
        if self.used > self.peak.bytes {
            self.peak = LevelPeak { bytes: self.used, node: Some(node) };
        }
    }

    fn read(&mut self, tensor: TensorId) {
        let awaited = &mut self.awaited[tensor.index()];
        *awaited = awaited.saturating_sub(1);
        self.drop_unawaited(tensor);
    }

    /// Drops a tensor that no op has still to read.
    fn drop_unawaited(&mut self, tensor: TensorId) {
        let is_done = self.awaited[tensor.index()] == 0;
        if is_done && std::mem::replace(&mut self.held[tensor.index()], false) {
            self.used = self.used.saturating_sub(self.model.bytes[tensor.index()]);
        }
    }

    fn read_copy(&mut self, copy: u32, tensor: TensorId) {
        let awaited = &mut self.copy_awaited[copy as usize];
        *awaited = awaited.saturating_sub(1);
        if *awaited == 0 && std::mem::replace(&mut self.copy_held[copy as usize], false) {
            self.used = self.used.saturating_sub(self.model.bytes[tensor.index()]);
        }
    }
}
