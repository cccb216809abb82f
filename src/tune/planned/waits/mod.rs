//! Who may wait for whom.
//!
//! `holds` says which ops may hold up which others without making anybody's run do what it did not do before. All that a plan adds to a
//! step's order asks it: `orders`, the edges that keep the runtime to the schedule; `paces`, those that keep a loop from running ahead
//! of its copies; `updates`, those that keep a ref variable's update behind a second reader; triggers of what comes back
//! ([`super::decide`]). `held_back` is for plans that know no budget: what several workers' gradients come to waits until there is room
//! for it.

mod held_back;
mod holds;
mod orders;
mod paces;
mod updates;

pub use held_back::hold_back_means;
pub(super) use holds::{Holds, Starters};
pub(super) use orders::orders;
pub(super) use paces::paces;
pub(super) use updates::Updates;
