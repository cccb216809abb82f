//! `lms-tune` as its users meet it: verdicts, exit statuses, plans, and how it fails.

use std::fs;

use prost::Message;
use serde_json::Value;
use tempfile::TempDir;
use tf_lms::proto::tensorflow::MetaGraphDef;
use tf_lms::proto::tensorflow::attr_value::Value as Attr;

use super::run::{bytes, fail, json, stderr, tool, tune};

const RESNET: &str = "testdata/resnet50_2000_b1.meta";
const MNIST: &str = "testdata/mnist_cnn.meta";
const TOWERS: &str = "testdata/unet3d_32_b1_towers.meta";

/// A plan that counts on all of the memory is better than none, and its user is told. Who gives the part that may be counted on gets what was
/// asked for.
#[test]
fn where_no_plan_leaves_a_margin_one_takes_it() {
    let flags = ["testdata/mobilenet_64_b4.meta", "--gpu-mem", "6MiB", "--device-profile", "soft"];
    let flags = [&flags[..], &["--effort", "0.2"]].concat();
    let found = json(0, &flags);
    assert_eq!(found["verdict"], "fits_with_swapping");
    assert_eq!(found["is_tight"], true);
    let told = String::from_utf8(tune(&flags).stdout).unwrap();
    assert!(told.contains("so it counts on all of the memory"), "{told}");
    assert!(bytes(&found, "peak_after") <= 6 << 20);
    let part = found["memory_ratio"].to_string();
    fail(3, &[&flags[..], &["--memory-ratio", &part]].concat(), "does not fit in 6.00 MiB");
}

/// Memory in no pieces takes less of a step where there is little of it: the same as who asks for that allocator is told.
#[test]
fn what_another_allocator_would_gain_is_told() {
    let flags =
        ["testdata/gpt_32_b4.meta", "--gpu-mem", "1MiB", "--memory-ratio", "1", "--device-profile", "soft"];
    let flags = [&flags[..], &["--effort", "0.3"]].concat();
    let seconds = |report: &Value, key: &str| report[key].as_f64();
    let in_pieces = json(0, &flags);
    let in_none = json(0, &[&flags[..], &["--allocator", "async"]].concat());
    let gained = seconds(&in_pieces, "step_seconds_with_async").unwrap();
    assert_eq!(Some(gained), seconds(&in_none, "step_seconds_after"));
    assert!(gained < 0.9 * seconds(&in_pieces, "step_seconds_after").unwrap());
    assert_eq!(seconds(&in_none, "step_seconds_with_async"), None);
    let told = String::from_utf8(tune(&flags).stdout).unwrap();
    assert!(told.contains(" ms with --allocator async\n"), "{told}");
    // In 4 MiB it fits as it is.
    let ample = [&flags[..2], &["4MiB"], &flags[3..]].concat();
    assert_eq!(seconds(&json(0, &ample), "step_seconds_with_async"), None);
}

#[test]
fn the_three_verdicts() {
    let fits = json(0, &[RESNET, "--gpu-mem", "16GiB"]);
    assert_eq!(fits["verdict"], "fits");
    assert_eq!(bytes(&fits, "swapout_bytes"), 0);
    assert_eq!(fits["step_seconds_before"], fits["step_seconds_after"]);

    let swaps = json(0, &[RESNET, "--gpu-mem", "4GiB"]);
    assert_eq!(swaps["verdict"], "fits_with_swapping");
    assert_eq!(bytes(&swaps, "peak_before"), bytes(&fits, "peak_before"));
    assert!(bytes(&swaps, "peak_after") < 4 << 30);
    assert!(bytes(&swaps, "peak_before") > 4 << 30);
    assert!(bytes(&swaps, "recomputed_ops") > 0);
    let copies = json(0, &[RESNET, "--gpu-mem", "4GiB", "--no-recompute"]);
    assert_eq!(bytes(&copies, "recomputed_ops"), 0);
    for plan in [&swaps, &copies] {
        let bound = plan["step_bound_seconds"].as_f64().unwrap();
        assert!(plan["floors"]["step_seconds"].as_f64().unwrap() < bound);
        assert!(bound < plan["step_seconds_after"].as_f64().unwrap());
    }
    assert!(fits["step_bound_seconds"].is_null());
    assert!(copies["step_seconds_after"].as_f64() > swaps["step_seconds_after"].as_f64());
    assert!(swaps["step_seconds_after"].as_f64() > swaps["step_seconds_before"].as_f64());

    let too_little = json(3, &[RESNET, "--gpu-mem", "1GiB"]);
    assert_eq!(too_little["verdict"], "does_not_fit");
    assert!(bytes(&too_little["floors"], "memory_bytes") > 1 << 30);
    // Three images, and three copies of them in cuDNN's order.
    assert!(too_little["devices"][0]["floor_op"].as_str().unwrap().ends_with("FusedBatchNormGradV3"));
}

