//! Where the allocator finds no room though enough is free: a hole is made of what is easiest to do without.
//!
//! The pool has free pieces and such as are taken, by address. Neighbours that are free, or could be, make one large piece; of all
//! ways to come to one that is large enough, the one for which the fewest bytes have to leave is best. Where what the op reads itself
//! is in the way of all of them, that is brought anew.

use std::collections::VecDeque;

use super::residence::{Absence, Residence};
use crate::simulate::{Holder, Origin, OutOfMemory, Piece, Program};
use crate::tune::planned::timeline::{Gap, LifeId, Position};

/// Of what is wanted, so many parts are a large piece, and so many a small one.
const LARGE_PART: u64 = 8;
const SMALL_PART: u64 = 64;

/// A buffer that is not to be where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::tune::planned) enum Gone {
    /// It is not to be in memory at a place.
    At { life: LifeId, place: Position },
    /// It is to be brought anew to the op at a place.
    Anew { life: LifeId, place: Position },
}

impl Gone {
    /// Lets the buffer leave, if nothing has come in the way since.
    pub fn leave(self, residence: &mut Residence) {
        match self {
            Gone::At { life, place } => {
                let Some(gap) = gap_at(residence, life, place) else { return };
                if !residence.is_absent(gap) {
                    let absence = residence.possible_absence(gap);
                    let Some(absence) = absence.filter(|absence| absence.trigger >= place) else { return };
                    residence.leave(life, absence);
                }
                residence.be_gone_at(gap, place);
            }
            Gone::Anew { life, place } => {
                let Some(absence) = last_return(residence, life, place) else { return };
                let gap = Gap { life, after: absence.after };
                if !residence.is_absent(gap) {
                    residence.leave(life, absence);
                }
                residence.be_gone_at(gap, absence.trigger);
                // A second run right behind the first would bring nothing.
                if absence.trigger == absence.after {
                    residence.fix(gap);
                }
            }
        }
    }
}

/// What has to leave so that a place gets the memory that it wants; nothing if that is not to be had.
pub(in crate::tune::planned) fn hole(
    residence: &Residence,
    program: &Program,
    shortage: &OutOfMemory,
    place: Position,
) -> Vec<Gone> {
    let mut window = Window::default();
    let mut best: Option<Window> = None;
    for piece in &shortage.pieces {
        let leaves = match piece.holder {
            Holder::Nobody => None,
            Holder::Tensor(tensor) => {
                let life = life_of(residence, program, tensor);
                let Some(life) = life.filter(|&life| can_be_gone(residence, life, place)) else {
                    window = Window::default();
                    continue;
                };
                Some(life)
            }
            Holder::Other => {
                window = Window::default();
                continue;
            }
        };
        window.push(piece, leaves);
        window.shrink_to(shortage.wanted_bytes);
        if window.bytes >= shortage.wanted_bytes && best.as_ref().is_none_or(|best| window.cost < best.cost) {
            best = Some(window.clone());
        }
    }
    let lives = best.into_iter().flat_map(|best| best.pieces).filter_map(|(_, life)| life);
    lives.map(|life| Gone::At { life, place }).collect()
}

/// What is small and lies among what is large: it keeps that from becoming one piece, and would do so again wherever it came to lie
/// next.
pub(in crate::tune::planned) fn islands(
    residence: &Residence,
    program: &Program,
    shortage: &OutOfMemory,
    place: Position,
) -> Vec<Gone> {
    let small = small_among_large(&shortage.pieces, shortage.wanted_bytes);
    let lives = small.filter_map(|piece| match piece.holder {
        Holder::Tensor(tensor) => life_of(residence, program, tensor),
        Holder::Nobody | Holder::Other => None,
    });
    lives.filter(|&life| can_be_gone(residence, life, place)).map(|life| Gone::At { life, place }).collect()
}

/// What the op at a place reads itself, and what lies in the way of what it wants. It has to be there, but may lie elsewhere: it leaves
/// before and returns last, to where the allocator finds room for it then.
pub(in crate::tune::planned) fn displaced(
    residence: &Residence,
    program: &Program,
    shortage: &OutOfMemory,
    place: Position,
) -> Vec<Gone> {
    let large = shortage.pieces.iter().filter(|piece| piece.bytes >= shortage.wanted_bytes / LARGE_PART);
    let lives = large.filter_map(|piece| match piece.holder {
        Holder::Tensor(tensor) => life_of(residence, program, tensor),
        Holder::Nobody | Holder::Other => None,
    });
    lives
        .filter(|&life| last_return(residence, life, place).is_some())
        .map(|life| Gone::Anew { life, place })
        .collect()
}

