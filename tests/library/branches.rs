//! Steps with branches: of each only one side runs, and a plan has to fit whichever it is.

use std::cmp::Reverse;

use lms_testing::machine::machine;
use tf_lms::plan::Draft;
use tf_lms::simulate::{NoObserver, Outline, Program, simulate};
use tf_lms::tune::Judge;

use crate::outlined::with_step;

/// What a tensor of these steps takes.
const TENSOR_BYTES: u64 = 16 << 10;

/// A node as `name op inputs`, whose outputs all are floats of [`TENSOR_BYTES`].
fn node(text: &str) -> String {
    let mut words = text.split_whitespace();
    let (name, op) = (words.next().unwrap(), words.next().unwrap());
    let inputs: String = words.map(|input| format!("input: '{input}' ")).collect();
    let shape = "shape { dim { size: 4096 } }";
    let key = if op == "Placeholder" { "dtype" } else { "T" };
    format!(
        "node {{ name: '{name}' op: '{op}' {inputs} attr {{ key: '{key}' value {{ type: DT_FLOAT }} }} \
         attr {{ key: '_output_shapes' value {{ list {{ {shape} {shape} }} }} }} }}\n"
    )
}

/// A predicate, fed.
const TRAINS: &str = "node { name: 'trains' op: 'Placeholder' attr { key: 'dtype' value { type: DT_BOOL } } \
    attr { key: 'shape' value { shape { } } } attr { key: '_output_shapes' value { list { shape { } } } } }
    node { name: 'again' op: 'Identity' input: 'trains' attr { key: 'T' value { type: DT_BOOL } } \
    attr { key: '_output_shapes' value { list { shape { } } } } }\n";

/// A branch that keeps four tensors on one side, and two on the other.
fn uneven() -> String {
    step(&[
        "x Placeholder",
        "first Switch x trains",
        "second Switch x again",
        "a Tanh first:1",
        "b Tanh a",
        "c Tanh b",
        "d AddN a b c",
        "e Exp second",
        "f AddN second e",
        "merged Merge d f",
        "train Tanh merged",
    ])
}

/// A step of such nodes.
fn step(nodes: &[&str]) -> String {
    let attrs = |text: String| match text.contains("'AddN'") {
        true => text.replacen(
            "attr {",
            &format!("attr {{ key: 'N' value {{ i: {} }} }} attr {{", text.matches("input:").count()),
            1,
        ),
        false if text.contains("'Merge'") => {
            text.replacen("attr {", "attr { key: 'N' value { i: 2 } } attr {", 1)
        }
        false => text,
    };
    let nodes: String = nodes.iter().map(|text| attrs(node(text))).collect();
    format!("{TRAINS}{nodes}")
}

fn peak(outline: &Outline) -> u64 {
    simulate(&Program::new(outline, &Draft::default()), &machine(Vec::new()), &mut NoObserver)
        .unwrap_or_default()
        .peak_bytes()
}

/// Two names of one predicate are one choice, and what is told is told of the side that takes more, not of both.
#[test]
fn the_side_that_takes_more_counts() {
    with_step(&uneven(), |outline| {
        let both = peak(outline);
        let greatest = outline.in_greatest_case(peak).unwrap();
        let graph = greatest.analysis().graph;
        let chosen: Vec<(&str, bool)> = greatest
            .chosen()
            .iter()
            .map(|&(tensor, value)| (graph.name(graph.producer(tensor)), value))
            .collect();
        assert_eq!(chosen, [("trains", true)]);
        let [other] = greatest.other_cases() else { panic!("{} other cases", greatest.other_cases().len()) };
        assert!(peak(other) + TENSOR_BYTES <= peak(&greatest), "{} {}", peak(other), peak(&greatest));
        assert!(peak(&greatest) < both, "{} {both}", peak(&greatest));
        assert_eq!(greatest.with_all_sides().map(|all| peak(&all)), Some(both));
    });
}

