//! Fewer points that look the same.

/// The points to draw of a curve of `(x, y)` in the order of x, on a width of `columns` pixels from 0 to `x_end`.
///
/// Of each column of pixels the first, the lowest, the highest and the last point remain: the line through them covers
/// the same pixels, and no peak is lost.
pub(super) fn kept_points(points: &[(f64, f64)], x_end: f64, columns: u32) -> Vec<usize> {
    let mut kept = Vec::new();
    let mut start = 0;
    for column in points.chunk_by(|a, b| column_of(a.0, x_end, columns) == column_of(b.0, x_end, columns)) {
        let of_column = start..start + column.len();
        let lowest = of_column.clone().min_by(|&a, &b| points[a].1.total_cmp(&points[b].1));
        // Of equal highest points the first, as whoever marks a peak would.
        let highest = of_column.clone().rev().max_by(|&a, &b| points[a].1.total_cmp(&points[b].1));
        let mut chosen: Vec<usize> =
            [Some(start), lowest, highest, Some(of_column.end - 1)].into_iter().flatten().collect();
        chosen.sort_unstable();
        chosen.dedup();
        kept.append(&mut chosen);
        start = of_column.end;
    }
    kept
}

/// The column of pixels that a value lies in.
pub(super) fn column_of(x: f64, x_end: f64, columns: u32) -> u32 {
    // A float becomes the nearest integer that there is.
    (x / x_end * f64::from(columns)).round() as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_column_keeps_its_highest_lowest_and_last(
            steps in prop::collection::vec((0.0..0.01_f64, 0.0..1e12_f64), 1..3000),
            columns in 1_u32..900,
        ) {
            let mut x = 0.0;
            let points: Vec<(f64, f64)> = steps.iter().map(|&(step, y)| { x += step; (x, y) }).collect();
            let kept = kept_points(&points, x.max(1e-9), columns);
            prop_assert!(kept.is_sorted_by(|a, b| a < b));
            prop_assert!(kept.len() <= 4 * (columns as usize + 1));
            let by_column = |indices: &mut dyn Iterator<Item = usize>| {
                let mut columns_of: BTreeMap<u32, (f64, f64, f64)> = BTreeMap::new();
                for index in indices {
                    let (x_here, y) = points[index];
                    let entry = columns_of.entry(column_of(x_here, x.max(1e-9), columns)).or_insert((y, y, y));
                    *entry = (entry.0.min(y), entry.1.max(y), y);
                }
                columns_of
            };
            prop_assert_eq!(by_column(&mut kept.iter().copied()), by_column(&mut (0..points.len())));
        }
    }

    #[test]
    fn nothing_of_nothing() {
        assert!(kept_points(&[], 1.0, 100).is_empty());
        assert_eq!(kept_points(&[(0.0, 5.0)], 1.0, 100), [0]);
    }
}
