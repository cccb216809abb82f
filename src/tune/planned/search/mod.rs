//! Which decisions make the best plan: they are tried.
//!
//! A `planner` makes a plan for one order of the ops, of a point: parameters, decisions, and what was done for the allocator. `starts` has
//! the parameters to begin with. `attempts` tries them one after the other, and keeps the best plans, which `improve` leaves things out of.
//! `climb` changes what is decided of the `candidates` in the best one by chance, and more often what `blame` finds dear. `to_host` says what goes to the host before all of that.

mod attempts;
mod blame;
mod candidates;
mod climb;
mod improve;
mod planner;
mod stages;
mod starts;
pub(super) mod to_host;

pub(super) use attempts::Reached;
pub(super) use planner::Planner;
pub(super) use stages::Stages;

use crate::simulate::Outcome;
use crate::tune::rank::{self, Rank};

/// Steps that differ by less than a part of so many are equal.
const STEP_PARTS: f64 = 5e2;

/// What makes a plan better.
pub(super) fn rank(outcome: &Outcome) -> Rank {
    rank::rank(outcome, STEP_PARTS)
}
