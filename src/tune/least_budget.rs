//! The least memory for which a strategy finds a plan.
//!
//! What can be planned is not monotone in the memory: with a little less of it everything comes to lie elsewhere, and there may be a plan
//! again. So the search walks down, by large steps at first and by smaller ones where it misses, and looks some way beyond where it
//! finds nothing. On the way any plan will do, and what the last one was made with is tried first; where the
//! walk ends it has to be found without that, as by who begins there.

use super::{Found, Judge, Strategy, StrategyError, any_certain, endures_being_chosen, floors_of};
use crate::plan::Draft;
use crate::simulate::{Machine, NoObserver, Outline, Program, simulate};

/// The part of the memory by which less is tried at first; half of it after each miss.
const FIRST_STEP: f64 = 0.5;
/// The last of these steps.
const LAST_STEP: f64 = 1.0 / 128.0;

/// By which parts less is tried, one after the other, before that is the end.
const BEYOND: [f64; 5] = [0.025, 0.05, 0.075, 0.125, 0.2];

/// By what part more memory a graph as it is may need when it runs in other orders: a twentieth.
const OTHER_ORDERS_PARTS: u64 = 20;

/// What differs by a smaller part from a memory for which nothing was found is not tried: the steps lead to about the same again and again.
const NEAR_PARTS: u64 = 512;

/// By what part more memory is tried where no plan is found without another one to begin with.
const UP_PARTS: u64 = 100;

