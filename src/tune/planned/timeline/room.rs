//! How much memory is taken at each place of a schedule.

use super::ids::{Id as _, Position};

/// Bytes by place, with sums over ranges in logarithmic time.
///
/// A tree over the places: each node holds what was added to its whole range, and the most that any of its places has by what was
/// added below.
#[derive(Debug, Clone)]
pub(in crate::tune) struct Room {
    places: usize,
    added: Vec<i64>,
    most: Vec<i64>,
}

impl Room {
    /// So many places, all empty.
    pub fn new(places: usize) -> Room {
        let leaves = places.max(1).next_power_of_two();
        Room { places, added: vec![0; leaves * 2], most: vec![0; leaves * 2] }
    }

    /// Takes bytes at all places of a range, or gives them back if they are negative. An empty range is none.
    pub fn add(&mut self, first: Position, end: Position, bytes: i64) {
        let (first, end) = (first.index(), end.index().min(self.places));
        if first < end {
            self.add_below(1, 0, self.added.len() / 2, first, end, bytes);
        }
    }

    /// The most that is taken at any place of a range; nothing of an empty one.
    pub fn most(&self, first: Position, end: Position) -> i64 {
        let (first, end) = (first.index(), end.index().min(self.places));
        if first >= end {
            return 0;
        }
        self.most_below(1, 0, self.added.len() / 2, first, end)
    }

    /// What is taken at a place.
    pub fn at(&self, place: Position) -> i64 {
        let mut node = self.added.len() / 2 + place.index();
        let mut bytes = 0;
        while node > 0 {
            bytes += self.added[node];
            node /= 2;
        }
        bytes
    }

    /// The last place of a range at which more than so much is taken.
    pub fn last_above(&self, first: Position, end: Position, bytes: i64) -> Option<Position> {
        let (first, end) = (first.index(), end.index().min(self.places));
        if first >= end {
            return None;
        }
        self.last_below(1, 0, self.added.len() / 2, first, end, bytes).map(Position::of)
    }

    /// Node `node` stands for the places from `start`, `size` many.
    fn add_below(&mut self, node: usize, start: usize, size: usize, first: usize, end: usize, bytes: i64) {
        if first <= start && start + size <= end {
            self.added[node] += bytes;
            self.most[node] += bytes;
            return;
        }
        let half = size / 2;
        if first < start + half {
            self.add_below(node * 2, start, half, first, end, bytes);
        }
        if end > start + half {
            self.add_below(node * 2 + 1, start + half, half, first, end, bytes);
        }
        self.most[node] = self.added[node] + self.most[node * 2].max(self.most[node * 2 + 1]);
    }

    fn most_below(&self, node: usize, start: usize, size: usize, first: usize, end: usize) -> i64 {
        if first <= start && start + size <= end {
            return self.most[node];
        }
        let half = size / 2;
        let left = (first < start + half).then(|| self.most_below(node * 2, start, half, first, end));
        let right =
            (end > start + half).then(|| self.most_below(node * 2 + 1, start + half, half, first, end));
        self.added[node] + left.into_iter().chain(right).max().unwrap_or(0)
    }

    fn last_below(
        &self,
        node: usize,
        start: usize,
        size: usize,
        first: usize,
        end: usize,
        bytes: i64,
    ) -> Option<usize> {
        if end <= start || start + size <= first || self.most[node] <= bytes {
            return None;
        }
        if size == 1 {
            return Some(start);
        }
        let (half, bytes) = (size / 2, bytes - self.added[node]);
        self.last_below(node * 2 + 1, start + half, half, first, end, bytes)
            .or_else(|| self.last_below(node * 2, start, half, first, end, bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The tree says what a plain array says.
        #[test]
        fn sums_are_those_of_an_array(
            places in 1usize..70,
            adds in prop::collection::vec((0u32..70, 0u32..70, -50i64..50), 0..40),
            (first, end, limit) in (0u32..70, 0u32..70, -100i64..100),
        ) {
            let (mut room, mut array) = (Room::new(places), vec![0i64; places]);
            for (first, end, bytes) in adds {
                room.add(Position::new(first), Position::new(end), bytes);
                let range = first as usize..(end as usize).min(places);
                array.iter_mut().enumerate().filter(|(place, _)| range.contains(place)).for_each(|(_, at)| *at += bytes);
            }
            for (place, &bytes) in array.iter().enumerate() {
                prop_assert_eq!(room.at(Position::of(place)), bytes);
            }
            let range = || array.iter().enumerate().filter(|(place, _)| (first as usize..end as usize).contains(place));
            let (first_place, end_place) = (Position::new(first), Position::new(end));
            prop_assert_eq!(room.most(first_place, end_place), range().map(|(_, &bytes)| bytes).max().unwrap_or(0));
            let last = range().filter(|(_, bytes)| **bytes > limit).map(|(place, _)| Position::of(place)).next_back();
            prop_assert_eq!(room.last_above(first_place, end_place, limit), last);
        }
    }
}
