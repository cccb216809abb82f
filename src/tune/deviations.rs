//! What may go otherwise than predicted, and a plan has to endure: with each plan, with one that was picked among thousands, and with the one
//! that was chosen at the end.

use crate::simulate::Scenario;

/// How much slower than predicted copies may turn out, with each one by chance again slower or faster and ops in another order, and in
/// how much memory, and still a plan must fit.
pub(super) fn deviations(gpus: usize) -> Vec<Scenario> {
    let copies = |slowness: f64, seed: u64| by_chance(seed, gpus).with_copies(slowness);
    // With more memory everything comes to lie elsewhere, and not always better.
    let memory = |rest_part: f64| Scenario { rest_part, ..Scenario::PREDICTED };
    let both = |rest_part: f64, slowness: f64, seed: u64| Scenario { rest_part, ..copies(slowness, seed) };
    let threads = |seed: u64| with_two_threads(seed, gpus);
    vec![
        copies(4.0, 0),
        copies(2.0, 1),
        copies(1.0, 2),
        Scenario::PREDICTED.with_copies(0.5),
        // One that was picked among many because it fits may do so by luck.
        memory(1.0),
        both(1.0, 4.0, 12),
        copies(4.0, 4),
        copies(1.0, 5),
        threads(20),
        memory(0.5),
        both(1.0, 2.0, 13),
        threads(21),
        copies(2.0, 6),
        copies(4.0, 7),
        threads(22),
        memory(0.75),
        both(1.0, 1.0, 14),
        threads(23),
        copies(1.0, 8),
        threads(24),
        copies(2.0, 9),
        memory(0.25),
        threads(25),
        both(0.5, 4.0, 15),
        threads(26),
        copies(4.0, 10),
        copies(1.0, 11),
        threads(27),
    ]
}

/// What a plan that was picked among thousands is tried with besides, each with the machine as it is and with a host that never runs ahead
/// of its GPUs; and with two threads of the host. Those of [`deviations`] decided which were picked. Where ops take much longer than
/// predicted, copies take hardly any time beside them.
pub(super) fn further_deviations(gpus: usize) -> impl Iterator<Item = Scenario> {
    let copies = |slowness: f64| Scenario::PREDICTED.with_copies(slowness);
    let uneven = move |slowness: f64, seed: u64| by_chance(seed, gpus).with_copies(slowness);
    let all = [
        copies(1.0),
        copies(0.05),
        copies(4.0),
        copies(0.25),
        uneven(1.0, 104),
        uneven(0.05, 105),
        uneven(4.0, 106),
        uneven(0.25, 107),
    ];
    let hosts = [false, true].into_iter();
    let with_one = hosts.flat_map(move |slow_host| {
        all.clone().into_iter().map(move |deviation| Scenario { slow_host, ..deviation })
    });
    with_one.chain((120..128).map(move |seed| with_two_threads(seed, gpus)))
}

/// With how many chances the plan that was chosen is tried at most.
const MOST_CHOSEN: usize = 192;

/// How many times as long as predicted copies take where the host has two threads. On a busy host, ops and what lies between them take many
/// times as long as predicted, and copies hardly any time beside them.
const SLOWNESSES: [f64; 6] = [1.0, 0.25, 2.0, 0.05, 4.0, 0.5];

/// What the plan that was chosen at the end is tried with, one after the other: every fourth with one thread of the host, of which plans were
/// tried with more than with two.
pub(super) fn chances_of_the_chosen(gpus: usize) -> impl Iterator<Item = Scenario> {
    (1000..1000 + MOST_CHOSEN as u64).map(move |seed| match seed % 4 {
        3 => by_chance(seed, gpus),
        _ => with_two_threads(seed, gpus),
    })
}

/// A host with two threads, which nobody predicts: they take turns by chance. So a plan may take more memory for it than it may count on, all
/// of it or half of the rest. Where it may count on all, nothing is left for that, and it is not tried.
///
/// With one thread, a plan for a `DeepLabv3+` in 288 MiB fits with all deviations, and trained in none of ten processes; with two and all of
/// the memory it does not fit. One for an `EfficientNet` that trained in half of the processes does not fit with half of the rest.
fn with_two_threads(seed: u64, gpus: usize) -> Scenario {
    let rest_part = if seed.is_multiple_of(2) { 1.0 } else { 0.5 };
    Scenario { threads: 2, rest_part, ..by_chance(seed, gpus).with_copies(slowness_of(seed)) }
}

/// One of the slownesses. Each comes with either parity of the seed.
fn slowness_of(seed: u64) -> f64 {
    SLOWNESSES[(seed / 2 % SLOWNESSES.len() as u64) as usize]
}

/// What part of the memory a plan must leave over where chance plays, if it may count on all of it: of all chances only a few are tried.
/// Without it, one of fifteen further chances found plans for a ResNet50 out of memory.
const SPARE_PART: f64 = 0.01;

/// Where chance plays, some memory is left over.
fn by_chance(seed: u64, gpus: usize) -> Scenario {
    Scenario { missing_part: SPARE_PART, ..Scenario::by_chance(seed, gpus) }
}
