//! What is said of a tensor is what the step does with it.

use super::recordings::returns;
use super::steps::with_chain;
use crate::picture::{BufferKind, Explained, Explanation, Fate, FilteredOps, Recording, StayReason, explain};
use crate::plan::{Draft, Filters, NameOrType, tflms};
use crate::simulate::Outline;
use crate::tune::planned;

/// Whatever is swapped is made, leaves, returns and is read, in this order.
pub(super) fn check_explanations(outline: &Outline, draft: &Draft, before: &Recording, after: &Recording) {
    let mut copied_returns = 0;
    for swap in draft.swaps.iter().step_by(draft.swaps.len() / 40 + 1) {
        let filters = Filters::default();
        let plan = Explained { draft, strategy: tflms::NAME, filters: &filters };
        let explanation = explain(outline, plan, before, after, swap.tensor);
        let Fate::Swapped(life) = &explanation.fate else { panic!("{explanation}") };
        assert_eq!(life.returns.len(), swap.uses.len());
        let Some(leaves) = life.leaves else { continue };
        let before_or_at = |one: f64, other: f64| one <= other + 1e-12;
        if let Some(made) = explanation.made_after {
            assert!(before_or_at(made.end_seconds, leaves.start_seconds), "{explanation}");
        }
        if let Some(held) = explanation.held_after {
            assert!(before_or_at(held.start_seconds, leaves.start_seconds), "{explanation}");
            assert!(before_or_at(leaves.end_seconds, held.end_seconds), "{explanation}");
        }
        for (number, back) in life.returns.iter().enumerate() {
            let Some(copy) = back.copy else { continue };
            copied_returns += 1;
            assert!(leaves.end_seconds <= copy.start_seconds, "{explanation}");
            assert!(back.away_seconds.is_some_and(|away| away >= 0.0), "{explanation}");
            let readers: Vec<_> = explanation
                .consumers
                .iter()
                .filter(|consumer| consumer.reads_return == Some(number))
                .collect();
            assert!(!readers.is_empty(), "{explanation}");
            for runs in readers.iter().filter_map(|reader| reader.runs_after) {
                assert!(copy.end_seconds <= runs.start_seconds, "{explanation}");
            }
            for trigger in back.triggers.iter().filter_map(|trigger| trigger.runs) {
                assert!(trigger.start_seconds <= copy.start_seconds, "{explanation}");
            }
        }
        let order: Vec<_> = explanation.consumers.iter().filter_map(|consumer| consumer.runs_after).collect();
        assert!(order.is_sorted_by(|a, b| a.start_seconds <= b.start_seconds));
    }
    if draft.swaps.len() <= 40 {
        assert_eq!(copied_returns, returns(outline, draft));
    }
}

fn explained(tensor: &str, swapout_threshold: u32) -> Explanation {
    explained_with(tensor, swapout_threshold, (tflms::NAME, &Filters::default()))
}

fn explained_with(
    tensor: &str,
    swapout_threshold: u32,
    (strategy, filters): (&str, &Filters),
) -> Explanation {
    with_chain(swapout_threshold, |outline, draft, before, after| {
        let graph = outline.analysis().graph;
        let named = graph.tensor_ids().find(|&id| graph.tensor_name(id).to_string() == tensor).unwrap();
        explain(outline, Explained { draft, strategy, filters }, before, after, named)
    })
}

#[test]
fn a_swapped_tensor_is_explained() {
    let explanation = explained("a:0", 3);
    let text = explanation.to_string();
    for line in [
        "a:0",
        "  made by      a (Softmax) on GPU 0 (/device:GPU:0)",
        "               which runs from 1.997 to 2.997 ms",
        "  size         1.00 MiB: float32 [1024, 256]",
        "  read by      b (Softmax) on GPU 0 (/device:GPU:0), 1 level away, from 2.997 to 3.997 ms",
        "  read by      1 op that no step runs",
        "  leaves       from 3.997 to 4.973 ms",
        "  returns      from 9.960 to 10.936 ms, after 4.987 ms away, for far",
        "               triggered by renamed (done at 5.997 ms)",
    ] {
        assert!(text.lines().any(|other| other == line), "{line:?} is not in\n{text}");
    }
    assert!(text.contains("5 levels away, from 10.946 to 11.946 ms, from return 1\n"), "{text}");
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["fate"]["swapped"]["returns"][0]["triggers"][0]["name"], "renamed");
    assert_eq!(json["place"]["gpu"]["number"], 0);
}

