//! The strategy of TFLMSv2: a tensor leaves for the consumers that are far enough away, in levels.
//!
//! The swap set is TFLMSv2's wherever none of its defects decides: which tensors leave, for whom they come back, and
//! which consumers share a return. For what no step runs nothing comes back: the runtime would leave that out anyway.
//! What starts a return is chosen as TFLMSv2 does, but always the same in each run, and only among ops that are alive whenever the
//! consumer is.
//!
//! Every edge that a plan of this strategy adds leads to a higher level, or within one level to a later node of
//! the file. So no plan has a cycle, but perhaps around a loop: an `Exit` may be on a lower level than what the loop begins with. A step
//! that would wait for ever is found by simulating it, and by the checker.

mod inactive;
mod parameters;
mod serialize;
mod trigger;

pub use parameters::{LevelSlice, LevelSliceError, Mode, Parameters, SyncMode, SyncModeError};

use rustc_hash::FxHashMap as HashMap;

use super::{Analysis, Draft, Plan, TensorSwap, TensorUse, ref_variables, swappable};
use crate::graph::{Device, DeviceError, Graph, NodeId, TensorId};
use crate::ops::OpId;
use trigger::TriggerSearch;
pub(crate) use trigger::is_alive_for;

/// The name of the strategy in plans and on the command line.
pub const NAME: &str = "tflms";

/// Ops that neither give nor take swapped tensors: what only renames, makes or changes state, and random numbers.
const EXCLUDED: [&str; 24] = [
    "Const",
    "Identity",
    "Read",
    "Placeholder",
    "PlaceholderWithDefault",
    "VarHandleOp",
    "VarIsInitializedOp",
    "VariableShape",
    "ReadVariableOp",
    "AssignVariableOp",
    "AssignAddVariableOp",
    "AssignSubVariableOp",
    "ResourceGather",
    "Range",
    "RandomUniform",
    "Assign",
    "AssignAdd",
    "AssignSub",
    "ScatterAdd",
    "ScatterSub",
    "ScatterUpdate",
    "TruncatedNormal",
    "Variable",
    "VariableV2",
];

/// Beginnings of further op types that are excluded.
const EXCLUDED_FAMILIES: [&str; 2] = ["ResourceScatter", "Queue"];

/// Why this strategy cannot plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TflmsError {
    /// A GPU that is none.
    #[error("a GPU to edit: {0}")]
    Device(#[from] DeviceError),
    /// Ops of one level wait for each other without need; an initializer among them would run in each step.
    #[error(
        "to run ops of a level one after the other, it must be known which ops a step runs, and the file does not say: give the op that trains with --train-op"
    )]
    UnknownStep,
}

/// Plans the swaps of a graph.
///
/// # Errors
///
/// If one of the GPUs to edit is no device name, or levels are to be serialized and nobody said what a step runs.
pub fn plan(analysis: &Analysis, parameters: &Parameters, host_device: &Device) -> Result<Plan, TflmsError> {
    let draft = draft(analysis, parameters)?;
    let mut plan = Plan::new(analysis, NAME, &host_device.to_string());
    plan.parameters = serde_json::to_value(parameters).unwrap_or_default();
    draft.write_to(&mut plan, analysis);
    Ok(plan)
}

/// The same in numbers.
///
/// # Errors
///
/// As [`plan`].
pub fn draft(analysis: &Analysis, parameters: &Parameters) -> Result<Draft, TflmsError> {
    let mut draft = ThresholdPlanner::new(analysis, parameters)?.draft()?;
    ref_variables::guard(analysis, &mut draft);
    Ok(draft)
}

/// Plans for one graph, with one set of parameters after the other.
#[derive(Debug)]
pub struct ThresholdPlanner<'a> {
    analysis: &'a Analysis<'a>,
    parameters: Parameters,
    /// For each node the number of its GPU, if it runs on one that is to be edited.
    gpus: Vec<Option<u32>>,
    inactive: Vec<bool>,
    /// For each node whether its op neither gives nor takes swapped tensors.
    excluded: Vec<bool>,
    /// For each tensor whether it may leave at all.
    may_leave: Vec<bool>,
}

