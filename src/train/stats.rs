//! Figures about many steps.

use serde::Serialize;

/// The spread of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// A tenth is below.
    pub p10: f64,
    /// Half is below.
    pub median: f64,
    /// Nine tenths are below.
    pub p90: f64,
    /// All but a hundredth is below.
    pub p99: f64,
}

impl Percentiles {
    /// The spread of some values; none if there is none.
    pub fn of(values: &[f64]) -> Option<Percentiles> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |fraction: f64| {
            let position = fraction * last as f64;
            let (low, rest) = (position.floor() as usize, position.fract());
            sorted[low] + rest * (sorted[(low + 1).min(last)] - sorted[low])
        };
        Some(Percentiles { p10: at(0.1), median: at(0.5), p90: at(0.9), p99: at(0.99) })
    }
}

/// Times at which something was busy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Intervals(Vec<(i64, i64)>);

impl Intervals {
    /// The union of some intervals.
    pub fn union(intervals: impl IntoIterator<Item = (i64, i64)>) -> Intervals {
        let mut sorted: Vec<_> = intervals.into_iter().filter(|(start, end)| end > start).collect();
        sorted.sort_unstable();
        let mut union: Vec<(i64, i64)> = Vec::new();
        for (start, end) in sorted {
            match union.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => union.push((start, end)),
            }
        }
        Intervals(union)
    }

    /// How long all of them are together.
    pub fn total(&self) -> i64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// When either was busy.
    pub fn or(&self, other: &Intervals) -> Intervals {
        Intervals::union(self.0.iter().chain(&other.0).copied())
    }

    /// How long both were busy.
    pub fn overlap(&self, other: &Intervals) -> i64 {
        let (mut mine, mut theirs, mut total) = (0, 0, 0);
        while let (Some(a), Some(b)) = (self.0.get(mine), other.0.get(theirs)) {
            total += (a.1.min(b.1) - a.0.max(b.0)).max(0);
            if a.1 < b.1 { mine += 1 } else { theirs += 1 }
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_values() {
        let spread = Percentiles::of(&[4.0, 1.0, 3.0, 2.0, 5.0]).unwrap();
        assert_eq!((spread.p10, spread.median, spread.p90), (1.4, 3.0, 4.6));
        assert_eq!(Percentiles::of(&[]), None);
        assert_eq!(Percentiles::of(&[7.0]).unwrap().p99, 7.0);
    }

    #[test]
    fn overlap_is_what_both_share() {
        let a = Intervals::union([(0, 10), (5, 12), (20, 30)]);
        let b = Intervals::union([(8, 22), (29, 40)]);
        assert_eq!((a.total(), b.total(), a.overlap(&b), b.overlap(&a)), (22, 25, 7, 7));
        assert_eq!(a.or(&b), Intervals::union([(0, 40)]));
    }
}
