//! An added edge brings no new work with effects or needs: to the step from outside, to who stands outside at all.

use super::*;

/// [`chain`] beside a random number, a placeholder, a constant.
fn original() -> Build {
    let mut build = chain();
    build
        .node("shape", "Const", "")
        .node("random", "RandomUniform", "shape")
        .node("noise", "Relu", "random")
        .node("y", "ReadVariableOp", "")
        .node("fed", "Relu", "y")
        .node("fixed", "Relu", "shape")
        .node("v", "VarHandleOp", "")
        .node("read", "ReadVariableOp", "v")
        .node("group", "NoOp", "^d ^noise ^fed ^read");
    build
}

fn triggered_by(trigger: &str) -> Build {
    let mut build = original();
    build.swap_in("a", 0, &format!("a {trigger}")).inputs("c", "b lms/swap_in/a/0_0");
    build
}

#[test]
fn a_trigger_brings_what_it_needs() {
    for trigger in ["^b", "^x", "^fixed", "^shape"] {
        accepts(&original(), &triggered_by(trigger));
    }
    refuses(&original(), &triggered_by("^noise"), ViolationKind::NewEffect, "random");
    refuses(&original(), &triggered_by("^random"), ViolationKind::NewEffect, "random");
    refuses(&original(), &triggered_by("^b ^fed"), ViolationKind::NewWork, "y");
}

#[test]
fn an_order_op_brings_what_it_waits_for() {
    let mut build = original();
    build.node("lms/order/0", "NoOp", "^lms/swap_out/noise/0").swap_out("noise");
    accepts(&original(), &build);
    build.inputs("d", "c ^a ^lms/order/0");
    refuses(&original(), &build, ViolationKind::NewEffect, "d");
}

/// Nobody runs a dropout's mask by itself. Who reads it draws what it waits for anyway.
#[test]
fn a_mask_is_drawn_as_late_as_who_reads_it_allows() {
    let with_mask = |reader: &str| {
        let mut build = original();
        build
            .node("dropped", "Mul", "d noise")
            .node("drawn", "RandomUniform", "shape")
            .node("mask", "Relu", "drawn")
            .node("reader", "Mul", reader)
            .node("step", "NoOp", "^reader ^dropped")
            .train_op("step");
        build
    };
    for (reader, is_late_enough) in [("dropped mask", true), ("c mask", false)] {
        for waits in ["drawn", "mask"] {
            let (before, mut after) = (with_mask(reader), with_mask(reader));
            after.get(waits).input.push("^dropped".into());
            if is_late_enough {
                accepts(&before, &after);
            } else {
                refuses(&before, &after, ViolationKind::NewEffect, "random");
            }
        }
    }
    // What is fed is asked by itself.
    let fed = |mut build: Build| {
        build.get("shape").op = "Placeholder".into();
        build
    };
    let (before, mut after) = (fed(with_mask("dropped mask")), fed(with_mask("dropped mask")));
    after.get("mask").input.push("^dropped".into());
    refuses(&before, &after, ViolationKind::NewEffect, "random");
}

#[test]
fn an_unknown_op_may_do_anything() {
    let (mut before, mut after) = (original(), triggered_by("^noise"));
    for build in [&mut before, &mut after] {
        build.get("random").op = "FrobnicateV9".into();
    }
    refuses(&before, &after, ViolationKind::NewEffect, "random");
}

#[test]
fn within_the_training_step_all_is_run_anyway() {
    let with = |mut build: Build, train_op: &str| build.train_op(train_op).clone();
    accepts(&with(original(), "group"), &with(triggered_by("^fixed ^read"), "group"));
    let mut by_order = original();
    by_order.node("lms/order/0", "NoOp", "^read").inputs("d", "c ^a ^lms/order/0");
    accepts(&with(original(), "group"), &with(by_order, "group"));
    // `d` does not need it.
    refuses(&with(original(), "d"), &with(triggered_by("^read"), "d"), ViolationKind::NewWork, "v");
    // A train op may also be named by the caller.
    let options = crate::verify::CheckOptions { train_ops: vec!["group".to_string()], ..Default::default() };
    let check = crate::verify::check_with;
    let (before, after) = (original().model(), triggered_by("^read").model());
    assert!(check(&before, &after, OpRegistry::builtin(), &options).is_ok());
}