impl<'a> ThresholdPlanner<'a> {
    /// Plans with these parameters.
    ///
    /// # Errors
    ///
    /// If one of the GPUs to edit is no device name.
    pub fn new(
        analysis: &'a Analysis<'a>,
        parameters: &Parameters,
    ) -> Result<ThresholdPlanner<'a>, DeviceError> {
        let graph = analysis.graph;
        let is_excluded = |name: &str| {
            EXCLUDED.contains(&name) || EXCLUDED_FAMILIES.iter().any(|family| name.starts_with(family))
        };
        let mut known: HashMap<OpId, bool> = HashMap::default();
        let mut excluded =
            |id: OpId| *known.entry(id).or_insert_with(|| is_excluded(graph.registry().op(id).name()));
        Ok(ThresholdPlanner {
            analysis,
            parameters: parameters.clone(),
            gpus: gpu_numbers(graph, &parameters.gpu_devices)?,
            inactive: inactive::inactive_ops(analysis, parameters.mode),
            excluded: graph.node_ids().map(|node| excluded(graph.op_id(node))).collect(),
            may_leave: graph.tensor_ids().map(|tensor| may_leave(analysis, tensor)).collect(),
        })
    }

    /// From now on, plans with these parameters.
    ///
    /// # Errors
    ///
    /// As [`ThresholdPlanner::new`].
    pub fn set(&mut self, parameters: &Parameters) -> Result<(), DeviceError> {
        if (&parameters.gpu_devices, parameters.mode) == (&self.parameters.gpu_devices, self.parameters.mode)
        {
            self.parameters = parameters.clone();
        } else {
            *self = ThresholdPlanner::new(self.analysis, parameters)?;
        }
        Ok(())
    }

    /// The plan, before reads and updates of ref variables are put in order ([`super::guard_ref_variables`]), which takes longer than
    /// all else.
    ///
    /// # Errors
    ///
    /// If levels are to be serialized and nobody said what a step runs.
    pub fn draft(&self) -> Result<Draft, TflmsError> {
        let parameters = &self.parameters;
        let serializes = !parameters.serialization.is_empty() || parameters.serialization_by_size.is_some();
        if serializes && !self.analysis.step.is_known() {
            return Err(TflmsError::UnknownStep);
        }
        Ok(Draft { swaps: self.swaps(), orders: serialize::orders(self), ..Draft::default() })
    }

    /// Whether an op runs on an edited GPU and takes part in the mode.
    fn is_active_on_gpu(&self, node: NodeId) -> bool {
        self.gpus[node.index()].is_some() && !self.inactive[node.index()]
    }

    fn takes_part(&self, node: NodeId) -> bool {
        self.is_active_on_gpu(node) && !self.excluded[node.index()]
    }

    /// Whether ops may be made to wait for this one that did not need it: the step must run it in any case.
    fn may_hold_up_others(&self, node: NodeId) -> bool {
        self.is_active_on_gpu(node) && self.analysis.step.certainly_contains(node)
    }

    fn swaps(&self) -> Vec<TensorSwap> {
        let graph = self.analysis.graph;
        let mut search = TriggerSearch::new(self);
        let mut swaps = Vec::new();
        for node in graph.node_ids() {
            if !self.takes_part(node) || !self.parameters.filters.admit_producer(graph, node) {
                continue;
            }
            for tensor in graph.outputs(node) {
                let consumers = self.far_consumers(tensor);
                if consumers.is_empty() || !self.may_leave[tensor.index()] {
                    continue;
                }
                let uses = self
                    .groups(consumers)
                    .into_iter()
                    .map(|consumers| TensorUse { triggers: search.triggers(tensor, &consumers), consumers })
                    .collect();
                let mut swap = TensorSwap { tensor, waiting: Vec::new(), uses };
                if self.parameters.sync_mode.swap_out {
                    swap.waiting = self.waiting(&swap);
                }
                swaps.push(swap);
            }
        }
        swaps
    }

    /// The consumers that a tensor may come back for, by level.
    fn far_consumers(&self, tensor: TensorId) -> Vec<NodeId> {
        let Analysis { graph, levels, flow, .. } = self.analysis;
        let producer = graph.producer(tensor);
        let nearest = u64::from(levels.level(producer)) + u64::from(self.parameters.swapout_threshold);
        let mut consumers: Vec<NodeId> = graph
            .uses(tensor)
            .iter()
            .map(|reader| reader.node)
            .filter(|&node| u64::from(levels.level(node)) > nearest)
            .filter(|&node| self.takes_part(node) && self.analysis.step.may_run(node))
            .filter(|&node| self.gpus[node.index()] == self.gpus[producer.index()])
            .filter(|&node| self.parameters.filters.admit_consumer(graph, node))
            .filter(|&node| flow.frame(node) == flow.output_frame(producer))
            .collect();
        consumers.sort_by_key(|&node| (levels.level(node), node));
        consumers.dedup();
        consumers
    }

    /// Consumers, sorted by level, in groups that share a swap-in.
    fn groups(&self, consumers: Vec<NodeId>) -> Vec<Vec<NodeId>> {
        let Analysis { levels, step, .. } = self.analysis;
        let nearby = |before: NodeId, node: NodeId| {
            self.parameters.swapin_groupby > 0
                && levels.level(node) - levels.level(before) <= self.parameters.swapin_groupby
                // What starts a return for one must be what the other's run has too: so both are of the step.
                && step.certainly_contains(before)
                && step.certainly_contains(node)
        };
        let mut groups: Vec<Vec<NodeId>> = Vec::new();
        for node in consumers {
            match groups.last_mut() {
                Some(group) if group.last().is_some_and(|&before| nearby(before, node)) => group.push(node),
                _ => groups.push(vec![node]),
            }
        }
        groups
    }

    /// The producer's other successors, which in synchronous mode wait until the tensor is out.
    fn waiting(&self, swap: &TensorSwap) -> Vec<NodeId> {
        let Analysis { graph, flow, .. } = self.analysis;
        let producer = graph.producer(swap.tensor);
        let alive_with = flow.tensor_condition(graph, swap.tensor);
        let mut waiting: Vec<NodeId> = graph
            .successors(producer)
            .filter(|&node| self.gpus[node.index()].is_some() && !graph.is_back_edge(producer, node))
            .filter(|&node| flow.frame(node) == flow.output_frame(producer))
            .filter(|&node| flow.implies(flow.condition(node), alive_with))
            .filter(|&node| !graph.sums().stays_equal(node))
            // These wait for the tensor to come back, and so for it to be out.
            .filter(|node| !swap.uses.iter().any(|swap_in| swap_in.consumers.contains(node)))
            .collect();
        waiting.sort_unstable();
        waiting.dedup();
        waiting
    }
}