#[test]
fn what_stays_has_its_reason() {
    let reason = |tensor: &str| match explained(tensor, 3).fate {
        Fate::Stays(reason) => reason,
        Fate::Recomputed | Fate::Swapped(_) => panic!("{tensor} does not stay"),
    };
    assert_eq!(reason("b:0"), StayReason::ConsumersNear { levels_away: 1, swapped_from_levels: 5 });
    assert_eq!(reason("vector:0"), StayReason::FewDimensions { dimensions: Some(1) });
    assert_eq!(reason("in:0"), StayReason::NotOnGpu);
    let because = "it is in host memory already".to_string();
    assert_eq!(reason("host:0"), StayReason::NotSwappable { because });
    assert_eq!(reason("summary:0"), StayReason::NotInStep);
    assert_eq!(reason("end:0"), StayReason::NotRead);
    let Fate::Stays(reason) = explained("a:0", 100).fate else { panic!("nothing is far enough away") };
    assert_eq!(reason, StayReason::NothingSwapped);
}

/// Each strategy has its own reasons: what `planned` leaves where it is, it has no need of.
#[test]
fn a_planned_plan_leaves_what_it_does_not_need() {
    let explanation = |tensor: &str| explained_with(tensor, 3, (planned::NAME, &Filters::default()));
    for tensor in ["b:0", "vector:0", "in:0"] {
        let explanation = explanation(tensor);
        assert_eq!(explanation.fate, Fate::Stays(StayReason::NotNeeded));
        let line = "  not swapped  the plan keeps within its budget without it";
        assert!(explanation.to_string().lines().any(|other| other == line), "{explanation}");
    }
    let Fate::Stays(reason) = explained_with("a:0", 100, (planned::NAME, &Filters::default())).fate else {
        panic!("an empty plan swaps nothing")
    };
    assert_eq!(reason, StayReason::NothingSwapped);
}

#[test]
fn the_filter_that_decides_is_named() {
    let list = |entries: &[&str]| entries.iter().map(ToString::to_string).collect::<Vec<_>>();
    let by = |scopes: &[&str], types: &[&str]| NameOrType { scopes: list(scopes), types: list(types) };
    let none = Filters::default();
    let producer = [
        (Filters { exclude_output_by: by(&["b"], &[]), ..none.clone() }, "--excl-output-by-scopes b"),
        (
            Filters { exclude_output_by: by(&["x"], &["Softmax"]), ..none.clone() },
            "--excl-output-by-types Softmax",
        ),
        (
            Filters { include_output_by: by(&["a"], &["Relu", "Add"]), ..none.clone() },
            "--incl-output-by-scopes a and --incl-output-by-types Relu,Add",
        ),
    ];
    for (filters, flag) in &producer {
        for strategy in [tflms::NAME, planned::NAME] {
            let explanation = explained_with("b:0", 3, (strategy, filters));
            let Fate::Stays(StayReason::Filtered { filter, ops }) = &explanation.fate else {
                panic!("{explanation}")
            };
            assert_eq!((filter.as_str(), *ops), (*flag, FilteredOps::Producer));
            assert!(explanation.to_string().contains(&format!("{flag} leaves its producer out\n")));
        }
    }
    // Far consumers decide in plans by levels, all consumers in planned ones.
    let consumer = |entries| Filters { exclude_input_by: entries, ..none.clone() };
    let fate = |strategy, filters: &Filters| explained_with("b:0", 3, (strategy, filters)).fate;
    let near = StayReason::ConsumersNear { levels_away: 1, swapped_from_levels: 5 };
    assert_eq!(fate(tflms::NAME, &consumer(by(&["c"], &[]))), Fate::Stays(near));
    let filtered = |filter: &str| {
        Fate::Stays(StayReason::Filtered { filter: filter.to_string(), ops: FilteredOps::Consumers })
    };
    assert_eq!(fate(planned::NAME, &consumer(by(&["c"], &[]))), filtered("--excl-input-by-scopes c"));
    assert_eq!(fate(planned::NAME, &consumer(by(&["far"], &[]))), Fate::Stays(StayReason::NotNeeded));
}

#[test]
fn buffers_are_told_apart() {
    let buffer = |tensor: &str| explained(tensor, 100).buffer;
    assert_eq!(buffer("a:0"), BufferKind::TakenOver { of: "copy of in:0".to_string() });
    assert_eq!(buffer("b:0"), BufferKind::Own);
    assert_eq!(buffer("renamed:0"), BufferKind::PassedOn { of: "c:0".to_string() });
    assert_eq!(buffer("summary:0"), BufferKind::Nothing);
}
