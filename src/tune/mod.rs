//! Which plan is the best for a budget: strategies propose plans, the simulator judges them.
//!
//! A strategy is a [`Strategy`]: it is given a [`Judge`] and returns the best plan that it found. A new one is a file beside
//! [`Tflms`], and a line in [`STRATEGIES`] if the command line is to know it.

pub mod accuracy;
#[cfg(feature = "tune")]
mod bound;
mod by_levels;
mod description;
mod deviations;
mod error;
mod judge;
mod least_budget;
mod least_memory;
mod other_orders;
mod outsiders;
mod overlap;
pub mod planned;
mod progress;
mod rank;
mod strategies;
pub mod tflms;
pub mod tflms_v1;

#[cfg(feature = "tune")]
pub use bound::step_bound;
pub use by_levels::{LevelPlan, LevelTuning, tune_by_levels};
pub use description::{Abilities, Description, Parameter, ParameterKind, describe};
pub use error::{StrategyError, UnknownStep};
pub use judge::Judge;
pub use least_budget::least_budget;
pub use least_memory::{LeastMemory, first_guess, least_memory};
pub use other_orders::peak_in_other_orders;
pub use overlap::most_in_overlap;
pub use planned::Planned;
pub use progress::Progress;
pub use strategies::{Entry, STRATEGIES, Setup, able, automatic, entry};
pub use tflms::Tflms;

use crate::graph::{Device, NodeId};
use crate::plan::{Analysis, Draft, Plan};
use crate::simulate::{Floors, Machine, NoObserver, Outcome, Outline, Program, floors, simulate};

/// Searches plans for a budget.
///
/// What a new one costs: one file with a type that implements this, its [`Description`], and an error type of its own if something
/// can go wrong ([`StrategyError`]). That is all for one that is handed to [`Analysis::fit_with`]. For `--strategy NAME` it
/// takes a line in [`STRATEGIES`] besides; the flags of its own parameters, what reports say, and what is refused because the strategy
/// cannot do it all come from the description.
///
/// One that only looks for the largest of TFLMSv2's thresholds with which a step fits:
///
/// ```
/// use tf_lms::plan::tflms::{self, Parameters};
/// use tf_lms::tune::{Description, Found, Judge, Strategy, StrategyError};
///
/// static DESCRIPTION: Description =
///     Description { shown: &["swapout_threshold"], ..Description::named("largest-threshold") };
///
/// struct LargestThreshold;
///
/// impl Strategy for LargestThreshold {
///     fn description(&self) -> &'static Description {
///         &DESCRIPTION
///     }
///
///     fn find(&mut self, judge: &mut Judge) -> Result<Option<Found>, StrategyError> {
///         for swapout_threshold in [512, 256, 128, 64, 32, 16, 8, 4, 2, 1] {
///             let parameters = Parameters { swapout_threshold, ..Parameters::default() };
///             let draft = tflms::draft(judge.outline().analysis(), &parameters)?;
///             if let Ok(outcome) = judge.judge(&draft) {
///                 let parameters = serde_json::json!({ "swapout_threshold": swapout_threshold });
///                 return Ok(Some(Found { strategy: &DESCRIPTION, draft, outcome, parameters }));
///             }
///         }
///         Ok(None)
///     }
/// }
///
/// let model = tf_lms::read("testdata/resnet50_2000_b1.meta")?;
/// let graph = model.graph()?;
/// let analysis = model.analyse(&graph, &tf_lms::AnalysisOptions::default())?;
/// let fit = analysis.fit_with(&tf_lms::Budget::new(6 << 30), &mut LargestThreshold)?;
/// assert!(!fit.fits_as_it_is() && fit.plan.is_some());
/// # Ok::<(), tf_lms::Error>(())
/// ```
pub trait Strategy {
    /// What there is to know of it.
    fn description(&self) -> &'static Description;

    /// The ops that its plans may put on the host, in the order of the file.
    fn host_ops(&self, _: &Outline) -> Vec<NodeId> {
        Vec::new()
    }

    /// The plan that its parameters come to as they were told, for no budget; none if it plans for budgets only
    /// ([`Abilities::plans_without_budget`]).
    ///
    /// # Errors
    ///
    /// If it cannot plan for this graph, or not with these parameters.
    fn plan_as_told(&self, _: &Analysis) -> Result<Option<Proposal>, StrategyError> {
        Ok(None)
    }

