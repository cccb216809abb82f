//! The strategy of TFLMS 1: breadth first from where the forward phase begins, each tensor leaves that the backward phase reads.
//!
//! Which ops are backward ops is known by their names' scopes. `phases` finds them, where the walk begins, and an order of both phases;
//! `walk` says which tensors leave and for whom they come back; `trigger` finds what starts each return. All of this goes by the names
//! of ops and the order of the file, and a plan has only edges that lead to higher levels, so it has no cycle.
//!
//! Where a budget is given, the number of tensors and the lower bound are searched, unless the user gave them. TFLMS 1 left that to its
//! user.

mod parameters;
mod phases;
mod trigger;
mod walk;

pub use parameters::{Parameters, TflmsV1Error};

use super::rank::{self, Rank};
use super::{
    Abilities, Description, Found, Judge, Parameter, ParameterKind, Proposal, Setup, Strategy, StrategyError,
};
use crate::plan::{Analysis, Draft, TensorSwap, guard_ref_variables};
use crate::simulate::Outcome;
use parameters::ALL;
use walk::Walker;

/// The name of the strategy in plans and on the command line.
pub const NAME: &str = "tflms-v1";

/// Lower bounds that are tried where a budget is given.
const LOWER_BOUNDS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// How often the number of tensors is halved between one that fits and one that does not.
const BISECTIONS: u32 = 6;

/// What there is to know of it.
pub static DESCRIPTION: Description = Description {
    about: "TFLMS 1's strategy: what the backward phase reads leaves, breadth first",
    can: Abilities { plans_without_budget: true, ..Description::named(NAME).can },
    parameters: &[
        Parameter {
            name: "n_tensors",
            help: "How many tensors leave, counted from the first layer; -1: all that the backward phase reads [default: -1, or searched for a budget]",
            kind: ParameterKind::Number(ALL, "COUNT"),
            is_rare: false,
        },
        Parameter {
            name: "lb",
            help: "Start a swap-in at least this many ops before its reader [default: 1, or searched for a budget]",
            kind: ParameterKind::Number(0, "OPS"),
            is_rare: false,
        },
        Parameter {
            name: "ub",
            help: "Start a swap-in at most this many ops before its reader [default: 10000]",
            kind: ParameterKind::Number(0, "OPS"),
            is_rare: false,
        },
        Parameter {
            name: "optimizer_scopes",
            help: "Backward ops have names that begin so [default: any with a scope gradients]",
            kind: ParameterKind::List("SCOPE,…"),
            is_rare: false,
        },
        Parameter {
            name: "starting_scopes",
            help: "Begin at the ops whose names begin so [default: those from which the most can be reached]",
            kind: ParameterKind::List("SCOPE,…"),
            is_rare: true,
        },
        Parameter {
            name: "swap_branches",
            help: "Swap also for late readers in the forward phase",
            kind: ParameterKind::Switch,
            is_rare: true,
        },
        Parameter {
            name: "branch_threshold",
            help: "With --swap-branches: readers more than this many ops after the first one are late [default: 0]",
            kind: ParameterKind::Number(0, "OPS"),
            is_rare: true,
        },
        Parameter {
            name: "fuse_swapins",
            help: "Let all readers of a tensor share one swap-in",
            kind: ParameterKind::Switch,
            is_rare: true,
        },
        Parameter {
            name: "direct_order",
            help: "Find what starts a swap-in by the order of backward ops alone",
            kind: ParameterKind::Switch,
            is_rare: true,
        },
    ],
    shown: &["n_tensors", "lb", "ub", "fuse_swapins"],
    filters: |parameters| serde_json::from_value(parameters.clone()).ok().map(|own: Parameters| own.filters),
    ..Description::named(NAME)
};

/// Makes it of what a user said.
pub(super) fn make(setup: Setup) -> Result<Box<dyn Strategy>, StrategyError> {
    let is_given = |name: &str| setup.own.contains_key(name);
    let searched = Searched { n_tensors: !is_given("n_tensors"), lb: !is_given("lb") };
    let own = Parameters::given(setup.own)?;
    let filters = setup.fixed.filters;
    let parameters = Parameters { filters, gpu_devices: setup.fixed.gpu_devices, ..own };
    Ok(Box::new(TflmsV1 { parameters, searched }))
}

impl From<TflmsV1Error> for StrategyError {
    fn from(error: TflmsV1Error) -> StrategyError {
        StrategyError::usage(&DESCRIPTION, error)
    }
}