/// How a buffer that the op at a place reads could leave after the last use before that, to come back for it as late as it can.
fn last_return(residence: &Residence, life: LifeId, place: Position) -> Option<Absence> {
    let of = residence.life(life);
    let before = of.uses.partition_point(|read| read.place < place).checked_sub(1);
    let after = before.map_or(of.made, |last| of.uses[last].place);
    residence.possible_return(Gap { life, after }).filter(|absence| absence.until == place)
}

/// The small pieces behind the first large one. What lies before that, at the lowest addresses, is persistent for the most part.
fn small_among_large(pieces: &[Piece], wanted_bytes: u64) -> impl Iterator<Item = &Piece> {
    let is_large = move |piece: &&Piece| piece.bytes >= wanted_bytes / LARGE_PART;
    let is_small = move |piece: &&Piece| piece.bytes <= wanted_bytes / SMALL_PART;
    pieces.iter().skip_while(move |piece| !is_large(piece)).filter(is_small)
}

/// Some neighbours in a pool that are free or could be.
#[derive(Debug, Clone, Default)]
struct Window {
    /// How large each is, and the life that has to leave.
    pieces: VecDeque<(u64, Option<LifeId>)>,
    bytes: u64,
    /// The bytes that have to leave.
    cost: u64,
}

impl Window {
    fn push(&mut self, piece: &Piece, leaves: Option<LifeId>) {
        self.pieces.push_back((piece.bytes, leaves));
        self.bytes += piece.bytes;
        self.cost += leaves.map_or(0, |_| piece.bytes);
    }

    /// Gives up the first pieces as long as the others are enough.
    fn shrink_to(&mut self, bytes: u64) {
        while let Some(&(first, leaves)) = self.pieces.front()
            && self.bytes - first >= bytes
        {
            self.pieces.pop_front();
            self.bytes -= first;
            self.cost -= leaves.map_or(0, |_| first);
        }
    }
}

/// The life whose buffer a tensor of a plan's program is in.
fn life_of(residence: &Residence, program: &Program, tensor: u32) -> Option<LifeId> {
    let course = residence.course();
    let graph = course.outline.analysis().graph;
    let maker = program.maker(tensor);
    let id = match program.origin(maker) {
        Origin::Op(node) | Origin::Recomputation(node, _) => {
            graph.outputs(node).nth((tensor - program.outputs(maker).start) as usize)?
        }
        Origin::SwapIn(id, _) | Origin::Copy(id) => {
            if let Some(&life) = course.brought.get(&(id, program.tensor_place(tensor))) {
                return Some(life);
            }
            id
        }
        Origin::Swap(..) | Origin::SwapOut(_) | Origin::Signal(_) => return None,
    };
    let made = course.program.outputs(course.outline.entry(graph.producer(id))?);
    let original = made.start + graph.output_index(id);
    course.life_of[original as usize]
}

/// The gap of a buffer that a place lies in, if it is needed later again.
fn gap_at(residence: &Residence, life: LifeId, place: Position) -> Option<Gap> {
    let of = residence.life(life);
    let later = of.uses.partition_point(|read| read.place < place);
    let is_idle = of.made < place && of.uses.get(later).is_some_and(|read| read.place > place);
    let after = later.checked_sub(1).map_or(of.made, |last| of.uses[last].place);
    is_idle.then_some(Gap { life, after })
}

fn can_be_gone(residence: &Residence, life: LifeId, place: Position) -> bool {
    let absence = gap_at(residence, life, place).and_then(|gap| residence.possible_absence(gap));
    absence.is_some_and(|absence| absence.trigger >= place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(pieces: &[(u64, Option<LifeId>)], wanted_bytes: u64) -> Window {
        let mut window = Window::default();
        for &(bytes, leaves) in pieces {
            window.push(&Piece { bytes, holder: Holder::Nobody }, leaves);
            window.shrink_to(wanted_bytes);
        }
        window
    }

    #[test]
    fn no_more_leaves_than_must() {
        let found = window(
            &[(512, Some(LifeId::new(0))), (256, None), (256, Some(LifeId::new(1))), (1024, None)],
            1280,
        );
        assert_eq!((found.bytes, found.cost), (1280, 256));
        assert_eq!(found.pieces, [(256, Some(LifeId::new(1))), (1024, None)]);
    }

    #[test]
    fn islands_lie_behind_what_is_large() {
        let sizes = [100, 799, 800, 100, 101, 6400, 1];
        let pieces = sizes.map(|bytes| Piece { bytes, holder: Holder::Nobody });
        let found: Vec<u64> = small_among_large(&pieces, 6400).map(|piece| piece.bytes).collect();
        assert_eq!(found, [100, 1]);
    }

    #[test]
    fn what_is_not_enough_is_kept() {
        let found = window(&[(512, Some(LifeId::new(0))), (256, None)], 1024);
        assert_eq!((found.bytes, found.cost), (768, 512));
    }
}