    /// The plan that swaps the most, to show what it comes to where nothing fits; none if the strategy knows of no such plan.
    ///
    /// # Errors
    ///
    /// As [`Strategy::plan_as_told`].
    fn most_swapping(&self, analysis: &Analysis) -> Result<Option<Proposal>, StrategyError> {
        self.plan_as_told(analysis)
    }

    /// The best plan that it finds; none if nothing that it knows fits.
    ///
    /// # Errors
    ///
    /// If it cannot plan for this graph at all.
    fn find(&mut self, judge: &mut Judge) -> Result<Option<Found>, StrategyError>;

    /// A plan that fits, the first that it comes to; none if nothing that it knows fits. The search of the least memory asks for one at many
    /// memories, and for the best one only where it ends. `like` is what it found for a little more memory.
    ///
    /// # Errors
    ///
    /// As [`Strategy::find`].
    fn find_any(&mut self, judge: &mut Judge, _like: Option<&Found>) -> Result<Option<Found>, StrategyError> {
        self.find(judge)
    }
}

/// The strategy that looks for nothing.
#[derive(Debug, Clone, Default)]
pub struct Nothing {
    /// What plans may put on the host, in the order of the file.
    pub host_ops: Vec<NodeId>,
}

/// The name of no strategy, in plans that nobody looked for.
pub const NO_STRATEGY: &str = "none";

static NOTHING: Description = Description::named(NO_STRATEGY);

impl Strategy for Nothing {
    fn description(&self) -> &'static Description {
        &NOTHING
    }

    fn host_ops(&self, _: &Outline) -> Vec<NodeId> {
        self.host_ops.clone()
    }

    fn find(&mut self, _: &mut Judge) -> Result<Option<Found>, StrategyError> {
        Ok(None)
    }
}

/// A plan of which it is not known whether it fits anywhere.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The strategy that made it.
    pub strategy: &'static Description,
    /// The plan.
    pub draft: Draft,
    /// What the strategy was set to.
    pub parameters: serde_json::Value,
}

impl Proposal {
    /// The plan with names. `host_device` is where tensors go when they leave.
    pub fn into_plan(self, analysis: &Analysis, host_device: &Device) -> Plan {
        self.draft.into_plan(analysis, self.strategy.name, self.parameters, host_device)
    }
}

/// A plan that fits.
#[derive(Debug, Clone)]
pub struct Found {
    /// The strategy that made it.
    pub strategy: &'static Description,
    /// The plan.
    pub draft: Draft,
    /// What comes of it.
    pub outcome: Outcome,
    /// What the strategy was set to.
    pub parameters: serde_json::Value,
}

/// How a graph and a budget go together.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// No swapping is needed.
    Fits,
    /// With this plan.
    FitsWithSwapping(Box<Found>),
    /// Not with any plan that the strategy knows.
    DoesNotFit,
}

/// What tuning found out.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// The verdict.
    pub verdict: Verdict,
    /// Whether the graph fits neither as it is nor with any plan in other orders and with slower and faster copies than the profile says,
    /// so that the verdict holds only with those.
    pub is_tight: bool,
    /// Whether it takes what is left over for errors of the prediction too, because no plan was found that does without. It is tight then.
    pub takes_margin: bool,
    /// Whether it was tried with one thread of the host alone: a plan may count on all of the memory, and nothing is left over for what more
    /// threads do otherwise.
    pub is_for_one_thread: bool,
    /// A step of the graph as it is, were there no end of memory.
    pub before: Outcome,
    /// For each GPU what no plan goes below.
    pub floors: Vec<Floors>,
    /// How many steps were simulated.
    pub simulations: u32,
}

impl Tuning {
    /// Whether the step fits as it is.
    pub fn fits_as_it_is(&self) -> bool {
        matches!(self.verdict, Verdict::Fits)
    }

    /// The machine that the verdict holds for, of that which was tuned for: with all of its memory, if the plan counts on that.
    pub fn machine(&self, tuned_for: &Machine) -> Machine {
        match self.takes_margin {
            true => tuned_for.counting_on_all(),
            false => tuned_for.clone(),
        }
    }

