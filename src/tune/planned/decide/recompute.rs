//! What comes back by running its op again.

use serde::{Deserialize, Serialize};

use super::decisions::{Decision, Decisions};
use super::recipe::{Allowance, Chains, Recipe, RecipeInput, RecipeRun};
use super::residence::{Absence, Comeback, Residence, RunInput, SecondRun};
use crate::graph::{NodeId, TensorId};
use crate::ops::Fact;
use crate::plan::recomputable;
use crate::simulate::Machine;
use crate::tune::planned::timeline::{Course, Gap, LifeId, Position, SecondRunId, Table};
use crate::tune::planned::waits::Starters;

/// For each tensor of the program the op that makes it, if running that again is cheap and safe.
pub(in crate::tune) fn cheap_ops(course: &Course) -> Vec<Option<NodeId>> {
    let analysis = course.outline.analysis();
    let cheap_op = |id: TensorId| {
        let node = analysis.graph.producer(id);
        let is_cheap = analysis.graph.op(node).facts().has(Fact::Again)
            && recomputable(analysis.graph, &analysis.flow, &analysis.ref_variables, node).is_ok();
        is_cheap.then_some(node)
    };
    course.tensor_ids.iter().map(|&id| id.and_then(cheap_op)).collect()
}

/// What leaves first, where memory runs short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::tune::planned) enum Leaving {
    /// Of what can be made again cheaply, and then of the rest, what is read again furthest in the future.
    Furthest,
    /// What can be made again most cheaply for its size; of what is about equal, what is read again furthest in the future.
    Cheapest,
}

/// How cheaply something can be made again: the higher, the cheaper. Nothing cheap has zero.
pub(in crate::tune::planned) type Cheapness = u8;

/// Twice as cheap is so much higher.
const CHEAPNESS_OF_HALF: f64 = 2.0;

/// For each life whether its last tensor could be made again in less than this part of the time that a copy takes, and how cheaply.
pub(in crate::tune::planned) fn cheapness(
    course: &Course,
    machine: &Machine,
    (below, leaving): (f64, Leaving),
) -> Table<LifeId, Cheapness> {
    let mut cheapness = Table::filled(0, course.lives.len());
    if below <= 0.0 {
        return cheapness;
    }
    for (number, life) in course.lives.numbered() {
        let Some(last) = life.uses.last() else { continue };
        let Some(node) = course.cheap_ops[last.tensor as usize] else { continue };
        let part = course.outline.seconds(node) * machine.in_bytes_per_second / life.bytes as f64;
        if part <= below {
            cheapness[number] = match leaving {
                Leaving::Furthest => 1,
                // Of nothing the logarithm has no end, and a number of a byte has one.
                Leaving::Cheapest => 1 + ((below / part).log2() * CHEAPNESS_OF_HALF).min(100.0) as Cheapness,
            };
        }
    }
    cheapness
}

/// When a second run is taken for a copy.
#[derive(Debug, Clone, Copy)]
pub(in crate::tune::planned) struct Rule {
    /// If it takes less than this part of the time that the copy takes.
    pub below: f64,
    pub chains: Chains,
}

/// Decides for each return by a copy, from the first to the last, whether a second run is cheaper and there is room for it. `limits` are
/// for what is not decided yet, `again_limits` for what is decided to be made again.
pub(in crate::tune::planned) fn recompute(
    residence: &mut Residence,
    machine: &Machine,
    (limits, again_limits): (&[i64], &[i64]),
    rule: Rule,
    decisions: &Decisions,
) {
    let mut returns: Vec<(Position, Gap)> =
        residence.all().map(|(gap, absence)| (absence.until, gap)).collect();
    returns.sort_unstable();
    for (until, gap) in returns {
        let seconds = residence.life(gap.life).bytes as f64 / machine.in_bytes_per_second;
        let Some(absence) = residence.absence(gap).copied() else { continue };
        if absence.is_fixed || absence.has_other_names || absence.until != until {
            continue;
        }
        let (below, limits) = match decisions.of(gap) {
            Some(Decision::Copy) => continue,
            Some(Decision::Again) => (f64::INFINITY, again_limits),
            Some(Decision::Keep) | None => (rule.below, limits),
        };
        let waiting = residence.waiting(gap.life, &absence);
        let allowance = Allowance { seconds: seconds * below, chains: rule.chains, decisions };
        let recipe = Recipe::for_tensor(residence, (absence.tensor, until), waiting, allowance);
        if let Some(recipe) = recipe {
            apply(recipe, residence, limits, rule, (gap.life, &absence));
        }
    }
}

