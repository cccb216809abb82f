//! The order of a sweep's points: without LMS until memory runs out, from there in other ways, each until it does not fit either.

use std::collections::VecDeque;

use anyhow::bail;

use super::rows::{Mode, Row};

/// Goes through the sizes; `others` are the ways of training from where memory runs out. Rows that were kept from before stand for their points; `answer` gives the others.
///
/// A point that crashes says nothing about memory, so the sweep goes on behind it.
///
/// # Errors
///
/// If `answer` fails, or if what was kept is not what these sizes begin with.
pub fn run(
    sizes: impl IntoIterator<Item = u64>,
    others: &[Mode],
    kept: Vec<Row>,
    mut answer: impl FnMut(u64, Mode) -> anyhow::Result<Row>,
) -> anyhow::Result<Vec<Row>> {
    let mut kept = VecDeque::from(kept);
    let mut rows = Vec::new();
    let mut modes = vec![Mode::WithoutLms];
    for size in sizes {
        let mut next = 0;
        while let Some(&mode) = modes.get(next) {
            let row = match kept.pop_front() {
                Some(row) if (row.size, row.mode) == (size, mode) => row,
                Some(row) => bail!(
                    "the rows kept of this sweep have {} {} where {size} {mode} comes next",
                    row.size,
                    row.mode
                ),
                None => answer(size, mode)?,
            };
            let lacks_memory = row.ending.lacks_memory();
            rows.push(row);
            if !lacks_memory {
                next += 1;
                continue;
            }
            modes.remove(next);
            if mode == Mode::WithoutLms {
                modes.extend(others);
            }
        }
        if modes.is_empty() {
            break;
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::super::rows::{Ending, Figures, Outcome, Source};
    use super::*;

    const BOTH: [Mode; 2] = [Mode::ByGrappler, Mode::WithLms];

    /// Trains below 3 as it is, below 4 by Grappler, and below 5 with LMS, but for what crashes.
    fn row(size: u64, mode: Mode, crashes: u64) -> Row {
        let limit = match mode {
            Mode::WithoutLms => 3,
            Mode::ByGrappler => 4,
            Mode::WithLms => 5,
        };
        let ending = match size {
            size if size == crashes => Ending::other(Outcome::Crashed, "signal"),
            size if size < limit => Ending::trained(Figures::default()),
            _ => Ending::other(Outcome::OutOfMemory, "no more"),
        };
        Row { size, mode, source: Source::Measured, ending }
    }

    fn order(rows: &[Row]) -> Vec<(u64, Mode, Outcome)> {
        rows.iter().map(|row| (row.size, row.mode, row.ending.outcome)).collect()
    }

    #[test]
    fn lms_begins_where_memory_runs_out_and_a_crash_ends_nothing() {
        let swept = |crashes| {
            run(1..=9, &[Mode::WithLms], Vec::new(), |size, mode| Ok(row(size, mode, crashes))).unwrap()
        };
        use Mode::{WithLms, WithoutLms};
        use Outcome::{Crashed, OutOfMemory, Trained};
        let expected = [
            (1, WithoutLms, Trained),
            (2, WithoutLms, Trained),
            (3, WithoutLms, OutOfMemory),
            (3, WithLms, Trained),
            (4, WithLms, Trained),
            (5, WithLms, OutOfMemory),
        ];
        assert_eq!(order(&swept(0)), expected);
        for (crashes, at) in [(2, 1), (4, 4)] {
            let mut expected = expected;
            expected[at].2 = Crashed;
            assert_eq!(order(&swept(crashes)), expected);
        }
    }

    #[test]
    fn each_way_goes_on_until_it_does_not_fit() {
        let rows = run(1..=9, &BOTH, Vec::new(), |size, mode| Ok(row(size, mode, 0))).unwrap();
        use Mode::{ByGrappler, WithLms, WithoutLms};
        use Outcome::{OutOfMemory, Trained};
        let expected = [
            (1, WithoutLms, Trained),
            (2, WithoutLms, Trained),
            (3, WithoutLms, OutOfMemory),
            (3, ByGrappler, Trained),
            (3, WithLms, Trained),
            (4, ByGrappler, OutOfMemory),
            (4, WithLms, Trained),
            (5, WithLms, OutOfMemory),
        ];
        assert_eq!(order(&rows), expected);
    }

    #[test]
    fn what_was_kept_is_not_answered_again() {
        let whole = run(1..=9, &BOTH, Vec::new(), |size, mode| Ok(row(size, mode, 0))).unwrap();
        for kept in 0..=whole.len() {
            let mut answered = 0;
            let again = run(1..=9, &BOTH, whole[..kept].to_vec(), |size, mode| {
                answered += 1;
                Ok(row(size, mode, 0))
            });
            assert_eq!(again.unwrap(), whole);
            assert_eq!(answered, whole.len() - kept);
        }
        let others = whole[1..].to_vec();
        assert!(run(1..=9, &BOTH, others, |size, mode| Ok(row(size, mode, 0))).is_err());
    }
}