    /// What the verdict rests on, where it does not hold with all that may go otherwise; none where it does, or where nothing fits.
    pub fn caveat(&self) -> Option<&'static str> {
        match self.verdict {
            Verdict::DoesNotFit => None,
            _ if self.takes_margin => Some(
                "it is tight: no plan was found that leaves over what predictions may be off by, and so it counts on all of the memory",
            ),
            _ if self.is_tight => {
                Some("it is tight: it fits only in the order and with copies as fast as predicted")
            }
            _ if self.is_for_one_thread => Some(
                "it counts on all of the memory, and so on one thread of the host (--threads 1 of lms-train); more of them need a margin",
            ),
            _ => None,
        }
    }

    /// By what part a step takes longer with the plan than it would if there were no end of memory: 0.05 is 5%. None if nothing fits.
    pub fn slowdown(&self) -> Option<f64> {
        self.outcome().map(|outcome| outcome.step_seconds / self.before.step_seconds - 1.0)
    }

    /// What no plan gets below on any GPU, in bytes.
    pub fn floor_bytes(&self) -> u64 {
        self.floors.iter().map(|floor| floor.memory_bytes).max().unwrap_or(0)
    }

    /// Why the plan is none of the strategy that was asked for one, where it is another's: in a sentence.
    pub fn fallback(&self, asked: &'static Description) -> Option<String> {
        match &self.verdict {
            Verdict::FitsWithSwapping(found) if !std::ptr::eq(found.strategy, asked) => Some(format!(
                "the plan is one of the strategy {}: {} found none of its own that fits and is as fast",
                found.strategy.name, asked.name
            )),
            _ => None,
        }
    }

    /// A step with the plan; none if it fits with none.
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.verdict {
            Verdict::Fits => Some(&self.before),
            Verdict::FitsWithSwapping(found) => Some(&found.outcome),
            Verdict::DoesNotFit => None,
        }
    }
}

/// Looks for the best plan for a graph on a machine, whose memory is the budget.
///
/// # Errors
///
/// If the strategy cannot plan for this graph.
pub fn tune(
    outline: &Outline,
    machine: &Machine,
    strategy: &mut dyn Strategy,
) -> Result<Tuning, StrategyError> {
    let original = Program::new(outline, &Draft::default());
    // Counting memory without a limit cannot run out of it.
    let unlimited = machine.with_memory(Vec::new());
    let before = simulate(&original, &unlimited, &mut NoObserver).unwrap_or_default();
    let floors = floors_of(outline, strategy, &before);
    let mut judge = Judge::new(outline, machine);
    let mut judged = judged_by(&mut judge, strategy)?;
    // What fits with one thread of the host is better than what fits only as predicted.
    for take_less in [Judge::count_on_one_thread, Judge::trust_the_profile] {
        if matches!(judged.verdict, Verdict::DoesNotFit) {
            take_less(&mut judge);
            judged = Judged { is_certain: false, ..judged_by(&mut judge, strategy)? };
        }
    }
    let Judged { verdict, is_certain } = judged;
    let tuning = Tuning {
        verdict,
        is_tight: !is_certain,
        takes_margin: false,
        is_for_one_thread: machine.counts_on_all(),
        before,
        floors,
        simulations: judge.simulations() + 1,
    };
    match tuning.verdict {
        Verdict::DoesNotFit => with_all_sides(&mut judge, strategy, tuning),
        _ => Ok(tuning),
    }
}

/// A plan for both sides of all branches at once, where none was found of one way through that suits the others too.
fn with_all_sides(
    judge: &mut Judge,
    strategy: &mut dyn Strategy,
    tuning: Tuning,
) -> Result<Tuning, StrategyError> {
    let Some(all_sides) = judge.outline().with_all_sides() else { return Ok(tuning) };
    let for_all = tune(&all_sides, judge.machine(), strategy)?;
    let simulations = tuning.simulations + for_all.simulations;
    let Verdict::FitsWithSwapping(found) = for_all.verdict else {
        return Ok(Tuning { simulations, ..tuning });
    };
    Ok(match judge.judge(&found.draft) {
        Ok(outcome) => Tuning {
            verdict: Verdict::FitsWithSwapping(Box::new(Found { outcome, ..*found })),
            is_tight: for_all.is_tight,
            simulations,
            ..tuning
        },
        Err(_) => Tuning { simulations, ..tuning },
    })
}