/// What does not fit with the other side does not fit.
#[test]
fn a_plan_has_to_fit_in_all_cases() {
    with_step(&uneven(), |outline| {
        let least = outline.in_greatest_case(|outline| Reverse(peak(outline))).unwrap();
        let most = peak(&least.other_cases()[0]);
        let fits = |bytes: u64| {
            let machine = machine(vec![bytes]);
            let mut judge = Judge::new(&least, &machine);
            judge.trust_the_profile();
            judge.judge(&Draft::default()).is_ok()
        };
        assert!(fits(most + TENSOR_BYTES));
        assert!(peak(&least) < most - 256 && !fits(most - 256));
    });
}

/// Both sides of a layer that may be left out count: what goes past it is in no memory of its own, and what it makes stays until it is read.
#[test]
fn what_a_layer_makes_counts_though_it_may_be_left_out() {
    // The last op reads what was there before the layer, what comes of it, and more that is made meanwhile.
    let around = ["x Placeholder", "before Tanh x", "way Switch before trains"];
    let behind = ["one Exp x", "other Tanh one", "train AddN one other before merged"];
    let peak_with = |layer: &[&str]| with_step(&step(&[&around[..], layer, &behind].concat()), peak);
    let left_out = peak_with(&["past Identity way", "made Identity way:1", "merged Merge past made"]);
    let made = peak_with(&["past Identity way", "made Exp way:1", "merged Merge past made"]);
    assert!(made >= left_out + TENSOR_BYTES, "{made} {left_out}");
}

/// The runtime's folder knows no shapes, so what asks for one runs, and what is filled in that shape is filled in each step.
#[test]
fn what_has_the_shape_of_another_is_filled_in_each_step() {
    let int = "attr { key: '_output_shapes' value { list { shape { dim { size: 1 } } } } }";
    let step = format!(
        "{}{}{}{}",
        node("x Placeholder"),
        format_args!(
            "node {{ name: 'shape' op: 'Shape' input: 'x' attr {{ key: 'T' value {{ type: DT_FLOAT }} }} {int} }}\n"
        ),
        "node { name: 'zero' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } } \
         attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 0 } } } \
         attr { key: '_output_shapes' value { list { shape { } } } } }\n",
        [node("zeros Fill shape zero"), node("train AddV2 x zeros")].concat(),
    );
    with_step(&step, |outline| {
        let graph = outline.analysis().graph;
        let names: Vec<&str> = outline.order().iter().map(|&node| graph.name(node)).collect();
        assert_eq!(names, ["x", "shape", "zeros", "train"]);
    });
}

/// Zeros that are filled beforehand are kept once, but once for each of the ops that they wait for.
#[test]
fn equal_zeros_that_wait_for_others_are_kept_apart() {
    let kept = |waits: [&str; 2]| {
        let constant = |name: &str, dtype: &str, value: &str, size: &str| {
            format!(
                "node {{ name: '{name}' op: 'Const' attr {{ key: 'dtype' value {{ type: {dtype} }} }} \
                 attr {{ key: 'value' value {{ tensor {{ dtype: {dtype} tensor_shape {{ {size} }} {value} }} }} }} \
                 attr {{ key: '_output_shapes' value {{ list {{ shape {{ {size} }} }} }} }} }}\n"
            )
        };
        let step = [
            node("x Placeholder"),
            node("one Tanh x"),
            node("other Exp x"),
            constant("dims", "DT_INT32", "int_val: 4096", "dim { size: 1 }"),
            constant("zero", "DT_FLOAT", "float_val: 0", ""),
            node(&format!("first Fill dims zero ^{}", waits[0])),
            node(&format!("second Fill dims zero ^{}", waits[1])),
            node("of_first Sub one first"),
            node("of_second Sub other second"),
            node("train AddV2 of_first of_second"),
        ];
        with_step(&step.concat(), |outline| outline.persistent_bytes().sum::<u64>())
    };
    assert_eq!(kept(["one", "other"]), kept(["one", "one"]) + TENSOR_BYTES);
}
