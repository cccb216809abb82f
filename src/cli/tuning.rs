//! A graph against a budget: what all tools ask of the simulator and the strategies.

use anyhow::Context;

use super::{BudgetArgs, GraphArgs, Subject};
use crate::cost::{Costs, DeviceProfile};
use crate::graph::Graph;
use crate::order::Placement;
use crate::plan::Analysis;
use crate::plan::tflms::Parameters;
use crate::shape::Shapes;
use crate::simulate::{OpCost, Outline, UnknownSizes};
use crate::tune::{Tuning, tune};

/// A graph with all that its steps are simulated from.
#[derive(Debug)]
pub struct Simulated<'a> {
    /// The graph.
    pub analysis: &'a Analysis<'a>,
    /// Where its ops run.
    pub placement: Placement,
    /// What they run on.
    pub profile: DeviceProfile,
    costs: Costs,
}

impl<'a> Simulated<'a> {
    /// Places a graph's ops and says what they cost.
    ///
    /// # Errors
    ///
    /// As [`BudgetArgs::costs`].
    pub fn new(
        analysis: &'a Analysis<'a>,
        budget: &BudgetArgs,
        profile: DeviceProfile,
    ) -> anyhow::Result<Simulated<'a>> {
        let placement = Placement::of(analysis.graph);
        let costs = budget.costs(analysis, &profile)?;
        Ok(Simulated { analysis, placement, profile, costs })
    }

    /// What a step runs.
    ///
    /// # Errors
    ///
    /// If sizes that matter are unknown.
    pub fn outline(&self) -> Result<Outline<'_>, UnknownSizes> {
        let costs = &self.costs;
        Outline::new(self.analysis, &self.placement, |node| OpCost {
            seconds: costs.seconds(node),
            workspace_bytes: costs.workspace_bytes(node),
        })
    }

    /// Looks for the best plan for the budget; with the name of the strategy that did.
    ///
    /// # Errors
    ///
    /// If it is not known how much memory there is, or if the strategy cannot plan for this graph.
    pub fn tune(
        &self,
        outline: &Outline,
        budget: &BudgetArgs,
        fixed: Parameters,
    ) -> anyhow::Result<(Tuning, &'static str)> {
        let machine = budget.machine(&self.profile, self.placement.gpus().len())?;
        let mut strategy = budget.strategy.strategy(self.analysis, fixed)?;
        Ok((tune(outline, &machine, &mut *strategy)?, strategy.name()))
    }
}

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
    let analysis = subject.analysis(graph, args, shapes)?;
    let simulated = Simulated::new(&analysis, budget, profile.clone())?;
    let outline = simulated.outline().with_context(|| subject.model.name().to_string())?;
    Ok(simulated.tune(&outline, budget, fixed)?.0)
}