/// The least memory of a GPU for which a strategy finds a plan, to about a hundredth; none if there is none for any memory. `machine`
/// is what the graph runs on, whatever its memory; `whole` is what a GPU has of which a plan may count on so many bytes.
///
/// A plan that is tight ([`super::Tuning::is_tight`]) counts only if there is no other: by experience it does not train in the memory that it
/// was made for.
///
/// # Errors
///
/// If the strategy cannot plan for this graph.
pub fn least_budget(
    outline: &Outline,
    machine: &Machine,
    strategy: &mut dyn Strategy,
    whole: impl Fn(u64) -> u64,
) -> Result<Option<u64>, StrategyError> {
    let original = Program::new(outline, &Draft::default());
    let unlimited = machine.with_memory(Vec::new());
    let before = simulate(&original, &unlimited, &mut NoObserver).unwrap_or_default();
    let floors = floors_of(outline, strategy, &before);
    let floor_bytes = floors.iter().map(|floor| floor.memory_bytes).max().unwrap_or(0);
    // The pool needs more than the peak, and in other orders a little more than that.
    let as_it_is = Judge::new(outline, machine).least_memory(&Draft::default());
    let as_it_is = as_it_is + as_it_is / OTHER_ORDERS_PARTS;
    for is_careful in [true, false] {
        let machine_with =
            |bytes: u64| machine.with_memory(vec![bytes]).with_whole_memory(vec![whole(bytes)]);
        let mut trials = Trials { outline, strategy: &mut *strategy, is_careful, like: None };
        if !trials.has_any(&machine_with(as_it_is))? {
            continue;
        }
        let lowest = walk_down(as_it_is, floor_bytes, |bytes| trials.has_any(&machine_with(bytes)))?;
        let mut bytes = lowest;
        while bytes < as_it_is && !trials.has_certain(&machine_with(bytes))? {
            bytes += (bytes / UP_PARTS).max(1);
        }
        let bytes = bytes.min(as_it_is);
        if bytes < as_it_is || !is_careful {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// The least of the memories from `enough_bytes` down that is enough, as the steps above find it. Nothing below `floor_bytes` is tried.
fn walk_down<E>(
    enough_bytes: u64,
    floor_bytes: u64,
    mut is_enough: impl FnMut(u64) -> Result<bool, E>,
) -> Result<u64, E> {
    let less = |bytes: u64, part: f64| (bytes as f64 * (1.0 - part)) as u64;
    let mut missed: Vec<u64> = Vec::new();
    let mut is_enough = |bytes: u64| {
        let is_near = |other: &u64| bytes.abs_diff(*other) < bytes / NEAR_PARTS;
        let found = bytes > floor_bytes && !missed.iter().any(is_near) && is_enough(bytes)?;
        missed.extend((!found).then_some(bytes));
        Ok(found)
    };
    let mut enough = enough_bytes;
    let mut step = FIRST_STEP;
    while step >= LAST_STEP {
        let next = less(enough, step);
        if is_enough(next)? { enough = next } else { step /= 2.0 }
    }
    loop {
        let mut found = None;
        for part in BEYOND {
            let next = less(enough, part);
            if is_enough(next)? {
                found = Some(next);
                break;
            }
        }
        match found {
            Some(next) => enough = next,
            None => return Ok(enough),
        }
    }
}

/// Tries of one strategy with many memories.
struct Trials<'a> {
    outline: &'a Outline<'a>,
    strategy: &'a mut dyn Strategy,
    /// Whether a plan has to fit with what may go otherwise, too.
    is_careful: bool,
    /// The last plan that was found.
    like: Option<Found>,
}

impl Trials<'_> {
    /// Whether there is any plan for a machine that is certain, or the graph fits as it is.
    fn has_any(&mut self, machine: &Machine) -> Result<bool, StrategyError> {
        let mut judge = self.judge(machine);
        if judge.judge(&Draft::default()).is_ok() {
            return Ok(true);
        }
        let found = any_certain(&mut judge, self.strategy, self.like.as_ref())?;
        let has_any = found.is_some();
        self.like = found.or(self.like.take());
        Ok(has_any)
    }

    /// Whether who has but this machine comes to a certain verdict, with no plan for another one to begin with.
    fn has_certain(&mut self, machine: &Machine) -> Result<bool, StrategyError> {
        let mut judge = self.judge(machine);
        let as_it_is = Draft::default();
        if judge.judge(&as_it_is).is_ok() && endures_being_chosen(&mut judge, &as_it_is) {
            return Ok(true);
        }
        Ok(any_certain(&mut judge, self.strategy, None)?.is_some())
    }

    fn judge<'b>(&self, machine: &'b Machine) -> Judge<'b>
    where
        Self: 'b,
    {
        let mut judge = Judge::new(self.outline, machine);
        if !self.is_careful {
            judge.trust_the_profile();
        }
        judge
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// What is found from so much on, and how many memories were tried.
    fn walked(enough: u64, floor: u64, is_enough: impl Fn(u64) -> bool) -> (u64, u32) {
        let mut tries = 0;
        let mut missed: Vec<u64> = Vec::new();
        let Ok::<_, Infallible>(found) = walk_down(enough, floor, |bytes| {
            tries += 1;
            assert!(bytes > floor && bytes < enough, "{bytes}");
            let is_near = |missed: &u64| bytes.abs_diff(*missed) < bytes / NEAR_PARTS;
            assert!(!missed.iter().any(is_near), "{bytes}");
            let found = is_enough(bytes);
            missed.extend((!found).then_some(bytes));
            Ok(found)
        });
        (found, tries)
    }

    #[test]
    fn the_least_is_found_to_about_a_hundredth_in_few_tries() {
        let (found, tries) = walked(28_000 * MIB, 100 * MIB, |bytes| bytes >= 2_000 * MIB);
        assert!((2_000 * MIB..2_020 * MIB).contains(&found), "{found}");
        assert!(tries < 20, "{tries}");
    }

    #[test]
    fn a_memory_without_a_plan_does_not_end_the_search() {
        let has_plan = |bytes| bytes >= 2_000 * MIB && !(2_300 * MIB..2_400 * MIB).contains(&bytes);
        let (found, _) = walked(28_000 * MIB, 100 * MIB, has_plan);
        assert!((2_000 * MIB..2_020 * MIB).contains(&found), "{found}");
    }

    #[test]
    fn nothing_below_the_floor_is_tried() {
        let (found, _) = walked(1_000 * MIB, 700 * MIB, |_| true);
        assert!((700 * MIB..710 * MIB).contains(&found), "{found}");
        assert_eq!(walked(1_000 * MIB, 1_000 * MIB, |_| true), (1_000 * MIB, 0));
        assert_eq!(walked(0, 0, |_| true), (0, 0));
    }
}
