//! What comes to nothing leaves nothing behind.

use fastrand::Rng;

use super::*;
use crate::plan::{Draft, OrderReason};
use crate::simulate::Program;
use crate::tune::planned::decide::draft;
use crate::tune::planned::testing::with_outline;
use crate::tune::planned::timeline::frugal;

/// Nothing leaves yet in a step of a small network, where buffers of so many bytes are small.
fn with_residence(file: &str, small_bytes: u64, check: impl FnOnce(Residence)) {
    with_outline(file, 1e-3, |outline| {
        let program = Program::new(outline, &Draft::default());
        let mut course = Course::new(outline, &program, frugal(&program), 1e-6);
        course.small_bytes = small_bytes;
        let (holds, updates) = (Holds::new(&course, 0), Updates::new(&course));
        check(Residence::new(&course, &holds, &updates));
    });
}

/// The gaps in which buffers can leave.
fn gaps(residence: &Residence) -> Vec<Gap> {
    let uses = |(life, of): (LifeId, &Life)| {
        let places = std::iter::once(of.made).chain(of.uses.iter().map(|read| read.place));
        places.map(|after| Gap { life, after }).collect::<Vec<_>>()
    };
    let all = residence.lives.numbered().flat_map(uses);
    all.filter(|&gap| residence.possible_absence(gap).is_some()).collect()
}

/// Changes something or other.
fn change(residence: &mut Residence, gaps: &[Gap], rng: &mut Rng) {
    let gap = gaps[rng.usize(..gaps.len())];
    let place = Position::new(rng.u32(..residence.course.end().number()));
    let Some(absence) = residence.absence(gap).copied() else {
        let possible = residence.possible_absence(gap);
        possible.into_iter().for_each(|absence| residence.leave(gap.life, absence));
        return;
    };
    let node = NodeId(rng.u32(..8));
    let reads = vec![RunInput { tensor: absence.tensor, from: None }];
    match rng.u32(..9) {
        0 => residence.stay(gap),
        1 => residence.be_gone_at(gap, place),
        2 => residence.fix(gap),
        3 => residence.return_from(gap, absence.trigger.minus(rng.u32(..3))),
        4 => residence.return_from(gap, absence.trigger.next()),
        5 => residence.return_for(gap, gap.after.next(), absence.until),
        6 => {
            let run = SecondRun { node, tensor: absence.tensor, place, trigger: place, reads };
            let run = residence.run_again(run);
            residence.make_again(gap, run);
        }
        7 => residence.take_between(place, rng.i64(0..1000)),
        _ => {
            let order = NodeOrder { before: node, after: node, reason: OrderReason::RefVariable };
            residence.order([order]);
        }
    }
    residence.take(0, (place, place.plus(5)), rng.i64(0..1000));
}

/// The mean of a layer norm is read again by itself, and as what stops its gradient.
#[test]
fn each_name_of_a_buffer_returns_by_a_copy_of_its_own() {
    let of_several = |residence: &Residence| {
        let absences = gaps(residence).into_iter().map(|gap| (gap, residence.possible_absence(gap).unwrap()));
        absences.filter(|(_, absence)| absence.has_other_names).collect::<Vec<_>>()
    };
    with_residence("gpt_32_b4", 1 << 20, |mut residence| {
        let (gap, absence) = of_several(&residence)[0];
        residence.leave(gap.life, absence);
        let names: Vec<u32> = residence.copies().map(|(_, _, name)| name).collect();
        assert_eq!(names.len(), 2);
        let graph = residence.course.outline.analysis().graph;
        let swaps = draft(&residence).swaps;
        for (swap, &name) in swaps.iter().zip(&names) {
            assert_eq!(Some(swap.tensor), residence.course.tensor_ids[name as usize]);
            let consumers = &swap.uses[0].consumers;
            assert!(!consumers.is_empty());
            assert!(consumers.iter().all(|&node| graph.data_inputs(node).contains(&swap.tensor)));
        }
        assert_eq!(swaps.len(), 2);
    });
    // Two copies take more than the buffer did, and only so much is counted.
    with_residence("gpt_32_b4", 0, |residence| assert!(of_several(&residence).is_empty()));
}

