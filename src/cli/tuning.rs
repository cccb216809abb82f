//! A graph of given shapes against a budget, as the tools that try many sizes ask for it.

use anyhow::Context;

use super::{BudgetArgs, GraphArgs, Subject};
use crate::cost::DeviceProfile;
use crate::graph::Graph;
use crate::order::Placement;
use crate::plan::Analysis;
use crate::plan::tflms::Parameters;
use crate::shape::{Shapes, Sizes};
use crate::simulate::{OpCost, Outline};
use crate::tune::{Tuning, tune};

/// Whether a graph of these shapes fits the budget on a device, and with which plan.
///
/// # Errors
///
/// If sizes that matter are unknown, or if the strategy cannot plan for this graph.
pub fn tune_sized(
    subject: &Subject,
    graph: &Graph,
    (args, shapes): (&GraphArgs, Shapes),
    (budget, profile): (&BudgetArgs, &DeviceProfile),
    fixed: Parameters,
) -> anyhow::Result<Tuning> {
    let name = || subject.model.name().to_string();
    let sizes = Sizes::of(graph, &shapes).with_context(name)?;
    let analysis = Analysis::new(graph, &subject.targets(graph, args)?, shapes, sizes);
    let placement = Placement::of(graph);
    let costs = budget.costs(&analysis, profile)?;
    let cost = |node| OpCost { seconds: costs.seconds(node), workspace_bytes: costs.workspace_bytes(node) };
    let outline = Outline::new(&analysis, &placement, cost).with_context(name)?;
    let machine = budget.machine(profile, placement.gpus().len())?;
    let mut strategy = budget.strategy.strategy(&analysis, fixed)?;
    Ok(tune(&outline, &machine, &mut *strategy)?)
}