/// Carries a recipe out if there is room for it.
fn apply(
    recipe: Recipe,
    residence: &mut Residence,
    limits: &[i64],
    rule: Rule,
    (life, absence): (LifeId, &Absence),
) {
    let place = recipe.place;
    let gap = Gap { life, after: absence.after };
    let gpu = residence.life(life).gpu;
    let Some(before) = place.previous() else { return };
    let places = (absence.after.max(absence.gone_at), before);
    let starters = residence.starters(life);
    let holds = residence.holds();
    let Some(trigger) = holds.last_for(residence.course(), gpu, places, &recipe.waiting, starters) else {
        return;
    };
    let Some(pulls) = pulls(&recipe, residence, before) else { return };
    residence.attempt(|residence| {
        pulls.iter().for_each(|pull| residence.return_for(pull.gap, pull.trigger, place));
        let transient = recipe.transient_bytes(residence, rule.chains);
        let room = residence.room(usize::from(gpu));
        let limit = limits[usize::from(gpu)];
        let here = room.at(place) - residence.course().own_bytes[place];
        let fits = here + transient + residence.bytes_between(place) <= limit
            && (trigger == before || room.most(trigger.next(), place) + transient <= limit)
            && pulls.iter().all(|pull| room.most(pull.trigger.next(), pull.was.next()) <= limit);
        if !fits {
            return None;
        }
        residence.order(recipe.orders);
        residence.take_between(place, transient);
        // The tensor is not there while it would have been on its way.
        residence.return_from(gap, trigger.max(absence.trigger));
        let count = recipe.runs.len();
        let mut runs: Vec<SecondRunId> = Vec::with_capacity(count);
        for RecipeRun { node, tensor, inputs } in recipe.runs {
            let read =
                |input: RecipeInput| RunInput { tensor: input.tensor, from: input.from.map(|run| runs[run]) };
            let reads = inputs.into_iter().map(read).collect();
            let run = residence.run_again(SecondRun { node, tensor, place, trigger, reads });
            runs.push(run);
            if runs.len() == count {
                residence.make_again(gap, run);
            } else if rule.chains != Chains::Short {
                keep_from(residence, limits, run);
            }
        }
        // What others have come back is started for them.
        let may_wait = |&at: &Position| {
            let (course, holds) = (residence.course(), residence.holds());
            at == trigger
                || holds.last_for(course, gpu, (at, at), &recipe.waiting, Starters::InNoBranch).is_some()
        };
        residence.triggers_behind(*runs.last()?).iter().all(may_wait).then_some(())
    });
}

/// Lets what was made again on the way stay for those that it would be copied for later, if there is room for it until then.
fn keep_from(residence: &mut Residence, limits: &[i64], run: SecondRunId) {
    let course = residence.course();
    let SecondRun { place, trigger, tensor, .. } = residence.second_runs()[run];
    let Some(life) = course.life_of[tensor as usize] else { return };
    let Some(known) = residence.absence_before(life, place).copied() else { return };
    let is_later = known.until > place && known.trigger >= trigger && known.gone_at <= trigger;
    let is_its = known.tensor == tensor && !known.has_other_names;
    if !is_later || !is_its || known.is_fixed || known.comeback != Comeback::Swap {
        return;
    }
    let of = residence.life(life);
    let (gpu, bytes) = (of.gpu, of.bytes as i64);
    let waiting = residence.waiting(life, &known);
    let starters = residence.starters(life);
    let holds = residence.holds();
    let may_start = holds.last_for(course, gpu, (trigger, trigger), &waiting, starters).is_some();
    let room = residence.room_of(life);
    if may_start && room.most(trigger.next(), known.trigger.next()) + bytes <= limits[usize::from(gpu)] {
        let gap = Gap { life, after: known.after };
        residence.return_for(gap, trigger, place);
        residence.make_again(gap, run);
    }
}

/// The returns by a copy that must be earlier; none if one cannot be.
fn pulls(recipe: &Recipe, residence: &Residence, before: Position) -> Option<Vec<Pull>> {
    let earlier = |&gap: &Gap| {
        let was = *residence.absence(gap)?;
        let mut waiting = residence.waiting(gap.life, &was);
        waiting.extend(&recipe.waiting);
        let gpu = residence.life(gap.life).gpu;
        let trigger = residence.holds().last_for(
            residence.course(),
            gpu,
            (gap.after.next(), before),
            &waiting,
            Starters::InNoBranch,
        )?;
        (trigger <= was.trigger && trigger >= was.gone_at).then_some(Pull { gap, trigger, was: was.trigger })
    };
    recipe.pulled.iter().map(earlier).collect()
}

/// A return by a copy that is to be earlier.
struct Pull {
    gap: Gap,
    /// What starts it, and what started it before.
    trigger: Position,
    was: Position,
}
