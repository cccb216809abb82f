//! The search for the least memory in which something runs, whether a simulation or TensorFlow says if it does.

/// Where to begin, as a part over the peak: pools need more than what is in use.
const FIRST_PART: u64 = 4;
/// By what part more is tried where that is not enough.
const UP_PART: u64 = 8;
/// By what part less is tried, again and again, until it is too little.
const DOWN_PART: u64 = 64;

/// What a search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeastMemory {
    /// The least memory in bytes that will do, and so did all larger ones that were tried.
    pub enough_bytes: u64,
    /// A smaller one that will not; zero if there is none.
    pub too_little_bytes: u64,
}

/// Where a search begins if nothing better is known: somewhat above what is in use if memory has no end.
pub fn first_guess(peak_bytes: u64) -> u64 {
    peak_bytes.saturating_add(peak_bytes / FIRST_PART)
}

/// Searches from `first_bytes` down, or if that will not do from above it, by small steps for where memory becomes too little; then
/// between the last two until they are as near as `nearness` says of the upper one. None if not even `most_bytes` will do.
///
/// What fits is not monotone in the memory: with a little less, another free chunk of the pool is the best fit for some tensor, and
/// everything comes to lie elsewhere. `mnist_cnn_bN_sgd` with a batch of 256 trains in 85 to 89 MiB, not in 90 to 92, and again from
/// 93 on, in TensorFlow as in the simulation. Halving would find any of these bounds, by chance; this finds the first below where it
/// begins, unless what fails is narrower than a step.
///
/// # Errors
///
/// Those of `is_enough`.
pub fn least_memory<E>(
    first_bytes: u64,
    most_bytes: u64,
    nearness: impl Fn(u64) -> u64,
    mut is_enough: impl FnMut(u64) -> Result<bool, E>,
) -> Result<Option<LeastMemory>, E> {
    let larger_by = |bytes: u64, part: u64| bytes.saturating_add((bytes / part).max(nearness(bytes)).max(1));
    let mut enough = first_bytes.min(most_bytes);
    let mut too_little = 0;
    while !is_enough(enough)? {
        if enough == most_bytes {
            return Ok(None);
        }
        too_little = enough;
        enough = larger_by(enough, UP_PART).min(most_bytes);
    }
    loop {
        let less = enough.saturating_sub((enough / DOWN_PART).max(nearness(enough)).max(1));
        if less <= too_little {
            break;
        }
        if !is_enough(less)? {
            too_little = less;
            break;
        }
        enough = less;
    }
    while enough - too_little > nearness(enough).max(1) {
        let middle = too_little + (enough - too_little) / 2;
        if is_enough(middle)? { enough = middle } else { too_little = middle }
    }
    Ok(Some(LeastMemory { enough_bytes: enough, too_little_bytes: too_little }))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// What is found, to a thousandth, if some bytes are too little.
    fn search(first: u64, most: u64, is_too_little: impl Fn(u64) -> bool) -> Option<LeastMemory> {
        let Ok::<_, Infallible>(found) =
            least_memory(first, most, |bytes| bytes / 1000, |bytes| Ok(!is_too_little(bytes)));
        found
    }

    fn is_near(found: Option<LeastMemory>, bytes: u64) -> bool {
        found.is_some_and(|found| found.enough_bytes.abs_diff(bytes) <= bytes / 1000)
    }

    #[test]
    fn the_first_bound_below_the_beginning() {
        let with_a_gap = |bytes| bytes < 84 * MIB || (90 * MIB..93 * MIB).contains(&bytes);
        assert!(is_near(search(100 * MIB, 1 << 50, with_a_gap), 93 * MIB));
        assert!(is_near(search(88 * MIB, 1 << 50, with_a_gap), 84 * MIB));
    }

    #[test]
    fn more_than_expected() {
        let much = |bytes| bytes < 300 * MIB;
        assert!(is_near(search(10 * MIB, 1 << 50, much), 300 * MIB));
        assert_eq!(search(10 * MIB, 200 * MIB, much), None);
    }

    #[test]
    fn nothing_is_too_little() {
        let found = search(10 * MIB, 1 << 50, |_| false).unwrap();
        assert_eq!((found.enough_bytes, found.too_little_bytes), (1, 0));
        assert_eq!(search(0, 0, |_| false).unwrap().enough_bytes, 0);
    }

    proptest! {
        /// Wherever it stops, one is enough, the other is not, and they are near.
        #[test]
        fn between_enough_and_too_little(
            first in 0u64..1 << 40,
            bound in 1u64..1 << 40,
            gap in 0u64..1 << 40,
            width in 0u64..1 << 36,
        ) {
            let is_too_little = |bytes| bytes < bound || (gap..gap + width).contains(&bytes);
            let found = search(first, 1 << 50, is_too_little).unwrap();
            prop_assert!(!is_too_little(found.enough_bytes) && is_too_little(found.too_little_bytes));
            prop_assert!(found.enough_bytes - found.too_little_bytes <= (found.enough_bytes / 1000).max(1));
        }
    }
}
