//! Plans for budgets: over random graphs each plan that is found passes the checker and stays within its budget, and what is changed
//! in one is caught.

mod for_workers;
mod made_for_one;
mod search;

use lms_testing::machine::machine;
use proptest::prelude::*;
use tf_lms::cost::DeviceProfile;
use tf_lms::format::{Encoding, Model, ReadOptions};
use tf_lms::graph::Graph;
use tf_lms::ops::OpRegistry;
use tf_lms::plan::{Draft, Plan, Substitute, guard_ref_variables, tflms, without_tensor};
use tf_lms::rewrite;
use tf_lms::simulate::{Machine, NoObserver, Outcome, Outline, Program, Scenario, simulate, simulate_in};
use tf_lms::tune::planned::Settings;
use tf_lms::tune::{Judge, Planned, Strategy as _, Tflms, Verdict, step_bound, tune};
use tf_lms::verify::{self, CheckOptions, Verified, VerifyError};

use crate::outlined::with_costs;

/// A graph with all that is known of it, for a check. Computing is fast, so that running an op again pays.
fn with_outline<R>(model: &Model, targets: &[&str], check: impl FnOnce(&Outline) -> R) -> Option<R> {
    with_costs(model, targets, 1e-9, check)
}

fn planned(recompute: bool) -> Planned {
    with_settings(Settings { recompute, ..Settings::default() })
}

/// Without much effort, if it is not said how much.
fn with_settings(settings: Settings) -> Planned {
    let effort_seconds = match settings.effort_seconds == Settings::default().effort_seconds {
        true => 0.05,
        false => settings.effort_seconds,
    };
    Planned { settings: Settings { effort_seconds, ..settings }, ..Planned::default() }
}

fn written(outline: &Outline, draft: Draft) -> Plan {
    let mut plan = Plan::new(outline.analysis(), "planned", "/cpu:0");
    draft.write_to(&mut plan, outline.analysis());
    plan
}

