//! What ops cost on a device: their time, and the scratch memory that they take.
//!
//! What sort of work an op is, its facts say (`ops::WorkKind`); the shapes around a node say how much arithmetic and how many bytes one
//! run of it is (`work`); and a [`DeviceProfile`] says how long that takes, whichever is slowest of arithmetic, memory and
//! launching (`roofline`). Where a step was measured ([`MeasuredOps`]), what was measured counts instead.
//!
//! `docs/cost-model.md` has the formulas, where the figures come from, and how near they are.

mod convolution;
mod file;
mod flops;
mod host;
mod measured;
mod operands;
mod profile;
mod roofline;
mod traffic;
mod work;
mod workspace;

#[cfg(test)]
mod tests;

pub use file::CostFileError;
pub use measured::MeasuredOps;
pub use profile::DeviceProfile;

use crate::graph::{Graph, NodeId};
use crate::ops::WorkKind;
use crate::shape::{Shapes, Sizes};
use operands::Operands;
use work::Work;
pub use workspace::Workspace;

/// Where a node's time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostSource {
    /// Nothing runs on the device: it renames a buffer, or runs on the host.
    Free,
    /// Worked out from shapes and the device's profile.
    Estimated,
    /// Not known, for a size is not: the time is the least that a kernel takes.
    UnknownSize,
    /// Measured.
    Measured,
}

/// What one run of each node of a graph costs on a device.
///
/// A node in a loop costs this in each iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    seconds: Vec<f64>,
    workspaces: Vec<Workspace>,
    flops: Vec<f64>,
    sources: Vec<CostSource>,
}

impl Costs {
    /// The costs of all nodes of a graph. Times that were measured go before estimates.
    pub fn of(
        graph: &Graph,
        shapes: &Shapes,
        sizes: &Sizes,
        profile: &DeviceProfile,
        measured: Option<&MeasuredOps>,
    ) -> Costs {
        let mut costs = Costs {
            seconds: vec![0.0; graph.len()],
            workspaces: vec![Workspace::NONE; graph.len()],
            flops: vec![0.0; graph.len()],
            sources: vec![CostSource::Free; graph.len()],
        };
        for node in graph.node_ids() {
            let index = node.index();
            let kind = graph.op(node).facts().work();
            let is_free = kind == WorkKind::Free || sizes.handed_on(graph, node).is_some();
            if !is_free && !host::runs_on_host(graph, node) {
                let operands = Operands { graph, shapes, sizes, node };
                match Work::of(kind, &operands) {
                    Some(work) => {
                        costs.seconds[index] = roofline::seconds(&work, &operands, profile);
                        costs.workspaces[index] = workspace::of(&work, &operands, profile);
                        costs.flops[index] = work.flops;
                        costs.sources[index] = CostSource::Estimated;
                    }
                    None => {
                        costs.seconds[index] = profile.launch_seconds;
                        costs.sources[index] = CostSource::UnknownSize;
                    }
                }
            }
            if let Some(seconds) = measured.and_then(|times| times.seconds(graph.name(node))) {
                costs.seconds[index] = seconds;
                costs.sources[index] = CostSource::Measured;
            }
            if let Some(bytes) = measured.and_then(|ops| ops.scratch_bytes(graph.name(node))) {
                // What was measured is what TensorFlow's allocator gave, which may be more than was asked for.
                let estimated = costs.workspaces[index];
                costs.workspaces[index] = match graph.op(node).facts().scratch() {
                    Some(_) => estimated.at_most(bytes),
                    None => estimated.together(bytes),
                };
            }
        }
        costs
    }

    /// The seconds that one run of a node takes on the device.
    pub fn seconds(&self, node: NodeId) -> f64 {
        self.seconds[node.index()]
    }

    /// The device memory that a node takes while it runs, beside its outputs.
    pub fn workspace(&self, node: NodeId) -> Workspace {
        self.workspaces[node.index()]
    }

    /// The multiplications and additions of one run of a node: those of convolutions, products of matrices and recurrent
    /// nets. 0 for what is bound by memory.
    pub fn flops(&self, node: NodeId) -> f64 {
        self.flops[node.index()]
    }

    /// Where a node's time comes from.
    pub fn source(&self, node: NodeId) -> CostSource {
        self.sources[node.index()]
    }

    /// How many nodes have their time from this source, of those that are wanted: usually those of a step.
    pub fn count(&self, source: CostSource, mut wanted: impl FnMut(NodeId) -> bool) -> usize {
        let nodes = (0u32..).map(NodeId).zip(&self.sources);
        nodes.filter(|&(node, &of_node)| of_node == source && wanted(node)).count()
    }
}