/// Somebody may fetch an op of the step alone: no random number is drawn that was not drawn before, and to see a variable nothing must be
/// fed.
#[test]
fn an_effect_comes_with_no_other_fetch_of_the_step() {
    let with = |mut build: Build| build.train_op("group").clone();
    refuses(&with(original()), &with(triggered_by("^noise")), ViolationKind::NewEffect, "random");
    let fed = |mut build: Build| {
        build.get("y").op = "Placeholder".into();
        build
    };
    accepts(&with(fed(original())), &with(fed(triggered_by("^fed"))));
    let mut hidden = fed(original());
    hidden.node("lms/order/0", "NoOp", "^fed").inputs("read", "v ^lms/order/0");
    refuses(&with(fed(original())), &with(hidden), ViolationKind::NewEffect, "y");
    // Who needs it anyway may wait for it.
    let behind = |mut build: Build| build.inputs("c", "b a ^noise").clone();
    let mut waits = behind(original());
    waits.swap_in("a", 0, "a ^noise").inputs("c", "b lms/swap_in/a/0_0 ^noise");
    accepts(&with(behind(original())), &with(waits));
}

/// Two steps that share `a` and are run in turn; in each `c` and an update come of it.
fn in_turn() -> Build {
    let mut build = Build::of(&[("x", "ReadVariableOp", ""), ("a", "Relu", "x"), ("b", "Relu", "a")]);
    for step in ["d", "g"] {
        let at = |name: &str| format!("{step}/{name}");
        build
            .node(&at("v"), "VarHandleOp", "")
            .node(&at("c"), "AddV2", "b a")
            .node(&at("grad"), "Relu", &at("c"))
            .node(&at("update"), "AssignSubVariableOp", &format!("{} {}", at("v"), at("grad")))
            .node(&at("train"), "NoOp", &format!("^{}", at("update")))
            .another_train_op(&at("train"));
    }
    build
}

#[test]
fn one_step_does_nothing_of_another() {
    let triggered_by = |trigger: &str| {
        let mut build = in_turn();
        build.swap_in("a", 0, &format!("a {trigger}")).inputs("d/c", "b lms/swap_in/a/0_0");
        build
    };
    accepts(&in_turn(), &triggered_by("^b"));
    // An update of the other step.
    let error = refuses(&in_turn(), &triggered_by("^g/update"), ViolationKind::NewWork, "g/v");
    assert!(error.to_string().contains("new_effect: g/update, d/c"), "{error}");
    let mut ordered = in_turn();
    ordered.node("lms/order/0", "NoOp", "^g/update").inputs("d/update", "d/v d/grad ^lms/order/0");
    let error = refuses(&in_turn(), &ordered, ViolationKind::NewWork, "g/v");
    assert!(error.to_string().contains("new_effect: g/update, d/update"), "{error}");
    // What the other step needs to be fed.
    let fed = |mut build: Build| {
        build.node("y", "Placeholder", "").inputs("g/grad", "g/c ^y");
        build
    };
    refuses(&fed(in_turn()), &fed(triggered_by("^g/grad")), ViolationKind::NewWork, "y");
    // And with no train op known.
    let mut unknown = (in_turn(), ordered);
    unknown.0.train_ops.clear();
    unknown.1.train_ops.clear();
    let error = refuses(&unknown.0, &unknown.1, ViolationKind::NewWork, "g/v");
    assert!(error.to_string().contains("new_effect: g/update, d/update"), "{error}");
}

