//! No pair of files makes the checker panic.

use super::generate::{Random, random_graph};
use super::*;

#[test]
fn unrelated_models_are_refused() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let (a, b) = (random_graph(&mut random), random_graph(&mut random));
        if a.graph != b.graph {
            assert!(verify(&a, &b).is_err(), "seed {seed}");
        }
    }
}

#[test]
fn garbage_in_names_inputs_and_attributes_is_refused_or_harmless() {
    let pieces = [
        "",
        "^",
        ":",
        ":0",
        "a:b",
        "a:-1",
        "^^",
        "lms/",
        "lms/swap_in/",
        "lms/swap_in/a/0_0",
        "lms/order/0",
        "b",
        "é",
    ];
    for (index, piece) in pieces.iter().enumerate() {
        for (other, second) in pieces.iter().enumerate() {
            let mut original = chain();
            original.node(piece, second, second);
            let mut rewritten = swapped();
            rewritten.node(piece, second, second).node(second, "Merge", piece);
            let mut changed = swapped();
            changed.graph.node[index % 6].name = second.to_string();
            changed.graph.node[other % 6].input.push(piece.to_string());
            changed.graph.node[other % 6].op = "Switch".to_string();
            for (a, b) in [
                (&original, &rewritten),
                (&rewritten, &original),
                (&original, &original),
                (&rewritten, &rewritten),
                (&chain(), &changed),
                (&changed, &changed),
            ] {
                let _ = verify(a, b);
            }
        }
    }
}

#[test]
fn control_flow_ops_without_their_inputs_do_no_harm() {
    let ops =
        ["Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "_SwitchN", "RefMerge", "Assign"];
    for first in ops {
        for second in ops {
            for inputs in ["", "a", "^a", "a a:1", "b:1 a:7", "a ^b"] {
                let mut original = chain();
                original.node("f", first, inputs).node("g", second, "f:1 f ^f").node("h", "Relu", "g:9");
                accepts(&original, &original);
                let mut rewritten = original.clone();
                rewritten.swap_in("f", 0, "f ^g").swap_in("g", 0, "g ^a").inputs("h", "lms/swap_in/g/0_0");
                let _ = verify(&original, &rewritten);
            }
        }
    }
}
