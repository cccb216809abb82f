//! What is decided of gaps: the times between two uses of a buffer.

use std::collections::BTreeMap;

use super::residence::{Comeback, Residence};
use crate::tune::planned::timeline::Gap;

/// What becomes of a buffer in a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tune::planned) enum Decision {
    /// It stays in memory.
    Keep,
    /// It leaves, and a copy brings it back.
    Copy,
    /// It leaves, and is made again: however long that takes, if it can be.
    Again,
}

/// The most gates that a copy starts earlier by.
const MOST_LEAD: u8 = 8;

/// Decisions of some gaps. Of all others it is decided where memory runs short ([`super::evict`]).
#[derive(Debug, Clone)]
pub(in crate::tune::planned) struct Decisions {
    of: BTreeMap<Gap, Decision>,
    /// For some gaps by how many gates earlier the copy starts that ends them.
    leads: BTreeMap<Gap, u8>,
    /// The same of all others.
    pub other_leads: u8,
    /// Whether copies start in the order in which they are needed, though others could start earlier.
    pub in_turn: bool,
}

impl Default for Decisions {
    fn default() -> Decisions {
        Decisions { of: BTreeMap::new(), leads: BTreeMap::new(), other_leads: 0, in_turn: true }
    }
}

impl Decisions {
    /// What a plan does: all that leaves in it leaves, and comes back as it does there.
    pub fn of_plan(residence: &Residence) -> Decisions {
        let decided = residence.all().map(|(gap, absence)| {
            let decision = match absence.comeback {
                Comeback::Swap => Decision::Copy,
                Comeback::Again(_) => Decision::Again,
            };
            (gap, decision)
        });
        Decisions { of: decided.collect(), ..Decisions::default() }
    }

    /// What is decided of a gap, if anything is.
    pub fn of(&self, gap: Gap) -> Option<Decision> {
        self.of.get(&gap).copied()
    }

    /// Whether this is decided of any gap.
    pub fn have(&self, decision: Decision) -> bool {
        self.of.values().any(|&decided| decided == decision)
    }

    /// Decides, or leaves undecided.
    pub fn set(&mut self, gap: Gap, decision: Option<Decision>) {
        match decision {
            Some(decision) => self.of.insert(gap, decision),
            None => self.of.remove(&gap),
        };
    }

    /// By how many gates earlier than it seems to have to the copy starts that ends a gap ([`super::returns`]).
    pub fn lead(&self, gap: Gap) -> u8 {
        self.leads.get(&gap).copied().unwrap_or(self.other_leads)
    }

    /// Has the copy that ends a gap start so many gates earlier, or as many as it can.
    pub fn set_lead(&mut self, gap: Gap, gates: u8) {
        self.leads.insert(gap, gates.min(MOST_LEAD));
    }

    /// Lets leave what is to leave, where it can.
    pub fn leave(&self, residence: &mut Residence) {
        for (&gap, &decision) in &self.of {
            if decision == Decision::Keep || residence.is_absent(gap) {
                continue;
            }
            if let Some(absence) = residence.possible_absence(gap) {
                residence.leave(gap.life, absence);
            }
        }
    }
}
