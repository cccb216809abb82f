//! What holds of the table as a whole.

use super::rows::{FAMILIES, OPS};
use super::{Fact, Facts, Pass, Traffic, WorkKind};
use crate::dtype::DataType;
use crate::ops::{OpInfo, OpRegistry};

/// A name that TensorFlow does not have would be a row that never counts.
#[test]
fn all_are_ops_of_tensorflow() {
    let registry = OpRegistry::builtin();
    assert!(
        OPS.is_sorted_by(|one, next| one.0 < next.0) && FAMILIES.is_sorted_by(|one, next| one.0 < next.0)
    );
    for (op, facts) in OPS {
        assert!(registry.get(op).is_some(), "{op}");
        assert!(!facts.is_empty(), "{op}");
    }
    for (start, facts) in FAMILIES {
        assert!(registry.iter().any(|op| op.name().starts_with(start)), "{start}");
        assert!(!facts.is_empty(), "{start}");
    }
}

#[test]
fn no_fact_stands_twice() {
    for op in OpRegistry::builtin().iter() {
        let facts = &op.facts().all;
        let again = |index: usize, fact: &Fact| facts[..index].contains(fact);
        assert!(!facts.iter().enumerate().any(|(index, fact)| again(index, fact)), "{}", op.name());
    }
}

#[test]
fn no_buffer_is_of_two_kinds() {
    for op in OpRegistry::builtin().iter() {
        let facts = op.facts();
        let kinds = [
            facts.has(Fact::TakesOver),
            facts.passes_on(0).is_some(),
            facts.has(Fact::Persistent),
            facts.has(Fact::Resizes),
        ];
        assert!(kinds.iter().filter(|kind| **kind).count() <= 1, "{}", op.name());
    }
}

#[test]
fn operands_are_where_the_definitions_say() {
    let argument = |op: &OpInfo, index: usize| op.inputs()[index].name.clone();
    for op in OpRegistry::builtin().iter() {
        let name = op.name();
        match op.facts().work() {
            WorkKind::Convolution(pass) if !name.starts_with('_') => {
                let (index, wanted) = if pass == Pass::FilterGradient { (0, "input") } else { (1, "filter") };
                assert_eq!(argument(op, index), wanted, "{name}");
                if pass != Pass::Forward {
                    assert_eq!(argument(op, 2), "out_backprop", "{name}");
                }
            }
            WorkKind::Recurrent { input, weights, .. } => {
                let input = argument(op, input);
                assert!(matches!(input.as_str(), "x" | "input"), "{name}: {input}");
                for &index in weights {
                    let weights = argument(op, index);
                    assert!(matches!(weights.as_str(), "w" | "w_ru" | "w_c" | "params"), "{name}: {weights}");
                }
            }
            WorkKind::Memory(Traffic::Input { input, .. }) => {
                let value = argument(op, input);
                assert!(matches!(value.as_str(), "value" | "updates"), "{name}: {value}");
            }
            WorkKind::Update => {
                let is_variable = |dtype| DataType::new(dtype) == DataType::RESOURCE;
                assert!(op.inputs().iter().any(|arg| arg.is_ref || is_variable(arg.r#type)), "{name}");
            }
            _ => {}
        }
        if let Some(input) = op.facts().adds() {
            assert!(matches!(argument(op, input).as_str(), "elem" | "value" | "tensor" | "item"), "{name}");
        }
    }
}

/// What shares its input's buffer moves nothing, but for a check of all values.
#[test]
fn what_passes_a_buffer_on_is_free() {
    for op in OpRegistry::builtin().iter().filter(|op| op.facts().passes_on(0).is_some()) {
        assert_eq!(op.facts().work() == WorkKind::Free, op.name() != "CheckNumerics", "{}", op.name());
    }
}

#[test]
fn a_row_comes_before_its_family() {
    assert_eq!(Facts::of("ScatterNd").work(), WorkKind::Memory(Traffic::Everything { again: &[] }));
    assert_eq!(Facts::of("ScatterAdd").work(), WorkKind::Memory(Traffic::Input { input: 2, passes: 3 }));
    // Of two families, and of none.
    assert!(Facts::of("StackPopV2").has(Fact::TakesOff) && Facts::of("StackPopV2").has(Fact::HasNoEffect));
    assert_eq!(Facts::of("NobodyKnowsThis"), Facts { all: Vec::new() });
}

/// The software GPU has a list of its own, as TensorFlow's kernels have. Where both differ, so do predicted and measured peaks.
#[test]
fn the_software_gpu_takes_over_the_same() {
    let listed: Vec<&str> = include_str!("../../../softgpu/src/kernels/takes_over.txt").lines().collect();
    let known = OpRegistry::builtin().iter().filter(|op| op.facts().has(Fact::TakesOver));
    let mut known: Vec<&str> = known.map(OpInfo::name).collect();
    known.sort_unstable();
    assert_eq!(known, listed);
}