#[test]
fn what_a_loop_needs_is_needed_by_all_of_it() {
    // `b` needs `y` in the second iteration, by way of the loop's own edge.
    let mut original = Build::of(&[
        ("x", "ReadVariableOp", ""),
        ("y", "ReadVariableOp", ""),
        ("y_in", "Enter", "y"),
        ("i_enter", "Enter", "x"),
        ("i", "Merge", "i_enter i_next"),
        ("go_on", "LoopCond", "i"),
        ("i_s", "Switch", "i go_on"),
        ("a", "Relu", "i_s:1"),
        ("b", "Relu", "a"),
        ("c", "AddV2", "b a"),
        ("sum", "AddV2", "c y_in"),
        ("i_next", "NextIteration", "sum"),
        ("z", "ReadVariableOp", ""),
        ("z_in", "Enter", "z"),
    ]);
    for enter in ["y_in", "i_enter", "z_in"] {
        original.attr(enter, "frame_name", Value::S(b"f".to_vec()));
        original.attr(enter, "is_constant", Value::B(enter != "i_enter"));
    }
    let triggered_by = |trigger: &str| {
        let mut build = original.clone();
        build.swap_in("a", 0, &format!("a {trigger}")).inputs("c", "b lms/swap_in/a/0_0");
        build
    };
    accepts(&original, &triggered_by("^y_in"));
    refuses(&original, &triggered_by("^z_in"), ViolationKind::NewWork, "z");
}

#[test]
fn many_targets_take_several_passes() {
    let mut original =
        Build::of(&[("x", "ReadVariableOp", ""), ("y", "ReadVariableOp", ""), ("n0", "Relu", "x")]);
    for index in 1..400 {
        // The later ones need `y`, the earlier ones do not.
        match index {
            300.. => original.node(&format!("n{index}"), "AddV2", &format!("n{} y", index - 1)),
            _ => original.node(&format!("n{index}"), "Relu", &format!("n{}", index - 1)),
        };
    }
    let mut rewritten = original.clone();
    for index in (10..400).step_by(2) {
        rewritten
            .node(&format!("lms/order/{index}"), "NoOp", &format!("^n{}", index - 3))
            .get(&format!("n{index}"))
            .input
            .push(format!("^lms/order/{index}"));
    }
    accepts(&original, &rewritten);
    for index in (10..300).step_by(2) {
        let mut wrong = rewritten.clone();
        wrong.inputs(&format!("lms/order/{index}"), &format!("^n{} ^y", index - 3));
        let error = refuses(&original, &wrong, ViolationKind::NewWork, "y");
        assert_eq!(error.violations.len() + error.further, 1, "{error}");
    }
}

/// That the first violation says that this op is new for this node, and that it is the only one.
#[track_caller]
fn is_new_for(original: &Build, rewritten: &Build, needy: &str, target: &str) {
    let error = refuses(original, rewritten, ViolationKind::NewWork, needy);
    assert_eq!(error.violations[0].nodes, [needy, target], "{error}");
    assert_eq!(error.violations.len() + error.further, 1, "{error}");
}

/// `zeros` needs nothing and is of the step; the gradient that nobody reads, `input_grad`, is not.
fn with_zeros(input_grad: &str) -> Build {
    let mut build = Build::of(&[
        ("shape", "Const", ""),
        ("x", "ReadVariableOp", ""),
        ("a", "Relu", "x"),
        ("zeros", "Fill", "shape shape"),
        ("loss", "AddV2", "a zeros"),
        ("train", "NoOp", "^loss"),
        ("input_grad", "AddV2", input_grad),
    ]);
    build.train_op("train");
    build
}

