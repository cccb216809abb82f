//! When: the order of a step's ops, and what is in memory at each place of it.
//!
//! `schedule` and `late` make an order of a program's entries. `course` lays the step out in it: when each buffer of a GPU is made and
//! read, which is its life. `room` says how much memory that takes at each place. `ids` has the numbers that all of the planner is written in: places, lives, and the
//! gaps between the uses of a life.

mod course;
mod ids;
mod late;
mod room;
mod schedule;

pub(in crate::tune) use course::{BufferUse, Course, Life, Reader};
pub(in crate::tune) use ids::{Gap, Id, LifeId, Position, SecondRunId, Table};
pub(super) use late::with_late_growth;
pub(in crate::tune) use room::Room;
pub(in crate::tune) use schedule::Order;
pub(super) use schedule::{frugal, natural};