/// Tensors of less than two dimensions are small, and those of unknown rank nobody knows.
fn may_leave(analysis: &Analysis, tensor: TensorId) -> bool {
    analysis.shapes.rank(tensor).is_some_and(|rank| rank >= 2)
        && swappable(analysis.graph, &analysis.ref_variables, tensor).is_ok()
}

/// The number of each op's GPU among those that match one of these names, or among all if there is no name.
///
/// # Errors
///
/// If one is no device name.
pub(crate) fn gpu_numbers(graph: &Graph, names: &[String]) -> Result<Vec<Option<u32>>, DeviceError> {
    let patterns: Vec<Device> = names.iter().map(|name| Device::parse(name)).collect::<Result<_, _>>()?;
    let mut known: Vec<Device> = Vec::new();
    let of_device: Vec<Option<u32>> = graph
        .devices()
        .iter()
        .map(|device| {
            let gpu = device.gpu()?;
            if !patterns.is_empty() && !patterns.iter().any(|pattern| gpu.matches(pattern)) {
                return None;
            }
            let number = known.iter().position(|other| *other == gpu).unwrap_or_else(|| {
                known.push(gpu);
                known.len() - 1
            });
            Some(number as u32)
        })
        .collect();
    Ok(graph.node_ids().map(|node| of_device[graph.device_index(node)]).collect())
}