#[test]
fn an_edge_of_the_step_is_free_where_all_outside_need_what_it_brings() {
    let ordered = |mut build: Build| build.inputs("zeros", "shape shape ^a").clone();
    let by_order_op = |mut build: Build| {
        build.node("lms/order/0", "NoOp", "^a").inputs("zeros", "shape shape ^lms/order/0").clone()
    };
    for input_grad in ["zeros a", "zeros x", "zeros zeros ^loss"] {
        accepts(&with_zeros(input_grad), &ordered(with_zeros(input_grad)));
        accepts(&with_zeros(input_grad), &by_order_op(with_zeros(input_grad)));
    }
    for input_grad in ["zeros shape", "shape shape ^zeros"] {
        is_new_for(&with_zeros(input_grad), &ordered(with_zeros(input_grad)), "x", "input_grad");
        is_new_for(&with_zeros(input_grad), &by_order_op(with_zeros(input_grad)), "x", "input_grad");
    }
}

#[test]
fn where_the_step_is_not_known_each_node_stands_for_itself() {
    let mut original = with_zeros("zeros a");
    original.train_ops.clear();
    let mut rewritten = original.clone();
    rewritten.inputs("zeros", "shape shape ^a");
    is_new_for(&original, &rewritten, "x", "zeros");
}

#[test]
fn what_comes_into_the_step_must_be_of_it_even_if_others_need_it() {
    let mut original = with_zeros("zeros a");
    original.node("y", "ReadVariableOp", "").node("fed", "AddV2", "y a").node("tame", "AddV2", "shape a");
    original.inputs("input_grad", "zeros fed ^tame");
    let waiting = |inputs: &str| original.clone().inputs("zeros", inputs).clone();
    accepts(&original, &waiting("shape shape ^tame"));
    is_new_for(&original, &waiting("shape shape ^fed"), "y", "zeros");
    // By way of an edge between nodes outside, and by way of a swap that others wait for too.
    let mut build = waiting("shape shape ^tame");
    build.inputs("tame", "shape a ^y").inputs("input_grad", "zeros fed ^tame");
    let error = refuses(&original, &build, ViolationKind::NewWork, "y");
    let named: Vec<_> = error.violations.iter().map(|violation| violation.nodes.clone()).collect();
    assert_eq!(named, [["y", "zeros"], ["y", "tame"]], "{error}");
    let mut build = original.clone();
    build.swap_in("a", 0, "a ^shape ^fed").inputs("loss", "lms/swap_in/a/0_0 zeros");
    is_new_for(&original, &build, "y", "loss");
}

/// A model, its step, and an evaluation with these inputs, with something behind it. `grad` needs labels.
fn with_evaluation(evaluation: &str) -> Build {
    let mut build = Build::of(&[
        ("x", "ReadVariableOp", ""),
        ("labels", "ReadVariableOp", ""),
        ("h", "Relu", "x"),
        ("h2", "Relu", "h"),
        ("grad", "Relu", "labels"),
        ("logits", "AddV2", "h2 h"),
        ("top", "Relu", "logits"),
        ("loss", "AddV2", "top grad"),
        ("train", "NoOp", "^loss"),
        ("evaluation", "AddV2", evaluation),
        ("summary", "Relu", "evaluation"),
        ("summaries", "NoOp", "^summary"),
    ]);
    build.train_op("train");
    build
}

#[test]
fn an_evaluation_does_nothing_of_the_gradients() {
    let swapped =
        |mut build: Build| build.swap_in("h", 0, "h ^grad").inputs("logits", "h2 lms/swap_in/h/0_0").clone();
    for evaluation in ["logits x", "top x", "x x ^logits"] {
        let original = with_evaluation(evaluation);
        is_new_for(&original, &swapped(original.clone()), "labels", "evaluation");
    }
    for evaluation in ["h2 x", "top labels", "loss x", "logits grad"] {
        let original = with_evaluation(evaluation);
        accepts(&original, &swapped(original.clone()));
    }
}

