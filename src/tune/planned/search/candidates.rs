//! The gaps of which something can be decided by chance.

use std::collections::HashMap;

use fastrand::Rng;

use super::planner::{Kind, OpenGap};
use crate::tune::planned::timeline::Gap;

/// Gaps of which something can be decided.
pub(super) struct Candidates {
    /// In the order of gaps.
    all: Vec<OpenGap>,
    /// For each the sum of the weights of all up to it: the larger a buffer, the more often it is chosen.
    weights: Vec<f64>,
    /// Those of each kind, in the order in which a step comes to them.
    alike: HashMap<Kind, Vec<usize>>,
}

impl Candidates {
    /// These, in the order of gaps.
    pub fn new(all: Vec<OpenGap>) -> Candidates {
        let mut sum = 0.0;
        let mut weights = Vec::with_capacity(all.len());
        let mut alike: HashMap<Kind, Vec<usize>> = HashMap::new();
        for (number, open) in all.iter().enumerate() {
            sum += (open.kind.bytes as f64).sqrt();
            weights.push(sum);
            alike.entry(open.kind).or_default().push(number);
        }
        alike.values_mut().for_each(|kind| kind.sort_by_key(|&number| all[number].gap.after));
        Candidates { all, weights, alike }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The one of a gap.
    pub fn of(&self, gap: Gap) -> Option<OpenGap> {
        let number = self.all.binary_search_by_key(&gap, |open| open.gap).ok()?;
        Some(self.all[number])
    }

    /// One by chance.
    pub fn any(&self, rng: &mut Rng) -> Option<OpenGap> {
        let at = rng.f64() * self.weights.last().copied().unwrap_or(0.0);
        self.all.get(self.weights.partition_point(|&sum| sum < at)).copied()
    }

    /// By chance all that are of the kind of one, or some neighbours among them and that one.
    pub fn alike(&self, one: OpenGap, rng: &mut Rng) -> impl Iterator<Item = Gap> {
        let kind = self.alike.get(&one.kind).map_or(&[][..], Vec::as_slice);
        let at = kind.iter().position(|&number| self.all[number].gap == one.gap).unwrap_or(0);
        let first = if rng.bool() { 0 } else { rng.usize(..=at) };
        let end = if rng.bool() { kind.len() } else { rng.usize(at + 1..=kind.len().max(at + 1)) };
        kind.get(first..end).unwrap_or_default().iter().map(|&number| self.all[number].gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::planned::timeline::{LifeId, Position};

    fn open(life: u32, after: u32, bytes: u64) -> OpenGap {
        let gap = Gap { life: LifeId::new(life), after: Position::new(after) };
        OpenGap { gap, can_be_made_again: false, kind: Kind { bytes, ops: [None; 3] } }
    }

    #[test]
    fn those_alike_are_neighbours_with_the_one_among_them() {
        let all = vec![open(0, 9, 64), open(1, 3, 64), open(2, 5, 128), open(3, 6, 64), open(4, 1, 64)];
        let candidates = Candidates::new(all.clone());
        let by_place = [all[4], all[1], all[3], all[0]].map(|one| one.gap);
        let mut lengths = [0; 5];
        let mut rng = Rng::with_seed(7);
        for _ in 0..200 {
            let alike: Vec<Gap> = candidates.alike(all[3], &mut rng).collect();
            assert!(alike.contains(&all[3].gap));
            assert!(by_place.windows(alike.len()).any(|window| window == alike), "{alike:?}");
            lengths[alike.len()] += 1;
        }
        assert!(lengths[1..].iter().all(|&times| times > 0), "{lengths:?}");
        assert_eq!(candidates.alike(all[2], &mut rng).collect::<Vec<_>>(), [all[2].gap]);
    }

    #[test]
    fn large_buffers_are_chosen_more_often() {
        let candidates = Candidates::new(vec![open(0, 1, 1), open(1, 1, 10_000)]);
        let mut rng = Rng::with_seed(7);
        let large = (0..1000).filter(|_| candidates.any(&mut rng).unwrap().kind.bytes > 1).count();
        assert!(large > 950, "{large}");
        assert!(Candidates::new(Vec::new()).any(&mut rng).is_none());
    }
}
