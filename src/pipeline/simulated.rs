//! A graph on a machine: what steps are simulated from.

use super::{Budget, Error};
use crate::cost::{CostSource, Costs, DeviceProfile};
use crate::order::Placement;
use crate::plan::{Analysis, Draft};
use crate::simulate::{Machine, NoObserver, OpCost, Outline, Program, Unpredictable, simulate};
use crate::tune::{Description, Strategy, Tuning, least_budget, tune, tune_with_margin};

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
    /// Places a graph's ops and says what they cost on the budget's device.
    ///
    /// # Errors
    ///
    /// If the budget's measured times are those of another graph, or a step runs functions that are not in the graph.
    pub fn new(analysis: &'a Analysis<'a>, budget: &Budget) -> Result<Simulated<'a>, Error> {
        analysis.check_calls()?;
        let Analysis { graph, shapes, sizes, .. } = analysis;
        let times = budget.op_times.as_ref();
        let costs = Costs::of(graph, shapes, sizes, &budget.profile, times.map(|(_, times)| times));
        match times {
            Some((name, _)) if costs.count(CostSource::Measured, |_| true) == 0 => {
                Err(Error::OtherTimes { name: name.clone() })
            }
            _ => Ok(Simulated {
                analysis,
                placement: Placement::of(analysis.graph),
                profile: budget.profile.clone(),
                costs,
            }),
        }
    }

    /// What a step runs, with the sides of branches that take the most memory.
    ///
    /// # Errors
    ///
    /// If sizes that matter are unknown.
    pub fn outline(&self) -> Result<Outline<'_>, Unpredictable> {
        let costs = &self.costs;
        let outline = Outline::new(self.analysis, &self.placement, |node| OpCost {
            seconds: costs.seconds(node),
            workspace: costs.workspace(node),
        })?;
        let unlimited = Machine::new(&self.profile, self.placement.gpus().len(), Vec::new());
        let greatest = outline.in_greatest_case(|outline| {
            let program = Program::new(outline, &Draft::default());
            simulate(&program, &unlimited, &mut NoObserver).unwrap_or_default().peak_bytes()
        });
        Ok(greatest.unwrap_or(outline))
    }

    /// The machine, with the memory that a plan may count on.
    ///
    /// # Errors
    ///
    /// If the budget gives a GPU no memory.
    pub fn machine(&self, budget: &Budget) -> Result<Machine, Error> {
        budget.machine(self.placement.gpus().len())
    }

    /// The best plan that the budget's strategy finds; with what there is to know of that strategy.
    ///
    /// # Errors
    ///
    /// If the strategy cannot plan for this graph.
    pub fn tune(&self, outline: &Outline, budget: &Budget) -> Result<(Tuning, &'static Description), Error> {
        let mut strategy = budget.strategy(self.analysis)?;
        Ok((self.tune_with(outline, budget, &mut *strategy)?, strategy.description()))
    }

    /// The best plan that a strategy finds. Where the part of the memory that a plan may count on was not given, one that counts on all of it
    /// is better than none.
    ///
    /// # Errors
    ///
    /// As [`Simulated::tune`].
    pub fn tune_with(
        &self,
        outline: &Outline,
        budget: &Budget,
        strategy: &mut dyn Strategy,
    ) -> Result<Tuning, Error> {
        let machine = self.machine(budget)?;
        Ok(match budget.keeps_margin || budget.memory_ratio.is_some() {
            true => tune(outline, &machine, strategy)?,
            false => tune_with_margin(outline, &machine, strategy)?,
        })
    }

    /// The least memory of a GPU, in bytes, for which the budget's strategy finds a plan; none if it finds none for any. The budget's
    /// own memory does not matter.
    ///
    /// # Errors
    ///
    /// If the strategy cannot plan for this graph.
    pub fn least_memory(&self, outline: &Outline, budget: &Budget) -> Result<Option<u64>, Error> {
        let mut strategy: Box<dyn Strategy> = budget.strategy(self.analysis)?;
        let gpus = self.placement.gpus().len();
        let machine = Machine::new(&self.profile, gpus, Vec::new()).with_allocator(budget.allocator);
        let least = least_budget(outline, &machine, &mut *strategy, |bytes| budget.memory_for(bytes))?;
        Ok(least.map(|bytes| budget.memory_for(bytes)))
    }
}