#[test]
fn zeros_that_nobody_reads_are_no_run_of_their_own() {
    let swapped =
        |mut build: Build| build.swap_in("h", 0, "h ^grad").inputs("logits", "h2 lms/swap_in/h/0_0").clone();
    let with = |name: &str, op: &str, input: &str| {
        let mut build = with_evaluation("top labels");
        build.node(name, op, input).clone()
    };
    let zeros = with("zeros", "ZerosLike", "logits");
    accepts(&zeros, &swapped(zeros.clone()));
    // Others are, and so are zeros that are read, or that stand in a graph of which nothing is known.
    let other = with("zeros", "Relu", "logits");
    is_new_for(&other, &swapped(other.clone()), "labels", "zeros");
    let mut read = zeros.clone();
    read.node("reader", "Relu", "zeros");
    is_new_for(&read, &swapped(read.clone()), "labels", "zeros");
    let mut unknown = zeros.clone();
    unknown.train_ops.clear();
    refuses(&unknown, &swapped(unknown.clone()), ViolationKind::NewWork, "labels");
}

#[test]
fn who_stands_behind_another_outside_of_the_step_does_what_that_does() {
    // The edge is at a node outside, or two nodes of the step before it; `summary` needs the labels, but too late.
    let mut original = with_evaluation("top x");
    original.inputs("summary", "evaluation ^labels");
    let ordered = |node: &str, inputs: &str| original.clone().inputs(node, inputs).clone();
    is_new_for(&original, &ordered("evaluation", "top x ^grad"), "labels", "evaluation");
    is_new_for(&original, &ordered("h2", "h ^grad"), "labels", "evaluation");
    accepts(&original, &ordered("summary", "evaluation ^labels ^grad"));
    // `more` comes to the step by way of nodes outside only: two of them do nothing new, the third does.
    original.node("more", "AddV2", "summary logits").node("most", "AddV2", "more loss");
    let mut build = original.clone();
    accepts(&original, build.inputs("more", "summary logits ^grad"));
    let mut original = with_evaluation("x x");
    original.node("more", "AddV2", "summary logits");
    let mut build = original.clone();
    is_new_for(&original, build.inputs("h2", "h ^grad"), "labels", "more");
}

#[test]
fn copies_and_swaps_of_the_step_bring_their_triggers_outside() {
    let copied = |build: &Build, trigger: &str, reader: (&str, &str)| {
        let mut build = build.clone();
        build.recompute("h", 0, &format!("x {trigger}")).recompute("h2", 0, "lms/recompute/h/0");
        build.inputs(reader.0, reader.1).clone()
    };
    let by_swap = |build: &Build, reader: (&str, &str)| {
        let mut build = build.clone();
        build.swap_in("x", 0, "x ^grad").recompute("h", 0, "lms/swap_in/x/0_0");
        build.recompute("h2", 0, "lms/recompute/h/0").inputs(reader.0, reader.1).clone()
    };
    let logits = ("logits", "lms/recompute/h2/0 h");
    for (evaluation, is_new) in [("logits x", true), ("top x", true), ("top labels", false), ("h2 x", false)]
    {
        let original = with_evaluation(evaluation);
        let rewritten = [copied(&original, "^grad", logits), by_swap(&original, logits)];
        for rewritten in rewritten {
            match is_new {
                true => is_new_for(&original, &rewritten, "labels", "evaluation"),
                false => _ = accepts(&original, &rewritten),
            }
        }
        accepts(&original, &copied(&original, "^h2", logits));
    }
    // The evaluation itself reads the copy; or it reads it second, after a node of the step.
    let direct = ("evaluation", "lms/recompute/h2/0 x");
    let original = with_evaluation("h2 x");
    is_new_for(&original, &copied(&original, "^grad", direct), "labels", "evaluation");
    is_new_for(&original, &by_swap(&original, direct), "labels", "evaluation");
    let original = with_evaluation("h2 logits");
    let mut rewritten = copied(&original, "^grad", ("evaluation", "lms/recompute/h2/0 logits"));
    is_new_for(&original, rewritten.inputs(logits.0, logits.1), "labels", "evaluation");
}