/// Rewrites a graph by a plan, and checks the result; why it is refused otherwise.
fn carried_out(model: &Model, graph: &Graph, plan: &Plan, train_ops: &[&str]) -> Result<Verified, String> {
    let edits = rewrite::rewrite(model, graph, plan).map_err(|error| error.to_string())?.edits;
    let content = model.edited(&edits, Encoding::Binary).unwrap().to_vec();
    let result = Model::from_bytes("rewritten", content, &ReadOptions::default()).unwrap();
    let options = CheckOptions {
        train_ops: train_ops.iter().map(ToString::to_string).collect(),
        ..CheckOptions::default()
    };
    verify::check_with(model, &result, OpRegistry::builtin(), &options)
        .map_err(|error: VerifyError| error.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn plans_for_odd_graphs_hold(seed: u64, size in 10usize..150, part in 0.3f64..1.0, recompute: bool) {
        let settings = Settings { recompute, ..Settings::default() };
        plan_holds(lms_testing::random_graph::random_graph(seed, size), lms_testing::random_graph::TRAIN_OP, part, settings)?;
    }

    #[test]
    fn plans_for_training_graphs_hold(
        seed: u64,
        layers in 4usize..60,
        part in 0.2f64..1.0,
        recompute: bool,
        swap_weights: bool,
    ) {
        let content = lms_testing::training_graph::random_training_graph(seed, layers);
        let settings = Settings { recompute, swap_weights, ..Settings::default() };
        plan_holds(content, lms_testing::training_graph::TRAIN_OP, part, settings)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// No plan is faster than the bound for the order that it has, whoever made it and whether copies or ops take longer.
    #[test]
    fn no_step_goes_below_its_bound(
        seed: u64,
        layers in 4usize..60,
        is_odd: bool,
        part in 0.2f64..1.0,
        exponent in -9f64..-4.0,
        recompute: bool,
        swap_weights: bool,
    ) {
        let (content, train_op) = match is_odd {
            true => (lms_testing::random_graph::random_graph(seed, layers * 2), lms_testing::random_graph::TRAIN_OP),
            false => (lms_testing::training_graph::random_training_graph(seed, layers), lms_testing::training_graph::TRAIN_OP),
        };
        let model = Model::from_bytes("a random graph", content, &ReadOptions::default()).unwrap();
        let check = |outline: &Outline| {
            if !outline.analysis().step.is_known() || outline.placement().gpus().is_empty() {
                return Ok(());
            }
            let least = Judge::new(outline, &machine(Vec::new())).least_memory(&Draft::default());
            let budget = machine(vec![(least as f64 * part) as u64]);
            let mut judge = Judge::new(outline, &budget);
            judge.trust_the_profile();
            let settings = Settings { recompute, swap_weights, ..Settings::default() };
            let mut strategies: [Box<dyn tf_lms::tune::Strategy>; 2] =
                [Box::new(with_settings(settings)), Box::new(Tflms::new(tflms::Parameters::default()))];
            for strategy in &mut strategies {
                let Ok(Some(found)) = strategy.find(&mut judge) else { continue };
                let bound = step_bound(outline, &budget, &found.draft);
                prop_assert!(bound.is_some());
                let seconds = found.outcome.step_seconds;
                prop_assert!(bound.unwrap() <= seconds + 1e-12, "{bound:?} {seconds}");
            }
            Ok(())
        };
        with_costs(&model, &[train_op], 10f64.powf(exponent), check).unwrap_or(Ok(()))?;
    }
}

/// A plan for a part of the memory that a graph wants passes the checker and keeps to its budget, if there is one.
fn plan_holds(content: Vec<u8>, train_op: &str, part: f64, settings: Settings) -> Result<(), TestCaseError> {
    let model = Model::from_bytes("a random graph", content, &ReadOptions::default()).unwrap();
    let check = |outline: &Outline| {
        let graph = outline.analysis().graph;
        if !outline.analysis().step.is_known() || outline.placement().gpus().is_empty() {
            return Ok(());
        }
        let unlimited = machine(Vec::new());
        let least = Judge::new(outline, &unlimited).least_memory(&Draft::default());
        let budget = machine(vec![(least as f64 * part) as u64]);
        let mut judge = Judge::new(outline, &budget);
        // Whatever plan there is, is to hold.
        judge.trust_the_profile();
        let Some(found) = with_settings(settings.clone()).find(&mut judge).unwrap() else { return Ok(()) };
        prop_assert!(settings.swap_weights || found.draft.host_ops.is_empty());
        prop_assert!(settings.recompute || found.draft.recomputations.is_empty());
        for gpu in &found.outcome.gpus {
            prop_assert!(gpu.peak_bytes <= budget.memory[0]);
        }
        let plan = written(outline, found.draft);
        // The written form holds all of it.
        prop_assert_eq!(&Plan::from_json("plan", plan.to_json().as_bytes()).unwrap(), &plan);
        let again = Draft::of(&plan, graph).unwrap();
        let outcome = simulate(&Program::new(outline, &again), &budget, &mut NoObserver).unwrap();
        prop_assert_eq!(&outcome, &found.outcome);
        let verified = carried_out(&model, graph, &plan, &[train_op]);
        prop_assert!(verified.is_ok(), "{}", verified.unwrap_err());
        // So does what is left of it once a tensor is kept.
        let swapped = again.swaps.iter().map(|swap| swap.tensor);
        let made_again = again.recomputations.iter().flat_map(|again| graph.outputs(again.op));
        for tensor in swapped.take(2).chain(made_again.take(4)) {
            let mut less = without_tensor(&again, tensor);
            // What kept an update back may be among what was left out.
            guard_ref_variables(outline.analysis(), &mut less);
            let less = written(outline, less);
            let verified = carried_out(&model, graph, &less, &[train_op]);
            prop_assert!(verified.is_ok(), "{}: {}", graph.tensor_name(tensor), verified.unwrap_err());
        }
        Ok(())
    };
    with_outline(&model, &[train_op], check).unwrap_or(Ok(()))
}

/// What keeps the order of a ref variable's reads and updates may drop a swap whose return a second run reads.
#[test]
fn a_dropped_swap_leaves_no_second_run_behind() {
    let content = lms_testing::random_graph::random_graph(5152059348673234353, 100);
    plan_holds(content, lms_testing::random_graph::TRAIN_OP, 0.8651228906805036, Settings::default())
        .unwrap();
}

const RESNET: &str = "testdata/resnet50_2000_b1.meta";

/// ResNet50, what is known of it, and its peak in bytes.
fn with_resnet(check: impl FnOnce(&Model, &Outline, u64)) {
    let content = std::fs::read(RESNET).unwrap();
    let model = Model::from_bytes(RESNET, content, &ReadOptions::default()).unwrap();
    let meta_graph = model.meta_graph().unwrap().unwrap();
    let train_ops = tf_lms::format::collected_ops(&meta_graph, "train_op");
    let names: Vec<&str> = train_ops.iter().map(String::as_str).collect();
    with_outline(&model, &names, |outline| {
        let unlimited = machine(Vec::new());
        let before = simulate(&Program::new(outline, &Draft::default()), &unlimited, &mut NoObserver);
        check(&model, outline, before.unwrap().gpus[0].peak_bytes);
    })
    .unwrap();
}

/// The same with a plan for a part of its memory, with swaps, orders and recomputations.
fn with_resnet_plan(check: impl FnOnce(&Model, &Outline, &Machine, Plan)) {
    with_resnet(|model, outline, peak| {
        let budget = machine(vec![peak * 3 / 10]);
        let tuning = tune(outline, &budget, &mut Planned::default()).unwrap();
        let Verdict::FitsWithSwapping(found) = tuning.verdict else { panic!("no plan") };
        let plan = written(outline, found.draft);
        assert!(!plan.swaps.is_empty() && !plan.orders.is_empty() && !plan.recomputations.is_empty());
        check(model, outline, &budget, plan);
    });
}

/// Where tensors lie depends on when copies end. A plan that fits as predicted, and no other way, is of no use.
#[test]
fn a_plan_fits_whatever_copies_take() {
    let profile = DeviceProfile::built_in("h100").unwrap();
    let mut tried = 0;
    let mut failed = 0;
    with_resnet(|_, outline, peak| {
        for percent in (20..60).step_by(2) {
            let budget = Machine::new(profile, 1, vec![peak / 100 * percent]);
            let found = planned(true).find(&mut Judge::new(outline, &budget)).unwrap();
            let Some(found) = found else { continue };
            let program = Program::new(outline, &found.draft);
            for (seed, slowness) in (1000..1030).zip([1.0, 2.0, 4.0].into_iter().cycle()) {
                let uneven = Scenario::by_chance(seed, 1).with_copies(slowness);
                tried += 1;
                failed += u32::from(simulate_in(&program, &budget, &uneven, &mut NoObserver).is_err());
            }
        }
    });
    assert!(tried > 200 && failed * 20 <= tried, "{failed} of {tried} runs were out of memory");
}

/// With more memory everything comes to lie elsewhere. A plan that fits only in what it may count on is of no use where there is more.
#[test]
fn a_plan_fits_in_more_memory_too() {
    let profile = DeviceProfile::built_in("h100").unwrap();
    let mut tried = 0;
    let mut failed = Vec::new();
    with_resnet(|_, outline, peak| {
        for percent in (20..60).step_by(2) {
            let memory = peak / 100 * percent;
            let budget = Machine::new(profile, 1, vec![memory]).with_whole_memory(vec![memory + memory / 12]);
            let found = planned(true).find(&mut Judge::new(outline, &budget)).unwrap();
            let Some(found) = found else { continue };
            let program = Program::new(outline, &found.draft);
            for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
                tried += 1;
                let more = Scenario { rest_part: part, ..Scenario::PREDICTED };
                if simulate_in(&program, &budget, &more, &mut NoObserver).is_err() {
                    failed.push((percent, part));
                }
            }
        }
    });
    assert!(tried > 50 && failed.is_empty(), "of {tried} runs these were out of memory: {failed:?}");
}

/// Near what no plan gets below there is not room for more than one op works with.
#[test]
fn there_are_plans_little_above_the_floor() {
    let profile = DeviceProfile::built_in("v100-pcie3").unwrap();
    with_resnet(|_, outline, peak| {
        let least = |memory: u64| {
            let budget = Machine::new(profile, 1, vec![memory]);
            tune(outline, &budget, &mut Planned::default()).unwrap()
        };
        let floor = least(peak / 2).floors[0].memory_bytes;
        for percent in [115, 120, 130, 140] {
            let tuning = least(floor / 100 * percent);
            assert!(!tuning.is_tight, "{percent}% of the floor");
            let Verdict::FitsWithSwapping(found) = tuning.verdict else { panic!("{percent}% of the floor") };
            assert!(found.outcome.gpus[0].peak_bytes >= floor);
        }
    });
}

/// A plan that leaves room for the allocator has more leave than must. Of what it has leave in the end, hardly anything could stay and make
/// the step shorter, if there was effort enough to try that.
#[test]
fn what_need_not_leave_stays() {
    let profile = DeviceProfile::built_in("v100-pcie3").unwrap();
    let (mut tried, mut better) = (0, 0);
    with_resnet(|_, outline, peak| {
        for percent in (25..75).step_by(5) {
            let budget = Machine::new(profile, 1, vec![peak / 100 * percent]);
            let mut judge = Judge::new(outline, &budget);
            let mut strategy = with_settings(Settings { effort_seconds: 2.0, ..Settings::default() });
            let found = strategy.find(&mut judge).unwrap().unwrap();
            for swap in &found.draft.swaps {
                let less = judge.judge(&without_tensor(&found.draft, swap.tensor));
                let is_better = |less: Outcome| less.step_seconds < found.outcome.step_seconds * 0.99;
                tried += 1;
                better += u32::from(less.is_ok_and(is_better));
            }
        }
    });
    assert!(better * 5 <= tried, "{better} of {tried} need not leave");
}

#[test]
fn a_changed_plan_is_caught() {
    with_resnet_plan(|model, outline, budget, plan| {
        let graph = outline.analysis().graph;
        let verified = carried_out(model, graph, &plan, &[]).unwrap();
        assert_eq!(verified.recomputed_ops, plan.recomputations.len());
        let fits = |plan: &Plan| {
            let draft = Draft::of(plan, graph).unwrap();
            simulate(&Program::new(outline, &draft), budget, &mut NoObserver).is_ok()
        };
        assert!(fits(&plan));

        // Another input of the same type for a second run.
        let other = plan.swaps[0].tensor.clone();
        let mut wrong = plan.clone();
        let input = wrong.recomputations.iter_mut().flat_map(|again| &mut again.inputs).next().unwrap();
        assert_ne!(input.tensor, other);
        (input.tensor, input.from) = (other, Substitute::SwapIn(0));
        assert!(carried_out(model, graph, &wrong, &[]).unwrap_err().contains("from where it is not"));

        // A second run that stands for another op.
        let mut wrong = plan.clone();
        let unrelated = graph.node_ids().find(|&node| graph.op(node).name() == "Relu").unwrap();
        wrong.recomputations[0].op = graph.name(unrelated).to_string();
        if wrong.recomputations[0].op != plan.recomputations[0].op {
            assert!(carried_out(model, graph, &wrong, &[]).is_err());
        }

        // A second run that reads one that does not stand before it.
        let mut wrong = plan.clone();
        let chained = wrong.recomputations.iter_mut().flat_map(|again| &mut again.inputs);
        let mut chained = chained.filter(|input| matches!(input.from, Substitute::Recomputation(_)));
        chained.next().unwrap().from = Substitute::Recomputation(u32::MAX);
        assert!(carried_out(model, graph, &wrong, &[]).unwrap_err().contains("from where it is not"));

        // A trigger behind the consumer is a cycle.
        let mut wrong = plan.clone();
        let swap_in = &mut wrong.swaps[0].swap_ins[0];
        swap_in.triggers = swap_in.consumers.clone();
        assert!(carried_out(model, graph, &wrong, &[]).unwrap_err().contains("cycle"));

        // Without triggers all comes back at once: of a plan that has it all come back by copies.
        let copies = planned(false).find(&mut Judge::new(outline, budget)).unwrap().expect("a plan");
        let mut early = written(outline, copies.draft);
        assert!(fits(&early));
        early.swaps.iter_mut().flat_map(|swap| &mut swap.swap_ins).for_each(|back| back.triggers.clear());
        assert!(!fits(&early));

        // What is not brought back by a second run stays.
        let mut kept = plan;
        kept.recomputations.clear();
        kept.swaps.iter_mut().for_each(|swap| swap.swap_ins.retain(|back| !back.consumers.is_empty()));
        assert!(!fits(&kept));
    });
}