/// TFLMS 1's strategy, and a search for the parameters that a user left open.
#[derive(Debug, Clone)]
pub struct TflmsV1 {
    /// The parameters, those that are searched as they are without a budget.
    pub parameters: Parameters,
    /// Which of them are searched.
    pub searched: Searched,
}

/// Which parameters are searched where a budget is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Searched {
    /// How many tensors leave.
    pub n_tensors: bool,
    /// How early they come back.
    pub lb: bool,
}

/// The plan that parameters come to.
///
/// # Errors
///
/// If no op is of the backward phase, as far as scopes say, or parameters do not go together.
pub fn draft(analysis: &Analysis, parameters: &Parameters) -> Result<Draft, TflmsV1Error> {
    let parameters = parameters.clone().checked()?;
    let mut draft = draft_of(Walker::new(analysis, &parameters)?.swaps(&parameters));
    guard_ref_variables(analysis, &mut draft);
    Ok(draft)
}

fn draft_of(mut swaps: Vec<TensorSwap>) -> Draft {
    swaps.sort_by_key(|swap| swap.tensor);
    Draft { swaps, ..Draft::default() }
}

impl Strategy for TflmsV1 {
    fn description(&self) -> &'static Description {
        &DESCRIPTION
    }

    fn plan_as_told(&self, analysis: &Analysis) -> Result<Option<Proposal>, StrategyError> {
        let draft = draft(analysis, &self.parameters)?;
        Ok(Some(Proposal { strategy: &DESCRIPTION, draft, parameters: to_json(&self.parameters) }))
    }

    fn find(&mut self, judge: &mut Judge) -> Result<Option<Found>, StrategyError> {
        let parameters = self.parameters.clone().checked()?;
        let walker = Walker::new(judge.outline().analysis(), &parameters)?;
        let mut search = CountSearch { judge, walker, best: None };
        search.tensors(&parameters, self.searched.n_tensors);
        let lower_bounds: &[u32] = if self.searched.lb { &LOWER_BOUNDS } else { &[] };
        for &lb in lower_bounds.iter().filter(|&&lb| lb <= parameters.ub) {
            if let Some(best) = search.best.as_ref().map(|(best, _)| best.clone()) {
                search.tensors(&Parameters { lb, ..best }, false);
            }
        }
        Ok(search.best.map(|(_, found)| found))
    }
}

fn to_json(parameters: &Parameters) -> serde_json::Value {
    serde_json::to_value(parameters).unwrap_or_default()
}

struct CountSearch<'a, 'b> {
    judge: &'a mut Judge<'b>,
    walker: Walker<'b>,
    best: Option<(Parameters, Found)>,
}

impl CountSearch<'_, '_> {
    /// Judges parameters; if asked for also with fewer tensors, as few as still fit, as far as halving tells.
    fn tensors(&mut self, parameters: &Parameters, is_number_open: bool) {
        let swaps = self.walker.swaps(parameters);
        let fits = self.attempt(parameters, swaps.clone());
        if !is_number_open || !fits {
            return;
        }
        let (mut low, mut high) = (0, swaps.len());
        for _ in 0..BISECTIONS {
            let middle = low + (high - low) / 2;
            if middle == low {
                break;
            }
            let fewer = Parameters { n_tensors: middle as i64, ..parameters.clone() };
            let fits = self.attempt(&fewer, swaps[..middle].to_vec());
            if fits { high = middle } else { low = middle }
        }
    }

    /// Judges a plan; keeps it if it fits and is better than all before. Whether it fits.
    fn attempt(&mut self, parameters: &Parameters, swaps: Vec<TensorSwap>) -> bool {
        let analysis = self.judge.outline().analysis();
        let mut draft = draft_of(swaps);
        let mut judged = self.judge.judge(&draft);
        if judged.is_ok() && !analysis.ref_variables.all().is_empty() {
            guard_ref_variables(analysis, &mut draft);
            judged = self.judge.judge(&draft);
        }
        let Ok(outcome) = judged else { return false };
        if self.best.as_ref().is_none_or(|(_, best)| rank(&outcome) < rank(&best.outcome)) {
            let found = Found { strategy: &DESCRIPTION, draft, outcome, parameters: to_json(parameters) };
            self.best = Some((parameters.clone(), found));
        }
        true
    }
}

/// Steps that differ by less than a part of so many are equal.
const STEP_PARTS: f64 = 1e4;

/// What makes a plan better.
fn rank(outcome: &Outcome) -> Rank {
    rank::rank(outcome, STEP_PARTS)
}