#[test]
fn an_edge_in_a_loop_is_for_all_who_read_what_the_loop_gives() {
    // Two values go round the loop; who reads the first one's end, did not need the second.
    let mut original = Build::of(&[
        ("x", "ReadVariableOp", ""),
        ("z", "ReadVariableOp", ""),
        ("i_enter", "Enter", "x"),
        ("i", "Merge", "i_enter i_next"),
        ("go_on", "LoopCond", "i"),
        ("i_s", "Switch", "i go_on"),
        ("a", "Relu", "i_s:1"),
        ("b", "Relu", "a"),
        ("c", "AddV2", "b a"),
        ("i_next", "NextIteration", "c"),
        ("out", "Exit", "i_s"),
        ("z_enter", "Enter", "z"),
        ("j", "Merge", "z_enter j_next"),
        ("j_s", "Switch", "j go_on"),
        ("j_body", "Relu", "j_s:1"),
        ("j_next", "NextIteration", "j_body"),
        ("j_out", "Exit", "j_s"),
        ("train", "NoOp", "^out ^j_out"),
        ("evaluation", "AddV2", "out x"),
    ]);
    for enter in ["i_enter", "z_enter"] {
        original.attr(enter, "frame_name", Value::S(b"f".to_vec()));
    }
    original.train_op("train");
    let triggered_by = |build: &Build, trigger: &str| {
        let mut build = build.clone();
        build.swap_in("a", 0, &format!("a {trigger}")).inputs("c", "b lms/swap_in/a/0_0").clone()
    };
    accepts(&original, &triggered_by(&original, "^b"));
    is_new_for(&original, &triggered_by(&original, "^j_body"), "z", "evaluation");
    for evaluation in ["out j_out", "out z"] {
        original.inputs("evaluation", evaluation);
        accepts(&original, &triggered_by(&original, "^j_body"));
    }
    // What the evaluation needs by way of the loop's own edge only, is no new work either.
    original.inputs("evaluation", "out x").inputs("i_next", "c ^j_body");
    accepts(&original, &triggered_by(&original, "^j_body"));
}

#[test]
fn many_nodes_outside_take_several_passes() {
    let mut original =
        Build::of(&[("x", "ReadVariableOp", ""), ("y", "ReadVariableOp", ""), ("fed", "Relu", "y")]);
    original.node("n0", "Relu", "x");
    for index in 1..400 {
        original.node(&format!("n{index}"), "Relu", &format!("n{}", index - 1));
    }
    original.node("train", "NoOp", "^n399 ^fed").train_op("train");
    // Those behind the edge need `y` too, the others do not.
    for index in 0..400 {
        let also = if index < 150 { "x" } else { "y" };
        original.node(&format!("outside{index}"), "AddV2", &format!("n{index} {also}"));
    }
    let ordered = |build: &Build| {
        let mut build = build.clone();
        build.node("lms/order/0", "NoOp", "^fed").inputs("n150", "n149 ^lms/order/0").clone()
    };
    accepts(&original, &ordered(&original));
    for index in (150..400).step_by(9) {
        let mut wrong = original.clone();
        wrong.inputs(&format!("outside{index}"), &format!("n{index} x"));
        is_new_for(&wrong, &ordered(&wrong), "y", &format!("outside{index}"));
    }
}

/// The rule as it is said, for small graphs.
mod by_definition {
    use std::collections::BTreeSet;

    use super::super::generate::Random;
    use super::*;

