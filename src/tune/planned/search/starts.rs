//! What plans are made with: first the combinations that serve most graphs, then others, without end.

use serde::{Deserialize, Serialize};

use crate::tune::planned::decide::{Chains, Leaving};

/// What a plan is made with; found by trying.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(in crate::tune::planned) struct Parameters {
    /// Which order.
    pub schedule: Schedule,
    /// The part of the budget that is planned with; the rest is left to the allocator and to tensors that return early.
    pub fill: f64,
    /// The part up to which tensors may return early.
    pub early_fill: f64,
    /// An op runs again if that takes at most so much of the time that copying its output takes.
    pub recompute_below: f64,
    /// What runs again with it.
    pub chains: Chains,
    /// What leaves first.
    pub leaving: Leaving,
}

/// An order of the step's ops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::tune::planned) enum Schedule {
    /// The runtime's own.
    Natural,
    /// One with a low peak.
    Frugal,
}

/// The parts of the budget that are tried, and the parts of the rest for what returns early. Plans for little of it are found soon, and
/// are those that get most out of being made better.
const FILLS: [(f64, f64); 9] = [
    (0.72, 0.25),
    (0.62, 0.0),
    (0.86, 0.25),
    (0.93, 0.25),
    (0.5, 0.0),
    (1.0, 0.25),
    (0.79, 0.25),
    (0.5, 0.25),
    (0.62, 0.25),
];

/// The rates at which recomputing is taken for copying that are tried.
const RECOMPUTE_BELOW: [f64; 4] = [0.3, 0.0, 0.1, 1.0];

/// The least part of the budget that is tried further on.
const LEAST_FILL: f64 = 0.45;

/// The least and the greatest rate that are tried further on: second runs may be worth more than the copy itself, where the link has more to
/// do than it can.
const LEAST_BELOW: f64 = 0.05;
const GREATEST_BELOW: f64 = 3.0;

/// The parts of the rest for what returns early that are tried further on.
const EARLY: [f64; 4] = [0.25, 0.0, 0.5, 1.0];

/// How many combinations further on a stage has for itself.
const STAGE: u32 = 1 << 16;

/// What plans differ in most: each way gets as much effort as every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tune::planned) struct Way {
    pub chains: Chains,
    pub leaving: Leaving,
}

/// The ways that are tried first.
pub(in crate::tune::planned) const FURTHEST: [Way; 3] = [
    Way { chains: Chains::Short, leaving: Leaving::Furthest },
    Way { chains: Chains::Long, leaving: Leaving::Furthest },
    Way { chains: Chains::Longest, leaving: Leaving::Furthest },
];

/// The ways that are tried with more effort. In short chains what they read is copied, so nothing comes of what is cheap.
pub(in crate::tune::planned) const CHEAPEST: [Way; 2] = [
    Way { chains: Chains::Long, leaving: Leaving::Cheapest },
    Way { chains: Chains::Longest, leaving: Leaving::Cheapest },
];

impl Parameters {
    /// The way that they are of.
    pub fn way(self) -> Way {
        Way { chains: self.chains, leaving: self.leaving }
    }
}

/// The combinations that serve most graphs, of one way.
pub(in crate::tune::planned) fn grid(
    Way { chains, leaving }: Way,
    recompute: bool,
) -> impl Iterator<Item = Parameters> {
    let is_tried = move |below: &f64| match *below > 0.0 {
        true => recompute,
        // Without second runs there are no chains of them.
        false => chains == Chains::Short,
    };
    FILLS.into_iter().flat_map(move |(fill, early)| {
        [Schedule::Frugal, Schedule::Natural].into_iter().flat_map(move |schedule| {
            let belows = RECOMPUTE_BELOW.into_iter().filter(is_tried);
            let early_fill = early_fill(fill, early);
            belows.map(move |recompute_below| Parameters {
                schedule,
                fill,
                early_fill,
                recompute_below,
                chains,
                leaving,
            })
        })
    })
}

/// Other combinations, spread evenly over what there is, none of which another stage has.
pub(in crate::tune::planned) fn further(
    stage: u32,
    Way { chains, leaving }: Way,
    recompute: bool,
) -> impl Iterator<Item = Parameters> {
    (stage * STAGE..(stage + 1) * STAGE).map(move |number| {
        let [fill, below] = spread(number);
        let recompute_below = LEAST_BELOW * (GREATEST_BELOW / LEAST_BELOW).powf(below);
        let fill = LEAST_FILL + (1.0 - LEAST_FILL) * fill;
        Parameters {
            schedule: if number % 2 == 0 { Schedule::Frugal } else { Schedule::Natural },
            fill,
            early_fill: early_fill(fill, EARLY[(number / 2 % 4) as usize]),
            recompute_below: if recompute { recompute_below } else { 0.0 },
            chains,
            leaving,
        }
    })
}

/// Up to which part of the budget tensors may return early that may take a part of what is left to the allocator.
fn early_fill(fill: f64, part: f64) -> f64 {
    fill + part * (1.0 - fill)
}

/// The point of this number in a sequence that fills the square evenly: multiples of the powers of the plastic number's inverse, of which
/// only what is behind the point counts (Roberts, 2018).
fn spread(number: u32) -> [f64; 2] {
    const INVERSE: f64 = 0.754_877_666_246_692_7;
    [INVERSE, INVERSE * INVERSE].map(|step| (f64::from(number) * step + 0.5).fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Way = FURTHEST[1];

    #[test]
    fn further_on_all_of_what_there_is_comes_up() {
        let first: Vec<Parameters> = further(1, LONG, true).take(64).collect();
        assert!(first.iter().all(|one| (LEAST_FILL..=1.0).contains(&one.fill)));
        assert!(first.iter().all(|one| (LEAST_BELOW..=GREATEST_BELOW).contains(&one.recompute_below)));
        for eighth in 0..8 {
            let part = LEAST_FILL + (1.0 - LEAST_FILL) * f64::from(eighth) / 8.0;
            let end = part + (1.0 - LEAST_FILL) / 8.0;
            assert!(first.iter().any(|one| (part..end).contains(&one.fill)), "{part}");
        }
        assert_ne!(first[0], further(2, LONG, true).next().unwrap());
        assert!(further(1, FURTHEST[0], false).take(8).all(|one| one.recompute_below == 0.0));
    }
}
