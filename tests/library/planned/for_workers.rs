//! Plans for several workers.

use tf_lms::pipeline::{Simulated, host_device, profile};
use tf_lms::plan::Draft;
use tf_lms::plan::tflms::Parameters;
use tf_lms::simulate::{Machine, NoObserver, Program, Scenario, simulate_in};
use tf_lms::tune::Tflms;
use tf_lms::{Analysis, AnalysisOptions, Budget, Model, Plan};

/// The highest peak of a step with a plan, in bytes, where copies and the order of ready ops are as predicted, and otherwise. Without
/// scratch, which is there for a moment, and by chance in that of a mean too.
fn peak(analysis: &Analysis, plan: &Plan) -> u64 {
    let budget = Budget { profile: profile("soft").unwrap(), ..Budget::new(1 << 40) };
    let simulated = Simulated::new(analysis, &budget).unwrap();
    let outline = simulated.outline().unwrap();
    let machine = Machine::new(&simulated.profile, 1, Vec::new());
    let program = Program::new(&outline, &Draft::of(plan, analysis.graph).unwrap());
    let peak = |scenario: Scenario| {
        simulate_in(&program, &machine, &scenario, &mut NoObserver).unwrap().peak_bytes()
    };
    let by_chance = (0..4).map(|seed| Scenario::by_chance(seed, 1));
    std::iter::once(Scenario::PREDICTED).chain(by_chance).map(peak).max().unwrap()
}

fn swap_all(analysis: &Analysis) -> Plan {
    let everything = Tflms::new(Parameters { swapout_threshold: 1, ..Parameters::default() });
    analysis.plan_as_told(&everything, &host_device(None).unwrap()).unwrap().unwrap()
}

/// All workers' means come back to a GPU when there is room for them: each worker has about the peak of one alone.
#[test]
fn means_of_several_workers_add_little_to_the_peak_of_one() {
    for name in ["mnist_cnn_ref_momentum", "mnist_cnn", "googlenet_64_b2", "deeplabv3plus_65_b2"] {
        let model: Model = tf_lms::read(format!("testdata/{name}.meta")).unwrap();
        let graph = model.graph().unwrap();
        let alone = model.analyse(&graph, &AnalysisOptions::default()).unwrap();
        let parallel = model.data_parallel(&alone, &Default::default()).unwrap();
        let together = model.parallelized(&graph, &parallel).unwrap();
        let joined = together.graph().unwrap();
        let of_all = together.analyse(&joined, &AnalysisOptions::default()).unwrap();
        let (before, after) = (peak(&alone, &swap_all(&alone)), peak(&of_all, &swap_all(&of_all)));
        assert!(after as f64 <= before as f64 * 1.03, "{name}: {after} bytes with others, {before} alone");
    }
}
