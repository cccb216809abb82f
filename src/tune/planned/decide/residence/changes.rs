//! What changes a plan in the making, and takes it back.

use super::{Absence, Comeback, Residence, SecondRun};
use crate::plan::NodeOrder;
use crate::tune::planned::timeline::{BufferUse, Gap, LifeId, Position, Reader, SecondRunId};

/// What was changed, as far as it takes to undo it.
#[derive(Debug)]
pub(super) enum Change {
    /// Memory was taken at the places of a range.
    Taken { gpu: usize, first: Position, end: Position, bytes: i64 },
    /// A buffer is absent in a gap where it was not.
    Left(Gap),
    /// A buffer is not absent any more in a gap where it was, in this way.
    Stayed(LifeId, Absence),
    /// An absence was another before.
    Altered(LifeId, Absence),
    /// A life has one use more, at this place in the list of its uses.
    Read(LifeId, usize),
    /// There is one second run more.
    RunAgain,
    /// There were so many orders.
    Ordered(usize),
    /// Second runs right before a place took so much for themselves, if there were any.
    TakenBetween(Position, Option<i64>),
}

impl<'a> Residence<'a> {
    /// Changes something, and takes it all back if that comes to nothing. Attempts may be made within attempts.
    pub fn attempt<R>(&mut self, change: impl FnOnce(&mut Residence<'a>) -> Option<R>) -> Option<R> {
        let before = self.changes.len();
        self.attempts += 1;
        let result = change(self);
        self.attempts -= 1;
        if result.is_none() {
            while self.changes.len() > before
                && let Some(change) = self.changes.pop()
            {
                self.undo(change);
            }
        } else if self.attempts == 0 {
            self.changes.clear();
        }
        result
    }

    /// Takes a buffer out of memory for a time.
    pub fn leave(&mut self, life: LifeId, absence: Absence) {
        let bytes = self.lives[life].bytes as i64;
        self.take_for(life, (absence.after.next(), absence.trigger.next()), -bytes);
        self.insert(life, absence);
        self.note(Change::Left(Gap { life, after: absence.after }));
    }

    /// Keeps a buffer in a gap after all.
    pub fn stay(&mut self, gap: Gap) {
        let Some(absence) = self.remove(gap) else { return };
        let bytes = self.lives[gap.life].bytes as i64;
        self.take_for(gap.life, (absence.after.next(), absence.trigger.next()), bytes);
        self.note(Change::Stayed(gap.life, absence));
    }

    /// Has an absence last at least up to a place.
    pub fn be_gone_at(&mut self, gap: Gap, place: Position) {
        self.alter(gap, |absence| absence.gone_at = absence.gone_at.max(place));
    }

    /// Has a buffer return by a copy whatever a second run would cost.
    pub fn fix(&mut self, gap: Gap) {
        self.alter(gap, |absence| absence.is_fixed = true);
    }

    /// Has the op at a place start the return that ends a gap: memory is taken from the place behind it.
    pub fn return_from(&mut self, gap: Gap, trigger: Position) {
        let Some(&Absence { trigger: was, .. }) = self.absence(gap) else { return };
        let bytes = self.lives[gap.life].bytes as i64;
        if trigger < was {
            self.take_for(gap.life, (trigger.next(), was.next()), bytes);
        } else {
            self.take_for(gap.life, (was.next(), trigger.next()), -bytes);
        }
        self.alter(gap, |absence| absence.trigger = trigger);
    }

    /// Has a buffer return earlier, for second runs right before a place, which then rely on it.
    pub fn return_for(&mut self, gap: Gap, trigger: Position, place: Position) {
        self.return_from(gap, trigger);
        self.alter(gap, |absence| (absence.until, absence.is_fixed) = (place, true));
    }

    /// Has a second run end a gap in place of a copy.
    pub fn make_again(&mut self, gap: Gap, run: SecondRunId) {
        self.alter(gap, |absence| absence.comeback = Comeback::Again(run));
    }

    /// Adds a second run, which reads what is there at its place.
    pub fn run_again(&mut self, run: SecondRun) -> SecondRunId {
        let place = run.place;
        let tensors: Vec<u32> =
            run.reads.iter().filter(|read| read.from.is_none()).map(|read| read.tensor).collect();
        let number = self.second_runs.push(run);
        self.note(Change::RunAgain);
        for tensor in tensors {
            let Some(life) = self.course.life_of[tensor as usize] else { continue };
            let uses = &mut self.lives[life].uses;
            let at = uses.partition_point(|other| other.place < place);
            uses.insert(at, BufferUse { place, tensor, reader: Reader::Again(number) });
            self.note(Change::Read(life, at));
        }
        number
    }

    /// Keeps updates of variables behind second runs.
    pub fn order(&mut self, orders: impl IntoIterator<Item = NodeOrder>) {
        self.note(Change::Ordered(self.orders.len()));
        self.orders.extend(orders);
    }

    /// Takes memory for second runs right before a place.
    pub fn take_between(&mut self, place: Position, bytes: i64) {
        let was = self.between.get(&place).copied();
        self.between.insert(place, was.unwrap_or(0) + bytes);
        self.note(Change::TakenBetween(place, was));
    }

    /// Takes memory of a GPU at the places of a range.
    pub fn take(&mut self, gpu: usize, (first, end): (Position, Position), bytes: i64) {
        self.rooms[gpu].add(first, end, bytes);
        self.note(Change::Taken { gpu, first, end, bytes });
    }

    fn take_for(&mut self, life: LifeId, range: (Position, Position), bytes: i64) {
        self.take(usize::from(self.lives[life].gpu), range, bytes);
    }

    fn alter(&mut self, Gap { life, after }: Gap, change: impl FnOnce(&mut Absence)) {
        if let Some(absence) = self.absences[life].iter_mut().find(|absence| absence.after == after) {
            let was = *absence;
            change(absence);
            self.note(Change::Altered(life, was));
        }
    }

    fn insert(&mut self, life: LifeId, absence: Absence) {
        let absences = &mut self.absences[life];
        absences.insert(absences.partition_point(|other| other.after < absence.after), absence);
    }

    fn remove(&mut self, Gap { life, after }: Gap) -> Option<Absence> {
        let absences = &mut self.absences[life];
        let number = absences.iter().position(|absence| absence.after == after)?;
        Some(absences.remove(number))
    }

    fn note(&mut self, change: Change) {
        if self.attempts > 0 {
            self.changes.push(change);
        }
    }

    fn undo(&mut self, change: Change) {
        match change {
            Change::Taken { gpu, first, end, bytes } => self.rooms[gpu].add(first, end, -bytes),
            Change::Left(gap) => {
                self.remove(gap);
            }
            Change::Stayed(life, absence) => self.insert(life, absence),
            Change::Altered(life, was) => {
                if let Some(absence) =
                    self.absences[life].iter_mut().find(|absence| absence.after == was.after)
                {
                    *absence = was;
                }
            }
            Change::Read(life, at) => {
                self.lives[life].uses.remove(at);
            }
            Change::RunAgain => self.second_runs.pop(),
            Change::Ordered(count) => self.orders.truncate(count),
            Change::TakenBetween(place, was) => {
                match was {
                    Some(bytes) => self.between.insert(place, bytes),
                    None => self.between.remove(&place),
                };
            }
        }
    }
}
