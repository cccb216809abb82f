//! What comes back by running its op again.

use super::decisions::{Decision, Decisions};
use super::recipe::{Allowance, Chains, Input, Recipe};
use super::residence::{Absence, Comeback, Read, Residence, SecondRun};
use crate::graph::{NodeId, TensorId};
use crate::ops::Fact;
use crate::plan::recomputable;
use crate::simulate::Machine;
use crate::tune::planned::timeline::{
    Course, Gap, Id as _, LifeId, Position, Reader, SecondRunId, Table, Use,
};
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

/// For each life whether its last tensor could be made again in less than this part of the time that a copy takes.
pub(in crate::tune::planned) fn cheap_lives(
    course: &Course,
    machine: &Machine,
    below: f64,
) -> Table<LifeId, bool> {
    let mut cheap = Table::filled(false, course.lives.len());
    if below <= 0.0 {
        return cheap;
    }
    for (number, life) in course.lives.numbered() {
        let Some(last) = life.uses.last() else { continue };
        let Some(node) = course.cheap_ops[last.tensor as usize] else { continue };
        let seconds = course.outline.seconds(node);
        cheap[number] = seconds <= below * life.bytes as f64 / machine.in_bytes_per_second;
    }
    cheap
}

/// When a second run is taken for a copy.
#[derive(Debug, Clone, Copy)]
pub(in crate::tune::planned) struct Rule {
    /// If it takes less than this part of the time that the copy takes.
    pub below: f64,
    pub chains: Chains,
}