/// The same, but where no plan leaves over what predictions may be off by, one that counts on all of the memory will do.
///
/// # Errors
///
/// As [`tune`].
pub fn tune_with_margin(
    outline: &Outline,
    machine: &Machine,
    strategy: &mut dyn Strategy,
) -> Result<Tuning, StrategyError> {
    let tuning = tune(outline, machine, strategy)?;
    let whole = machine.counting_on_all();
    let has_room = |(gpu, floor): (usize, &Floors)| {
        whole.memory_bytes(gpu).is_none_or(|most| floor.memory_bytes <= most)
    };
    if !matches!(tuning.verdict, Verdict::DoesNotFit)
        || machine.counts_on_all()
        || !tuning.floors.iter().enumerate().all(has_room)
    {
        return Ok(tuning);
    }
    let with_all = tune(outline, &whole, strategy)?;
    let simulations = tuning.simulations + with_all.simulations;
    Ok(match with_all.verdict {
        Verdict::DoesNotFit => Tuning { simulations, ..tuning },
        _ => Tuning { is_tight: true, takes_margin: true, simulations, ..with_all },
    })
}

/// What comes of a step with a plan that was joined of its own and those of other steps. `own` is what was found of the step alone,
/// and `other` who made a plan where it needs none alone.
///
/// A step that is tight with its own plan is so with the joined one, and so is one that fits with the joined one only as predicted.
pub fn tune_for(judge: &mut Judge, draft: &Draft, own: &Tuning, other: &'static Description) -> Tuning {
    let judged = if own.is_tight { None } else { judge.judge(draft).ok() };
    let certain = judged.filter(|_| is_certain(judge, draft));
    let is_tight = certain.is_none();
    let outcome = certain.or_else(|| {
        judge.trust_the_profile();
        judge.judge(draft).ok()
    });
    let (strategy, parameters) = match &own.verdict {
        Verdict::FitsWithSwapping(found) => (found.strategy, found.parameters.clone()),
        _ => (other, serde_json::Value::Null),
    };
    let verdict = outcome.map_or(Verdict::DoesNotFit, |outcome| {
        Verdict::FitsWithSwapping(Box::new(Found { strategy, draft: draft.clone(), outcome, parameters }))
    });
    Tuning { verdict, is_tight, simulations: own.simulations + judge.simulations(), ..own.clone() }
}

/// Whether a plan endures what one has to that was picked among many, and chosen at the end.
fn is_certain(judge: &mut Judge, draft: &Draft) -> bool {
    judge.endures_being_picked(draft).is_ok() && endures_being_chosen(judge, draft)
}

/// Whether a plan endures what one has to that was chosen at the end.
fn endures_being_chosen(judge: &mut Judge, draft: &Draft) -> bool {
    judge.endures_being_chosen(draft).is_ok() && judge.has_room_for_overlap(draft)
}

/// So often a strategy looks for the best plan that endures being chosen.
const MOST_SEARCHES: u32 = 2;

/// A verdict, and whether it endured all chances that it was tried with.
struct Judged {
    verdict: Verdict,
    is_certain: bool,
}

/// Whether the graph fits as it is, and if not, with which plan. Where none of the best endures being chosen, any that does; where there is
/// none, the first of the best.
fn judged_by(judge: &mut Judge, strategy: &mut dyn Strategy) -> Result<Judged, StrategyError> {
    let as_it_is = Draft::default();
    let mut verdict = Verdict::DoesNotFit;
    if judge.judge(&as_it_is).is_ok() {
        if endures_being_chosen(judge, &as_it_is) {
            return Ok(Judged { verdict: Verdict::Fits, is_certain: true });
        }
        verdict = Verdict::Fits;
    }
    let with = |found| Verdict::FitsWithSwapping(Box::new(found));
    let mut unlearnt = judge.clone();
    for _ in 0..MOST_SEARCHES {
        let Some(found) = strategy.find(judge)? else { break };
        if endures_being_chosen(judge, &found.draft) {
            return Ok(Judged { verdict: with(found), is_certain: true });
        }
        if let Verdict::DoesNotFit = verdict {
            verdict = with(found);
        }
    }
    let any = any_certain(&mut unlearnt, strategy, None)?;
    let is_certain = any.is_some();
    Ok(Judged { verdict: any.map_or(verdict, with), is_certain })
}

/// Any plan that a strategy comes to that is certain. `like` is as [`Strategy::find_any`] has it.
fn any_certain(
    judge: &mut Judge,
    strategy: &mut dyn Strategy,
    like: Option<&Found>,
) -> Result<Option<Found>, StrategyError> {
    let any = strategy.find_any(judge, like)?;
    Ok(any.filter(|any| is_certain(judge, &any.draft)))
}

/// What no plan of a strategy goes below. `before` is a step of the graph as it is, were there no end of memory.
fn floors_of(outline: &Outline, strategy: &dyn Strategy, before: &Outcome) -> Vec<Floors> {
    floors(&Program::with_least_memory(outline, &strategy.host_ops(outline)), before)
}
