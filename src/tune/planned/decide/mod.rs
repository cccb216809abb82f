//! What becomes of a buffer between two uses: it stays, leaves and is copied back, or is made again.
//!
//! `residence` is a plan in the making: which buffers are absent when, and what that leaves in memory; everything here changes it.
//! `decisions` are what is decided beforehand. `evict` repairs: it lets leave what must where memory still runs short. `holes` lets leave what
//! lies in the allocator's way. `recompute` takes second runs for copies, by the `recipe` that says which ops run again; `returns` says when
//! copies start, for which `pace` follows the clocks of host, GPU and link. `write` makes a plan of it; for an allocator that waits for no
//! copies, `awaited` says which ops do.

mod awaited;
mod decisions;
mod evict;
mod holes;
mod pace;
mod recipe;
mod recompute;
mod residence;
mod returns;
mod write;

pub(super) use awaited::wait_for_copies;
pub(super) use decisions::{Decision, Decisions};
pub(super) use evict::{Choice, evict};
pub(super) use holes::{Gone, displaced, hole, islands};
pub(super) use recipe::Chains;
pub(in crate::tune) use recompute::cheap_ops;
pub(super) use recompute::{Leaving, Rule, cheapness, recompute};
pub(super) use residence::{Absence, Comeback, Residence};
pub(super) use returns::place_triggers;
pub(super) use write::draft;