/// Decides for each return by a copy, from the first to the last, whether a second run is cheaper and there is room for it.
pub(in crate::tune::planned) fn recompute(
    residence: &mut Residence,
    machine: &Machine,
    limits: &[i64],
    rule: Rule,
    decisions: &Decisions,
) {
    let mut returns: Vec<(Position, Gap)> =
        residence.all().map(|(gap, absence)| (absence.until, gap)).collect();
    returns.sort_unstable();
    for (until, gap) in returns {
        let seconds = residence.lives[gap.life].bytes as f64 / machine.in_bytes_per_second;
        let Some(absence) = residence.absence(gap).copied() else { continue };
        if absence.is_fixed || absence.until != until {
            continue;
        }
        let below = match decisions.of(gap) {
            Some(Decision::Copy) => continue,
            Some(Decision::Again) => f64::INFINITY,
            Some(Decision::Keep) | None => rule.below,
        };
        let consumers = residence.consumers(gap.life, &absence);
        let allowance = Allowance { seconds: seconds * below, chains: rule.chains, decisions };
        let recipe = Recipe::for_tensor(residence, (absence.tensor, until), consumers, allowance);
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
    let course = residence.course;
    let place = recipe.place;
    let gap = Gap { life, after: absence.after };
    let gpu = usize::from(residence.lives[life].gpu);
    let Some(before) = place.previous() else { return };
    let Some(trigger) = residence.holds.last_for(
        course,
        gpu as u16,
        (absence.after.max(absence.gone_at), before),
        &recipe.consumers,
        residence.starters(life),
    ) else {
        return;
    };
    let Some(pulls) = pulls(&recipe, residence, before) else { return };
    pulls.iter().for_each(|pull| pull.take(residence));
    let transient = recipe.transient_bytes(residence, rule.chains);
    let already = residence.between.get(&place).copied().unwrap_or(0);
    let room = &residence.rooms[gpu];
    let here = room.at(place) - course.own_bytes[place];
    let fits = here + transient + already <= limits[gpu]
        && (trigger == before || room.most(trigger.next(), place) + transient <= limits[gpu])
        && pulls.iter().all(|pull| room.most(pull.trigger.next(), pull.was.trigger.next()) <= limits[gpu]);
    if !fits {
        pulls.iter().for_each(|pull| pull.give_back(residence));
        return;
    }
    residence.orders.extend(recipe.orders);
    *residence.between.entry(place).or_default() += transient;
    for pull in pulls {
        residence.change(pull.gap, |known| {
            (known.trigger, known.until, known.is_fixed) = (pull.trigger, place, true);
        });
    }
    // The tensor is not there while it would have been on its way.
    let bytes = residence.lives[life].bytes as i64;
    residence.rooms[gpu].add(absence.trigger.next(), trigger.next(), -bytes);
    // Runs of the recipe have numbers of their own.
    let first = residence.second_runs.len();
    let number_of = |run: usize| SecondRunId::of(first + run);
    let last = number_of(recipe.runs.len() - 1);
    residence.change(gap, |known| {
        (known.trigger, known.comeback) = (trigger.max(known.trigger), Comeback::Again(last));
    });
    for (number, run) in (0..).map(number_of).zip(recipe.runs) {
        let mut reads = Vec::with_capacity(run.inputs.len());
        for Input { tensor, from } in run.inputs {
            let read = Read { tensor, from: from.map(number_of) };
            reads.push(read);
            if read.from.is_none() {
                let read = Use { place, tensor: read.tensor, reader: Reader::Again(number) };
                if let Some(life) = course.life_of[read.tensor as usize] {
                    let uses = &mut residence.lives[life].uses;
                    uses.insert(uses.partition_point(|other| other.place < place), read);
                }
            }
        }
        residence.second_runs.push(SecondRun { node: run.node, place, trigger, reads });
        if rule.chains == Chains::Long && number != last {
            keep_from(residence, limits, (number, run.tensor));
        }
    }
}

/// Lets what was made again on the way stay for those that it would be copied for later, if there is room for it until then.
fn keep_from(residence: &mut Residence, limits: &[i64], (number, tensor): (SecondRunId, u32)) {
    let course = residence.course;
    let SecondRun { place, trigger, .. } = residence.second_runs[number];
    let Some(life) = course.life_of[tensor as usize] else { return };
    let Some(known) = residence.absence_before(life, place).copied() else { return };
    let is_later = known.until > place && known.trigger >= trigger && known.gone_at <= trigger;
    if !is_later || known.tensor != tensor || known.is_fixed || known.comeback != Comeback::Swap {
        return;
    }
    let of = &residence.lives[life];
    let (gpu, bytes) = (of.gpu, of.bytes as i64);
    let consumers = residence.consumers(life, &known);
    let starters = residence.starters(life);
    let may_start = residence.holds.last_for(course, gpu, (trigger, trigger), &consumers, starters).is_some();
    let limit = limits[usize::from(gpu)];
    if may_start && residence.room(life).most(trigger.next(), known.trigger.next()) + bytes <= limit {
        residence.room(life).add(trigger.next(), known.trigger.next(), bytes);
        residence.change(Gap { life, after: known.after }, |absence| {
            (absence.trigger, absence.until, absence.is_fixed) = (trigger, place, true);
            absence.comeback = Comeback::Again(number);
        });
    }
}

/// The returns by a copy that must be earlier; none if one cannot be.
fn pulls(recipe: &Recipe, residence: &Residence, before: Position) -> Option<Vec<Pull>> {
    let earlier = |&gap: &Gap| {
        let was = *residence.absence(gap)?;
        let mut consumers = residence.consumers(gap.life, &was);
        consumers.extend(&recipe.consumers);
        let gpu = residence.lives[gap.life].gpu;
        let trigger = residence.holds.last_for(
            residence.course,
            gpu,
            (gap.after.next(), before),
            &consumers,
            Starters::InNoBranch,
        )?;
        (trigger <= was.trigger && trigger >= was.gone_at).then_some(Pull { gap, was, trigger })
    };
    recipe.pulled.iter().map(earlier).collect()
}

/// A return by a copy that is to be earlier.
struct Pull {
    gap: Gap,
    was: Absence,
    trigger: Position,
}

impl Pull {
    fn take(&self, residence: &mut Residence) {
        let bytes = residence.lives[self.gap.life].bytes as i64;
        residence.room(self.gap.life).add(self.trigger.next(), self.was.trigger.next(), bytes);
    }

    fn give_back(&self, residence: &mut Residence) {
        let bytes = residence.lives[self.gap.life].bytes as i64;
        residence.room(self.gap.life).add(self.trigger.next(), self.was.trigger.next(), -bytes);
    }
}
