//! Rows of different lengths in one flat array.

use std::ops::Range;

/// `rows[i]` is a slice; all slices lie one after the other in one array.
///
/// What a map from index to list would hold, in two allocations however many rows there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows<T> {
    /// Where each row begins, and at last where the last one ends.
    starts: Vec<u32>,
    values: Vec<T>,
}

impl<T: Copy> Rows<T> {
    /// Groups values by row, in the order in which they come within each row.
    ///
    /// `entries` is walked twice, once to count.
    pub fn group<I>(rows: usize, entries: impl Fn() -> I, filler: T) -> Rows<T>
    where
        I: Iterator<Item = (usize, T)>,
    {
        let mut starts = vec![0u32; rows + 1];
        for (row, _) in entries() {
            starts[row + 1] += 1;
        }
        for row in 0..rows {
            starts[row + 1] += starts[row];
        }
        let mut next = starts.clone();
        let mut values = vec![filler; starts[rows] as usize];
        for (row, value) in entries() {
            values[next[row] as usize] = value;
            next[row] += 1;
        }
        Rows { starts, values }
    }

    /// No rows yet, with room for some.
    pub fn with_capacity(rows: usize, values: usize) -> Rows<T> {
        let mut starts = Vec::with_capacity(rows + 1);
        starts.push(0);
        Rows { starts, values: Vec::with_capacity(values) }
    }

    /// Appends a value to the row that is being filled.
    pub fn push(&mut self, value: T) {
        self.values.push(value);
    }

    /// Ends the row that is being filled.
    pub fn end_row(&mut self) {
        self.starts.push(self.values.len() as u32);
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One row.
    pub fn row(&self, row: usize) -> &[T] {
        &self.values[self.range(row)]
    }

    /// One row, to be changed.
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        let range = self.range(row);
        &mut self.values[range]
    }

    /// Where a row lies among all values.
    pub fn range(&self, row: usize) -> Range<usize> {
        self.starts[row] as usize..self.starts[row + 1] as usize
    }

    /// All values, row after row.
    pub fn values(&self) -> &[T] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_the_order_within_a_row() {
        let entries = [(2, 'a'), (0, 'b'), (2, 'c')];
        let rows = Rows::group(4, || entries.iter().copied(), ' ');
        assert_eq!(rows.len(), 4);
        assert_eq!(rows.row(0), ['b']);
        assert!(rows.row(1).is_empty());
        assert_eq!(rows.row(2), ['a', 'c']);
        assert_eq!(rows.range(3), 3..3);
    }
}