    /// A graph whose nodes `n0`, `n1`, ... read earlier ones, some of them fed.
    fn random_original(random: &mut Random, count: usize) -> Build {
        let mut build = Build::default();
        build.node("n0", "ReadVariableOp", "");
        for index in 1..count {
            let (a, b, c) = (random.below(index), random.below(index), random.below(index));
            let (op, inputs) = match random.below(8) {
                0 | 1 if random.chance(20) => ("Const", String::new()),
                0 | 1 => ("ReadVariableOp", String::new()),
                2 if random.chance(50) => ("RandomUniform", format!("n{a}")),
                2 if random.chance(30) => ("Placeholder", String::new()),
                2 => ("ReadVariableOp", String::new()),
                3 => ("Relu", format!("n{a} ^n{c}")),
                4..=5 => ("AddV2", format!("n{a} n{b}")),
                _ => ("Relu", format!("n{a}")),
            };
            build.node(&format!("n{index}"), op, &inputs);
        }
        if random.chance(80) {
            let steps: Vec<String> = (0..3).map(|_| format!("^n{}", random.below(count))).collect();
            build.node("train", "NoOp", &steps.join(" ")).train_op("train");
            if random.chance(40) {
                let steps: Vec<String> = (0..2).map(|_| format!("^n{}", random.below(count))).collect();
                build.node("other", "NoOp", &steps.join(" ")).another_train_op("other");
            }
        }
        build
    }

    /// Some edges from any earlier nodes: at nodes, swaps and copies.
    fn random_edges(original: &Build, random: &mut Random) -> Build {
        let mut build = original.clone();
        let mut copies: Vec<(String, String)> = Vec::new();
        for index in 1..original.graph.node.len() {
            let NodeDef { name, op, input, .. } = &original.graph.node[index];
            let numbered = original.graph.node.iter().filter(|node| node.name.starts_with('n')).count();
            let trigger = format!("^n{}", random.below(index.min(numbered)));
            let trigger = if random.chance(60) { trigger } else { String::new() };
            let read = input.first().filter(|input| !input.starts_with('^')).cloned().unwrap_or_default();
            let is_source = |op: &str| matches!(op, "Const" | "ReadVariableOp" | "Placeholder");
            let is_copied =
                |node: &NodeDef| node.name == read && !is_source(&node.op) && node.op != "RandomUniform";
            match random.below(12) {
                0 if !is_source(op) && !trigger.is_empty() => build.get(name).input.push(trigger),
                1 if !is_source(op) && !trigger.is_empty() => {
                    build.node(&format!("lms/order/{index}"), "NoOp", &trigger);
                    build.get(name).input.push(format!("^lms/order/{index}"));
                }
                2 if !read.is_empty() => {
                    build.swap_in(&read, index, &format!("{read} {trigger}"));
                    build.get(name).input[0] = format!("lms/swap_in/{read}/0_{index}");
                }
                3 | 4 if original.graph.node.iter().any(is_copied) => {
                    let from = original.graph.node.iter().find(|node| node.name == read);
                    let mut inputs = from.map(|node| node.input.clone()).unwrap_or_default();
                    for input in &mut inputs {
                        let copy = copies.iter().rev().find(|(of, _)| of == input);
                        *input = copy.map_or(input.clone(), |(_, copy)| copy.clone());
                    }
                    build.recompute(&read, index as u32, &format!("{} {trigger}", inputs.join(" ")));
                    let copy = format!("lms/recompute/{read}/{index}");
                    build.get(name).input[0] = copy.clone();
                    copies.push((read, copy));
                }
                _ => {}
            }
        }
        build
    }

    /// What a run of a node does, by names. With `originals`, who runs a copy counts as one who runs its original.
    fn run_of<'a>(build: &'a Build, node: &'a str, originals: bool) -> BTreeSet<&'a str> {
        let (mut found, mut open) = (BTreeSet::new(), vec![node]);
        while let Some(name) = open.pop() {
            if found.insert(name) {
                let node = build.graph.node.iter().find(|node| node.name == name).unwrap();
                open.extend(node.input.iter().map(|input| input.trim_start_matches('^')));
                let of = name.strip_prefix("lms/recompute/").and_then(|of| of.split_once('/'));
                open.extend(of.filter(|_| originals).map(|(of, _)| of));
            }
        }
        found
    }