/// All that changes, in words.
fn state(residence: &Residence) -> String {
    let Residence { lives, absences, rooms, second_runs, orders, between, attempts, changes, .. } = residence;
    format!("{lives:?} {absences:?} {rooms:?} {second_runs:?} {orders:?} {between:?} {attempts} {changes:?}")
}

/// What comes to nothing leaves nothing behind, whatever was changed, and what was done in it for good is undone with it.
#[test]
fn attempts_that_fail_change_nothing() {
    with_residence("mnist_cnn", 0, |mut residence| {
        let gaps = gaps(&residence);
        assert!(gaps.len() > 10, "{gaps:?}");
        let mut rng = Rng::with_seed(7);
        for _ in 0..300 {
            change(&mut residence, &gaps, &mut rng);
            let before = state(&residence);
            let failed: Option<()> = residence.attempt(|residence| {
                (0..rng.usize(..10)).for_each(|_| change(residence, &gaps, &mut rng));
                let inner = residence.attempt(|residence| {
                    (0..rng.usize(..5)).for_each(|_| change(residence, &gaps, &mut rng));
                    rng.bool().then_some(())
                });
                (0..rng.usize(..5)).for_each(|_| change(residence, &gaps, &mut rng));
                inner.filter(|()| false)
            });
            assert!(failed.is_none());
            assert!(state(&residence) == before, "{}\n{before}", state(&residence));
        }
        let done = residence.attempt(|residence| {
            change(residence, &gaps, &mut rng);
            Some(())
        });
        assert!(done.is_some() && residence.changes.is_empty());
    });
}

/// An op that reads what a second run makes waits for all that this run reads: for the copies, and for the other runs.
#[test]
fn who_reads_what_is_made_again_waits_for_what_it_is_made_of() {
    with_residence("mnist_cnn", 0, |mut residence| {
        // Four buffers that are absent, each made of the one before.
        let gaps = gaps(&residence);
        let mut chosen: Vec<(Gap, Absence)> = Vec::new();
        for gap in gaps {
            let absence = residence.possible_absence(gap).unwrap();
            let is_later = chosen
                .last()
                .is_none_or(|(last, before)| gap.life != last.life && absence.until > before.until);
            if is_later && chosen.len() < 4 {
                residence.leave(gap.life, absence);
                chosen.push((gap, absence));
            }
        }
        let [copied, other, third, last] = *chosen else { panic!("{chosen:?}") };
        let read = |tensor, from| vec![RunInput { tensor, from }];
        let run = |(gap, absence): (Gap, Absence), reads| {
            let node = NodeId(0);
            (
                gap,
                SecondRun {
                    node,
                    tensor: absence.tensor,
                    place: absence.until,
                    trigger: absence.trigger,
                    reads,
                },
            )
        };
        let (gap, of_copy) = run(other, read(copied.1.tensor, None));
        let (gap_of_third, of_run) = run(third, read(other.1.tensor, None));
        let (gap_of_last, of_chain) = run(last, read(third.1.tensor, None));
        let of_copy = residence.run_again(of_copy);
        residence.make_again(gap, of_copy);
        let of_run = residence.run_again(of_run);
        residence.make_again(gap_of_third, of_run);
        let on_the_way = residence.run_again(of_chain.clone());
        let end =
            residence.run_again(SecondRun { reads: read(of_chain.tensor, Some(on_the_way)), ..of_chain });
        residence.make_again(gap_of_last, end);

        let waiting = residence.waiting(copied.0.life, &copied.1);
        for &(gap, _) in &chosen {
            let absence = *residence.absence(gap).unwrap();
            let consumers = residence.consumers(gap.life, &absence);
            assert!(!consumers.is_empty() && consumers.iter().all(|node| waiting.contains(node)), "{gap:?}");
        }
        let mut triggers: Vec<Position> = chosen.iter().map(|(_, absence)| absence.trigger).collect();
        triggers.sort_unstable();
        triggers.dedup();
        assert_eq!(residence.triggers_behind(end), triggers);
        assert_eq!(residence.waiting(last.0.life, &last.1), residence.consumers(last.0.life, &last.1));
    });
}