#[test]
fn more_memory_never_makes_the_step_longer() {
    let seconds =
        |memory: &str| json(0, &[RESNET, "--gpu-mem", memory])["step_seconds_after"].as_f64().unwrap();
    let steps = ["3GiB", "5GiB", "7GiB", "9GiB"].map(seconds);
    assert!(steps.is_sorted_by(|less, more| less >= &(more * 0.999)), "{steps:?}");
}

#[test]
fn a_plan_is_what_the_other_tools_carry_out() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    let (plan, rewritten) = (path("plan.json"), path("model.meta"));
    let found = json(0, &[RESNET, "--gpu-mem", "2500MiB", "-o", &plan]);
    let judged = json(0, &[RESNET, "--gpu-mem", "2500MiB", "--plan", &plan]);
    for field in ["peak_after", "swapout_bytes", "swapin_bytes", "step_seconds_after", "least_memory_after"] {
        assert_eq!(found[field], judged[field], "{field}");
    }
    // The rewrite checks itself.
    let output = tool("lms-rewrite", &[RESNET, "-o", &rewritten, "--plan", &plan, "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["verified"], true);
    assert!(report["swapouts"].as_u64().unwrap() > 0);
    // And with the budget itself it comes to the same file.
    let again = path("again.meta");
    let output = tool("lms-rewrite", &[RESNET, "-o", &again, "--gpu-mem", "2500MiB", "-q"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(fs::read(&rewritten).unwrap() == fs::read(&again).unwrap(), "two ways to one plan differ");
    let output = tool("lms-rewrite", &[RESNET, "-o", &path("none.meta"), "--gpu-mem", "1GiB", "-q"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(!directory.path().join("none.meta").exists());
}

/// Who needs an op of a loop needs what comes around in the loop too, and so what that waits for.
#[test]
fn plans_for_graphs_with_loops_pass_the_check() {
    let directory = TempDir::new().unwrap();
    let [plan, rewritten] =
        ["plan", "rewritten"].map(|name| directory.path().join(name).to_str().unwrap().to_string());
    let memory = ["--gpu-mem", "960KiB", "--device-profile", "soft"];
    for effort in ["0.2", "1"] {
        let args = [&["testdata/ctc_48_b4.meta"], &memory[..], &["--effort", effort, "-o", &plan]].concat();
        let report = json(0, &args);
        assert_eq!(report["verdict"], "fits_with_swapping", "{report}");
        let args = ["testdata/ctc_48_b4.meta", "--plan", &plan, "-o", &rewritten];
        let output = tool("lms-rewrite", &args);
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

/// When stacks come back from the host is not predicted, so nobody may count on it.
#[test]
fn no_plan_with_stacks_on_the_host_is_certain() {
    let flags = ["--gpu-mem", "1200KiB", "--memory-ratio", "1", "--device-profile", "soft"];
    let report = json(0, &[&["testdata/ctc_48_b4.meta"], &flags[..]].concat());
    assert!(bytes(&report, "accumulators_on_host") == 0 || report["is_tight"] == true, "{report}");
}

/// One plan for all GPUs, which swaps where its budget asks for it.
#[test]
fn each_gpu_has_its_budget() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    let plan = path("plan.json");
    for (budgets, swaps) in
        [("1GiB", [false, false]), ("1GiB,16MiB", [false, true]), ("15MiB,16MiB", [true, true])]
    {
        let found = json(0, &[TOWERS, "--gpu-mem", budgets, "--device-profile", "soft", "-o", &plan]);
        let devices = found["devices"].as_array().unwrap();
        assert_eq!(devices.len(), 2, "{budgets}");
        for (device, swaps) in devices.iter().zip(swaps) {
            assert_eq!(bytes(device, "swapout_bytes") > 0, swaps, "{budgets}: {device}");
            assert!(bytes(device, "peak_after") < bytes(device, "gpu_mem"), "{budgets}: {device}");
        }
    }
    let output = tool("lms-rewrite", &[TOWERS, "-o", &path("towers.meta"), "--plan", &plan, "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<_> =
        report["devices"].as_array().unwrap().iter().map(|device| &device["device"]).collect();
    assert_eq!(names, ["/device:GPU:0", "/device:GPU:1"]);
    assert_eq!(report["verified"], true);
}

/// A concatenation wants half of the free memory in one piece, and one of its inputs lies in the midst of that. It comes anew, to
/// another place; in the least of these memories even one that was made right before.
#[test]
fn inputs_that_part_the_pool_are_brought_anew() {
    for budget in ["9MiB", "9.3MiB", "9.5MiB", "10.1MiB", "10.3MiB"] {
        let found =
            json(0, &[TOWERS, "--gpu-mem", budget, "--memory-ratio", "1", "--device-profile", "soft"]);
        assert_eq!(found["is_tight"], false, "{budget}");
    }
    // In this there is a plan, which each twentieth chance or more finds out of memory.
    let least = ["--gpu-mem", "8.7MiB", "--memory-ratio", "1", "--device-profile", "soft"];
    let found = json(0, &[&[TOWERS][..], &least].concat());
    assert_eq!(found["verdict"], "fits_with_swapping");
    assert_eq!(found["is_tight"], true);
}

/// More than one thread of the host needs a margin, and there is none.
#[test]
fn who_counts_on_all_of_the_memory_is_told_of_threads() {
    let noted = |flags: &[&str]| {
        let budget = [TOWERS, "--gpu-mem", "9.5MiB", "--device-profile", "soft"];
        let output = tool("lms-tune", &[&budget[..], flags].concat());
        String::from_utf8_lossy(&output.stdout).contains("one thread of the host")
    };
    assert!(noted(&["--memory-ratio", "1"]));
    assert!(!noted(&[]));
}

#[test]
fn a_plan_for_another_graph_is_refused() {
    let directory = TempDir::new().unwrap();
    let plan = directory.path().join("plan.json").to_str().unwrap().to_string();
    json(0, &[RESNET, "--gpu-mem", "4GiB", "-o", &plan]);
    fail(1, &[MNIST, "--gpu-mem", "4GiB", "--plan", &plan], "is for another graph");
    fs::write(&plan, "{}").unwrap();
    fail(1, &[MNIST, "--gpu-mem", "4GiB", "--plan", &plan], "is no plan");
}

/// What the other tools refuse, the simulator is not asked about.
#[test]
fn a_damaged_plan_is_refused() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plan.json").to_str().unwrap().to_string();
    let budget = [RESNET, "--gpu-mem", "3GiB", "--device-profile", "v100-pcie3"];
    json(0, &[&budget[..], &["-o", &path]].concat());
    let plan: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let refused = |damage: fn(&mut Value), says: &str| {
        let mut damaged = plan.clone();
        damage(&mut damaged);
        assert_ne!(damaged, plan);
        fs::write(&path, damaged.to_string()).unwrap();
        fail(1, &[&budget[..], &["--plan", &path]].concat(), says);
    };
    refused(|plan| plan["swaps"] = Value::Array(Vec::new()), "from where it is not");
    refused(|plan| plan["recomputations"].as_array_mut().unwrap().reverse(), "from where it is not");
    let never_back = |plan: &mut Value| {
        plan["recomputations"] = Value::Array(Vec::new());
        plan["swaps"].as_array_mut().unwrap().truncate(1);
        plan["swaps"][0]["swap_ins"] = Value::Array(Vec::new());
    };
    refused(never_back, "brings it back for nobody");
    refused(
        |plan| {
            let swap_in = &mut plan["swaps"][0]["swap_ins"][0];
            swap_in["triggers"] = swap_in["consumers"].clone();
        },
        "cycle",
    );
}

#[test]
fn the_same_input_gives_the_same_plan() {
    let plan = || tune(&[RESNET, "--gpu-mem", "4GiB", "-q", "-o", "-"]).stdout;
    let first = plan();
    assert!(!first.is_empty() && first == plan());
}

#[test]
fn no_size_is_guessed() {
    let message = "images=?x28x28x1";
    fail(1, &["testdata/mnist_cnn_bN_sgd.meta", "--gpu-mem", "1GiB"], message);
}

/// Sparse gradients, labels of any number: their sizes are bounded, and the report says so.
#[test]
fn sizes_that_the_data_decides_are_bounded() {
    for name in ["gpt_32_b4", "static_lstm_12_b8", "dynamic_rnn_20_b4", "ctc_48_b4"] {
        let report = json(0, &[&format!("testdata/{name}.meta"), "--gpu-mem", "1GiB"]);
        assert_eq!(report["verdict"], "fits", "{name}");
        assert!(bytes(&report, "bounded_tensors") > 0, "{name}");
    }
    assert_eq!(bytes(&json(0, &[MNIST, "--gpu-mem", "1GiB"]), "bounded_tensors"), 0);
}

/// What a loop pushes is there as often as it runs.
#[test]
fn stacks_grow_with_the_iterations() {
    let peak = |flags: &[&str]| {
        let model = ["testdata/dynamic_rnn_20_b4.meta", "--gpu-mem", "1GiB"];
        bytes(&json(0, &[&model[..], flags].concat()), "peak_before")
    };
    let [found, short, long] = [peak(&[]), peak(&["--iterations", "5"]), peak(&["--iterations", "80"])];
    assert!(short < found && found < long, "{short}, {found}, {long}");
    assert_eq!(found, peak(&["--iterations", "20"]));
    // How often the loop of the gradient runs says when it reads what was kept.
    let both = ["rnn/while/while_context=80", "gradients/rnn/while/while_context=80"];
    assert_eq!(long, peak(&["--iterations", "5", "--iterations", both[0], "--iterations", both[1]]));
    assert!(short < peak(&["--iterations", "5", "--iterations", both[0]]));
    fail(2, &["testdata/dynamic_rnn_20_b4.meta", "--gpu-mem", "1GiB", "--iterations", "0"], "LOOP=N");
}

/// TensorFlow copies stacks to the host by itself where they ask for it and much of the memory is taken. Nobody predicts that, and it is said.
#[test]
fn stacks_that_swap_by_themselves_are_told() {
    let directory = TempDir::new().unwrap();
    let model = directory.path().join("swapping.meta");
    let mut loops = MetaGraphDef::decode(&*fs::read("testdata/while_rnn.meta").unwrap()).unwrap();
    let pushes =
        loops.graph_def.iter_mut().flat_map(|graph| &mut graph.node).filter(|node| node.op == "StackPushV2");
    pushes.for_each(|push| push.attr.entry("swap_memory".into()).or_default().value = Some(Attr::B(true)));
    fs::write(&model, loops.encode_to_vec()).unwrap();
    let told = |model: &str, memory: &str| {
        let flags = [model, "--gpu-mem", memory, "--memory-ratio", "1", "--device-profile", "soft"];
        String::from_utf8(tune(&flags).stdout).unwrap().contains("stacks of loops have swap_memory")
    };
    let model = model.to_str().unwrap();
    assert!(told(model, "1600KiB") && !told(model, "16MiB") && !told("testdata/while_rnn.meta", "1600KiB"));
}

/// What TensorFlow computes beforehand is swapped all the same, and may be waited for.
#[test]
fn constants_are_swapped_too() {
    let directory = TempDir::new().unwrap();
    let plan = directory.path().join("plan.json").display().to_string();
    for name in ["static_lstm_12_b8", "gpt_32_b4", "efficientnet_64_b2", "bert_32_b8"] {
        let model = format!("testdata/{name}.meta");
        let flags = ["--sync-mode", "3", "--dry-run", "--quiet", "--plan-out", &plan];
        let rewritten = tool("lms-rewrite", &[&[&*model], &flags[..]].concat());
        assert!(rewritten.status.success(), "{name}: {}", stderr(&rewritten));
        json(0, &[&model, "--gpu-mem", "1GiB", "--plan", &plan]);
    }
}

#[test]
fn wrong_budgets_and_profiles() {
    fail(2, &[MNIST, "--gpu-mem", "0"], "without memory");
    fail(2, &[MNIST, "--gpu-mem", "lots"], "expected a size");
    fail(2, &[MNIST, "--gpu-mem", "1GiB", "--memory-ratio", "1.5"], "expected a number above 0");
    fail(1, &[MNIST, "--gpu-mem", "1GiB", "--device-profile", "v1000"], "v100-pcie3");
    fail(2, &[MNIST, "--gpu-mem", "1GiB", "--max", "images"], "expected `batch`");
    fail(2, &[MNIST, "--gpu-mem", "1GiB", "--max", "picture:1"], "no node \"picture\"");
    let report = json(0, &[MNIST, "--gpu-mem", "16000000GiB"]);
    assert_eq!(report["verdict"], "fits");

    let directory = TempDir::new().unwrap();
    let profile = directory.path().join("profile.json");
    fs::write(&profile, r#"{"schema": 1, "name": "half of one"}"#).unwrap();
    fail(1, &[MNIST, "--gpu-mem", "1GiB", "--device-profile", profile.to_str().unwrap()], "missing field");
    let times = directory.path().join("times.json");
    fs::write(&times, r#"{"schema": 1, "model": "another", "ops": []}"#).unwrap();
    fail(1, &[MNIST, "--gpu-mem", "1GiB", "--op-times", times.to_str().unwrap()], "another graph");
}

#[test]
fn a_faster_link_makes_a_shorter_step() {
    let step = |profile: &str| {
        let report = json(0, &[RESNET, "--gpu-mem", "4GiB", "--device-profile", profile]);
        report["step_seconds_after"].as_f64().unwrap()
    };
    assert!(step("v100-nvlink2") < step("v100-pcie3"));
}

/// Not a training, and not a part of one either. Variables that nothing in the step updates share the constants that they began as.
#[test]
fn nothing_fits_below_its_peak() {
    for train_op in [&[][..], &["--train-op", "predictions/BiasAdd"]] {
        let arguments = [&[RESNET][..], train_op].concat();
        let peak = bytes(&json(0, &[&arguments[..], &["--gpu-mem", "64GiB"]].concat()), "peak_before");
        let less = format!("{}B", peak * 99 / 100);
        let report = json(0, &[&arguments[..], &["--gpu-mem", &less, "--memory-ratio", "1"]].concat());
        assert_ne!(report["verdict"], "fits", "{train_op:?}");
    }
}

/// The plan that `lms-tune` finds.
fn plan_of(arguments: &[&str]) -> Value {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plan.json").to_str().unwrap().to_string();
    json(0, &[arguments, &["-o", &path]].concat());
    serde_json::from_slice(&fs::read(&path).unwrap()).unwrap()
}

/// Gradients of the penalty on large weights can be made as late as they are needed, and with that nothing has to leave. (Those that would
/// then wait for the random numbers of dropout run again instead.)
#[test]
fn another_order_may_be_all_that_is_needed() {
    let plan = plan_of(&["testdata/googlenet_64_b2.meta", "--gpu-mem", "100MiB"]);
    let count = |field: &str| plan[field].as_array().map_or(0, Vec::len);
    assert_eq!(count("swaps"), 0);
    assert!(count("recomputations") < 10, "{}", plan["recomputations"]);
    assert!(count("orders") > 0);
}

/// That zeros hang on each branch, for gradients that nobody reads, keeps none from waiting for another.
#[test]
fn branches_run_one_after_the_other() {
    let flags = ["--gpu-mem", "340MiB", "--memory-ratio", "1", "--device-profile", "v100-pcie3"];
    let plan = plan_of(&[&["testdata/deeplabv3plus_65_b2.meta"][..], &flags].concat());
    let begins = |field: &Value, branch: &str| field.as_str().is_some_and(|name| name.starts_with(branch));
    let follows = |first: &str, then: &str| {
        let mut orders = plan["orders"].as_array().unwrap().iter();
        orders.any(|order| begins(&order["before"], first) && begins(&order["after"], then))
    };
    let branches = ["aspp/rate6/", "aspp/rate12/", "aspp/rate18/"];
    let pairs = branches.iter().flat_map(|first| branches.iter().map(move |then| (first, then)));
    let between = pairs.filter(|(first, then)| first != then && follows(first, then)).count();
    assert!(between >= 2, "{between} edges between branches");
}

/// A convolution that runs again reads its variables again, so their updates wait for the op that it runs for.
#[test]
fn second_runs_that_read_ref_variables_are_before_the_update() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plan.json").to_str().unwrap().to_string();
    let model = "testdata/googlenet_64_b2.meta";
    let mut found = 0;
    for memory in ["98MiB", "97MiB", "96MiB"] {
        let flags = ["--gpu-mem", memory, "--plan-out", &path, "--dry-run", "--quiet"];
        let output = tool("lms-rewrite", &[&[model][..], &flags].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let plan: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let again = plan["recomputations"].as_array().unwrap();
        let layers = again.iter().filter_map(|again| again["op"].as_str()?.strip_suffix("/Conv2D"));
        for update in layers.map(|layer| format!("apply/update_{layer}/kernel/ApplyMomentum")) {
            let waits = |order: &&Value| order["after"] == *update && order["reason"] == "ref_variable";
            found += plan["orders"].as_array().unwrap().iter().filter(waits).count();
        }
    }
    assert!(found > 0);
}

/// What was told stays; what was not is searched.
#[test]
fn the_first_tflms_is_searched_for_what_it_was_not_told() {
    let flags = [RESNET, "--gpu-mem", "6GiB", "--strategy", "tflms-v1"];
    let searched = json(0, &flags);
    let told = json(0, &[&flags[..], &["--lb", "1", "--n-tensors", "-1"]].concat());
    for report in [&searched, &told] {
        assert_eq!(report["strategy"], "tflms-v1");
        assert!(bytes(report, "peak_after") < 6 << 30);
    }
    let parameters = &told["parameters"];
    assert_eq!((parameters["lb"].as_i64(), parameters["n_tensors"].as_i64()), (Some(1), Some(-1)));
    assert!(3 * bytes(&searched, "swapped_tensors") < bytes(&told, "swapped_tensors"));
    let seconds = |report: &Value| report["step_seconds_after"].as_f64().unwrap();
    assert!(seconds(&searched) < seconds(&told));
}

/// Whether the updates of batch norm's averages come before the gradients, as with `control_dependencies` around `minimize`, or beside them,
/// makes no difference to what can be planned. (In less memory it does, by up to 5%: then what asks for shapes waits for the updates too.)
#[test]
fn updates_before_the_gradients_are_as_good_as_beside_them() {
    let planned = |model: &str| {
        let flags = ["--gpu-mem", "9MiB", "--memory-ratio", "1", "--device-profile", "soft"];
        let report = json(0, &[&[model][..], &flags].concat());
        assert_eq!(report["strategy"], "planned", "{model}");
        (report["step_seconds_after"].as_f64().unwrap(), bytes(&report, "peak_after"))
    };
    let (before, beside) =
        (planned("testdata/mobilenet_64_b4.meta"), planned("testdata/mobilenet_64_b4_grouped.meta"));
    assert!(before.0 <= beside.0 * 1.01 && before.1 <= beside.1 / 100 * 101, "{before:?} {beside:?}");
}

/// A GAN's two train ops are two steps. Each has a report, one plan serves both, and the budget holds for each.
#[test]
fn steps_that_are_run_in_turn_each_keep_to_the_budget() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plan.json").to_str().unwrap().to_string();
    let flags = ["--gpu-mem", "370KiB", "--memory-ratio", "1", "--device-profile", "soft", "-o", &path];
    let report = json(0, &[&["testdata/gan_16_b8.meta"][..], &flags].concat());
    let steps = report["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2);
    for step in steps {
        assert_eq!(step["verdict"], "fits_with_swapping");
        assert!(bytes(step, "peak_after") <= 370 << 10, "{step}");
    }
    assert!(bytes(&steps[1], "peak_before") > 370 << 10);
    // The plan is one for both, and passes the checker.
    let flags = ["--gpu-mem", "370KiB", "--memory-ratio", "1", "--device-profile", "soft", "--plan", &path];
    let again = json(0, &[&["testdata/gan_16_b8.meta"][..], &flags].concat());
    assert_eq!(again["steps"][1]["peak_after"], steps[1]["peak_after"]);
    // Plans that each are certain may not be so together; then others are, which leave over a little.
    for memory in ["360KiB", "370KiB"] {
        let flags = ["--gpu-mem", memory, "--memory-ratio", "1", "--device-profile", "soft"];
        let report = json(0, &[&["testdata/gan_16_b8.meta"][..], &flags].concat());
        for step in report["steps"].as_array().unwrap() {
            assert_eq!(step["is_tight"], false, "{memory}: {step}");
        }
    }
    // In the least memory there is a plan for both, though what fits one step is not monotone in the memory.
    let flags = ["--gpu-mem", "min", "--memory-ratio", "1", "--device-profile", "soft"];
    let least = json(0, &[&["testdata/gan_16_b8.meta"][..], &flags].concat());
    for step in least["steps"].as_array().unwrap() {
        assert_ne!(step["verdict"], "does_not_fit", "{step}");
    }
}

/// A session keeps the constants of all that it has run: each step finds those of the other there.
#[test]
fn constants_of_steps_that_are_run_in_turn_stay() {
    let persistent = |step: &Value| bytes(&step["devices"][0], "persistent_bytes");
    let flags = ["testdata/gan_16_b8.meta", "--gpu-mem", "1GiB", "--device-profile", "soft"];
    let in_turn = json(0, &flags);
    for (number, train_op) in ["train_d", "train_g"].into_iter().enumerate() {
        let alone = json(0, &[&flags[..], &["--train-op", train_op]].concat());
        assert!(persistent(&in_turn["steps"][number]) > persistent(&alone), "{train_op}");
    }
    assert_eq!(persistent(&in_turn["steps"][0]), persistent(&in_turn["steps"][1]));
}

/// Many GPUs: one worker is the plan of one worker, a shared link and a slower network cost, and all of it is one document.
#[test]
fn many_gpus_are_predicted() {
    let directory = TempDir::new().unwrap();
    let picture = directory.path().join("scaling.svg");
    let plot = picture.to_str().unwrap();
    let base = [RESNET, "--gpu-mem", "4GiB", "--device-profile", "v100-nvlink2"];
    let many =
        |flags: &[&str]| json(0, &[&base[..], &["--nodes", "16", "--gpus-per-node", "4"], flags].concat());
    let number = |value: &Value, path: &str| value.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN);

    let alone = json(0, &base);
    let fast = many(&["--network", "25GB/s,5us", "--scale-to", "90%", "--plot", plot]);
    assert_eq!(number(&fast, "/without/alone_seconds"), number(&alone, "/step_seconds_before"));
    assert!(number(&fast, "/with/alone_seconds") <= number(&alone, "/step_seconds_after"));
    assert_eq!(fast["fits_as_it_is"], false);
    assert_eq!(fast["with"]["asked"]["gpus"], 64);
    let curve = fast["with"]["curve"].as_array().unwrap();
    assert_eq!(curve.len(), 13);
    assert_eq!(curve[0]["step_seconds"], fast["with"]["alone_seconds"]);
    assert_eq!(
        (&curve[0]["efficiency"], &curve[0]["reduce_seconds"]),
        (&Value::from(1.0), &Value::from(0.0))
    );
    let efficiency = number(&fast, "/with/asked/efficiency");
    let steps = number(&fast, "/with/asked/step_seconds") * efficiency;
    assert!((steps - number(&fast, "/with/alone_seconds")).abs() < 1e-12);
    let rate = 64.0 / number(&fast, "/with/asked/step_seconds");
    assert!((number(&fast, "/with/asked/examples_per_second") - rate).abs() < 1e-9);
    // So many keep 90%, and twice as many do not.
    let most = number(&fast, "/scale_to/gpus");
    let of = |gpus: f64| curve.iter().find(|point| point["gpus"].as_f64() >= Some(gpus)).unwrap();
    assert!(most > 64.0 && number(of(most * 2.0), "/efficiency") < 0.9, "{most}");
    assert!(fs::read_to_string(&picture).unwrap().contains("64 GPUs: "));

    // Where all fits, no plan has to be looked for.
    let large = |flags: &[&str]| {
        let base = [RESNET, "--gpu-mem", "16GiB", "--nodes", "16", "--gpus-per-node", "4", "--gpus-per-link"];
        json(0, &[&base[..], flags].concat())
    };
    let near = large(&["1", "--network", "25GB/s,5us"]);
    assert_eq!(near["with"], near["without"]);
    let efficiency = number(&near, "/with/asked/efficiency");
    let far = large(&["1", "--network", "25GB/s,150us"]);
    assert!(number(&far, "/with/asked/efficiency") < efficiency);
    assert_eq!(far["with"]["asked"]["limit"], "network_latency");
    let narrow = large(&["1", "--network", "100MB/s,5us"]);
    assert_eq!(narrow["with"]["asked"]["limit"], "network_bandwidth");
    let shared = large(&["4", "--network", "25GB/s,5us"]);
    assert!(number(&shared, "/with/asked/efficiency") < efficiency);
    assert_eq!(shared["with"]["asked"]["gpus_sharing_a_link"], 4);

    // A plan for several workers takes the place of those that would be found; one for one worker cannot.
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    let (joined, single) = (path("joined.json"), path("single.json"));
    for (plan, flags) in [(&joined, &["--data-parallel"][..]), (&single, &[])] {
        let flags =
            [&[RESNET, "--swapout-threshold", "1", "--dry-run", "-q", "--plan-out", plan], flags].concat();
        let output = tool("lms-rewrite", &flags);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let given = many(&["--network", "25GB/s,5us", "--plan", &joined]);
    assert!(number(&given, "/with/asked/step_seconds") > number(&fast, "/with/asked/step_seconds"));
    let network = ["--nodes", "2", "--network", "1GB/s,1us"];
    fail(1, &[&base[..], &network, &["--plan", &single]].concat(), "the plan is for one worker");
    fail(1, &[&[TOWERS, "--gpu-mem", "1GiB"][..], &network].concat(), "the graph is for 2");
    fail(3, &[&[RESNET, "--gpu-mem", "1GiB"][..], &network].concat(), "a worker does not fit in 1.00 GiB");
    fail(2, &[&base[..], &["--nodes", "2"]].concat(), "--network");
    fail(2, &[&base[..], &["--nodes", "2", "--network", "fast"]].concat(), "such as 25GB/s,5us");
    fail(2, &[&base[..], &network, &["--scale-to", "120%"]].concat(), "at most 100%");
    fail(
        2,
        &[&base[..], &["--nodes", "60000", "--gpus-per-node", "2", "--network", "1GB/s,1us"]].concat(),
        "more than 65536",
    );
}

/// A step that is a function is predicted as any other: with what its workers reduce, and its plans.
#[test]
fn many_gpus_are_predicted_for_a_function() {
    const STEP: &str = "testdata/mnist_cnn_tf2";
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    let (joined, single, workers) = (path("joined.json"), path("single.json"), path("workers"));
    let rewrite = |flags: &[&str]| {
        let output = tool("lms-rewrite", &[&[STEP, "-q"][..], flags].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    };
    rewrite(&["--swapout-threshold", "1", "--dry-run", "--data-parallel", "--plan-out", &joined]);
    rewrite(&["--swapout-threshold", "1", "--dry-run", "--plan-out", &single]);
    rewrite(&["--data-parallel", "-o", &workers]);

    let network = ["--gpu-mem", "64MiB", "--nodes", "4", "--gpus-per-node", "2", "--network", "25GB/s,5us"];
    let base = [&[STEP][..], &network].concat();
    let many = json(0, &base);
    // All weights, 52.8 KiB, and the loss, which the function returns.
    assert_eq!((&many["reduced_bytes"], &many["buckets"]), (&54060.into(), &2.into()));
    assert_eq!((&many["fits_as_it_is"], &many["examples_per_worker"]), (&true.into(), &8.into()));
    assert_eq!(many["with"], many["without"]);
    let seconds = |report: &Value, of: &str| report["with"][of].as_f64().unwrap();
    let alone = json(0, &[STEP, "--gpu-mem", "64MiB"]);
    assert_eq!(many["without"]["alone_seconds"], alone["step_seconds_before"]);
    assert!(many["with"]["asked"]["step_seconds"].as_f64() > Some(seconds(&many, "alone_seconds")));
    // Its swaps take time.
    let swapped = json(0, &[&base[..], &["--plan", &joined]].concat());
    assert!(seconds(&swapped, "alone_seconds") > seconds(&many, "alone_seconds"), "{swapped}");
    fail(1, &[&base[..], &["--plan", &single]].concat(), "the plan is for one worker");
    fail(1, &[&[workers.as_str()][..], &network].concat(), "take them out first: lms-rewrite --strip");
}