    #[test]
    fn random_edges_are_judged_as_the_rule_says() {
        let (mut accepted, mut refused, mut by_step, mut into, mut by_effect, mut across) =
            (0, 0, 0, 0, 0, 0);
        for seed in 0..8000 {
            let mut random = Random::new(seed);
            let count = 6 + random.below(12);
            let original = random_original(&mut random, count);
            let rewritten = random_edges(&original, &mut random);
            let has_op = |name: &str, ops: &[&str]| {
                original.graph.node.iter().any(|node| node.name == name && ops.contains(&&*node.op))
            };
            let steps: Vec<BTreeSet<&str>> =
                original.train_ops.iter().map(|train_op| run_of(&original, train_op, true)).collect();
            // What each node does anew; for one of a step that is what this step does.
            let is_new_for = |needy: &str, node: &str| {
                let in_step = |known: &BTreeSet<&str>| known.contains(node) && !known.contains(needy);
                let is_known = match steps.iter().any(|step| step.contains(node)) {
                    true => !steps.iter().any(in_step),
                    false => run_of(&original, node, true).contains(needy),
                };
                has_op(needy, &["Placeholder", "ReadVariableOp"])
                    && run_of(&rewritten, node, true).contains(needy)
                    && !is_known
            };
            // Whatever is fetched alone, but for what comes of constants and random numbers.
            let comes_of_more = |node: &str| {
                run_of(&original, node, false).iter().any(|of| has_op(of, &["Placeholder", "ReadVariableOp"]))
            };
            let is_new_effect_for = |effect: &str, node: &str| {
                has_op(effect, &["RandomUniform"])
                    && comes_of_more(node)
                    && run_of(&rewritten, node, false).contains(effect)
                    && !run_of(&original, node, false).contains(effect)
            };
            let nodes = || original.graph.node.iter();
            let is_harmed = |node: &str| nodes().any(|needy| is_new_for(&needy.name, node));
            let is_surprised = |node: &str| nodes().any(|effect| is_new_effect_for(&effect.name, node));
            let harmed: Vec<&NodeDef> = nodes().filter(|node| is_harmed(&node.name)).collect();
            let surprised: Vec<&NodeDef> = nodes().filter(|node| is_surprised(&node.name)).collect();
            let is_changed = |node: &&NodeDef| rewritten.graph.node.iter().all(|after| after != *node);
            by_step += usize::from(!harmed.is_empty() && !harmed.iter().any(is_changed));
            into += usize::from(original.train_ops.iter().any(|train_op| is_harmed(train_op)));
            by_effect += usize::from(harmed.is_empty() && !surprised.is_empty());
            across +=
                usize::from(steps.len() > 1 && harmed.iter().any(|node| steps[0].contains(&*node.name)));
            match verify(&original, &rewritten) {
                Ok(_) => {
                    accepted += 1;
                    assert!(
                        harmed.is_empty() && surprised.is_empty(),
                        "seed {seed}: {harmed:?} {surprised:?}"
                    );
                }
                Err(error) => {
                    refused += 1;
                    for violation in &error.violations {
                        let [needy, node] = &violation.nodes[..] else { panic!("{error}") };
                        match violation.kind {
                            ViolationKind::NewWork => {
                                assert!(is_new_for(needy, node), "seed {seed}: {error}")
                            }
                            ViolationKind::NewEffect => {
                                assert!(is_new_effect_for(needy, node), "seed {seed}: {error}");
                            }
                            _ => panic!("seed {seed}: {error}"),
                        }
                    }
                }
            }
        }
        assert!(accepted.min(refused) > 1000, "{accepted} {refused}");
        // Only by way of the step, into it, by an effect alone, and with a second step.
        assert!(by_step.min(into).min(by_effect).min(across) > 20, "{by_step} {into} {by_effect} {across}");
    }
}
