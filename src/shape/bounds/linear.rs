//! How far two integers are apart that nobody knows, as the ends of the part `i * 128` to `(i + 1) * 128` of a batch.

use super::{Bounds, values};
use crate::graph::{NodeId, TensorId};

/// How far back sums and products are followed, each way of each: a sum of sums has twice as many at each step.
const DEEPEST: u32 = 8;

/// So many times a number that is not known, if there is one, and some more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Linear {
    unknown: Option<TensorId>,
    factor: i64,
    offset: i64,
}

impl Linear {
    fn constant(offset: i64) -> Linear {
        Linear { unknown: None, factor: 0, offset }
    }

    /// The sum with so many times another; none if two numbers are unknown.
    fn plus(self, other: Linear, times: i64) -> Option<Linear> {
        let unknown = match (self.unknown, other.unknown) {
            (Some(one), Some(other)) if one != other => return None,
            (one, other) => one.or(other),
        };
        let sum = |one: i64, other: i64| one.checked_add(other.checked_mul(times)?);
        Some(Linear {
            unknown,
            factor: sum(self.factor, other.factor)?,
            offset: sum(self.offset, other.offset)?,
        })
    }

    fn times(self, factor: i64) -> Option<Linear> {
        Linear { unknown: self.unknown, ..Linear::constant(0) }.plus(self, factor)
    }

    /// The number, if what is unknown does not count.
    fn known(self) -> Option<i64> {
        (self.factor == 0).then_some(self.offset)
    }
}

/// By how much one place of the vector `to` is more than the same place of the vector `from`, whatever both are.
pub(super) fn difference(
    bounds: &mut Bounds,
    node: NodeId,
    [from, to]: [usize; 2],
    place: usize,
) -> Option<i64> {
    let [from, to] = [from, to].map(|slot| element(bounds, node, slot, place));
    to?.plus(from?, -1)?.known()
}

/// One place of an input that is a vector.
fn element(bounds: &mut Bounds, node: NodeId, slot: usize, place: usize) -> Option<Linear> {
    let vector = *bounds.graph.data_inputs(node).get(slot)?;
    if let Some(values) = values::of(bounds, vector)
        && let Some(exact) = values.get(place).and_then(|value| value.exact())
    {
        return Some(Linear::constant(exact));
    }
    let packs = bounds.graph.producer(vector);
    if bounds.graph.op(packs).name() != "Pack" {
        return None;
    }
    let part = *bounds.graph.data_inputs(packs).get(place)?;
    // Of several numbers each, the place would be another.
    (bounds.shapes.get(part) == Some(&[])).then(|| scalar(bounds, part, DEEPEST))?
}

/// What a single number is made of.
fn scalar(bounds: &mut Bounds, tensor: TensorId, deep: u32) -> Option<Linear> {
    let itself = Linear { unknown: Some(tensor), factor: 1, offset: 0 };
    if let Some([value]) = values::of(bounds, tensor).as_deref()
        && let Some(exact) = value.exact()
    {
        return Some(Linear::constant(exact));
    }
    let node = bounds.graph.producer(tensor);
    let inputs = bounds.graph.data_inputs(node);
    let all_single = inputs.iter().all(|&input| bounds.shapes.get(input) == Some(&[]));
    if deep == 0 || !all_single {
        return Some(itself);
    }
    let op = bounds.graph.op(node).name();
    let mut input = |slot: usize| inputs.get(slot).and_then(|&input| scalar(bounds, input, deep - 1));
    let made = match op {
        "Identity" => input(0),
        "Add" | "AddV2" => input(0)?.plus(input(1)?, 1),
        "Sub" => input(0)?.plus(input(1)?, -1),
        "Mul" => {
            let (one, other) = (input(0)?, input(1)?);
            other.known().and_then(|factor| one.times(factor)).or_else(|| other.times(one.known()?))
        }
        _ => None,
    };
    // Of what else there is, only that it is the same wherever it is read.
    Some(made.unwrap_or(itself))
}
