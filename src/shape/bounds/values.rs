//! The integers that ops take as sizes, positions and axes.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use prost::Message;

use super::{Bounds, Counter, axis_of};
use crate::dtype::DataType;
use crate::graph::{Graph, NodeId, TensorId};
use crate::proto::tensorflow::attr_value::Value as AttrKind;
use crate::proto::tensorflow::{AttrValue, TensorProto};

/// Vectors of sizes are short; what is longer is no such vector.
const LONGEST: i64 = 256;

/// How far back values are followed.
const DEEPEST: u32 = 48;

/// A number that is not exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value {
    pub at_most: i64,
    /// Whether it is that number.
    pub is_exact: bool,
    /// Whether it is not below zero.
    pub is_size: bool,
}

impl Value {
    fn is(number: i64) -> Value {
        Value { at_most: number, is_exact: true, is_size: number >= 0 }
    }

    /// A number that two others make: exact if both are.
    fn made_of(one: Value, other: Value, at_most: i64) -> Value {
        let is_exact = one.is_exact && other.is_exact;
        Value {
            at_most,
            is_exact,
            is_size: if is_exact { at_most >= 0 } else { one.is_size && other.is_size },
        }
    }

    /// The number, if it is known.
    pub fn exact(self) -> Option<i64> {
        self.is_exact.then_some(self.at_most)
    }
}

/// What has been found, and how deep the search is.
#[derive(Default)]
pub(super) struct Values {
    found: HashMap<TensorId, Option<Rc<[Value]>>>,
    /// The tensors that are vectors though the inference does not say so.
    vectors: HashSet<TensorId>,
    depth: u32,
}

impl Values {
    /// Takes down what a loop's counter is at most.
    pub fn count(&mut self, counter: &Counter) {
        let value = Value { at_most: counter.at_most, is_exact: false, is_size: counter.is_size };
        self.found.insert(counter.tensor, Some(Rc::from([value])));
    }
}

/// The integers of a tensor, in the order of its elements.
pub(super) fn of(bounds: &mut Bounds, tensor: TensorId) -> Option<Vec<Value>> {
    let graph = bounds.graph;
    let node = graph.producer(tensor);
    let dtype = graph.output_type(tensor).dtype;
    if node.index() >= graph.len() || !matches!(dtype, DataType::INT32 | DataType::INT64) {
        return None;
    }
    if let Some(found) = bounds.values.found.get(&tensor) {
        return found.as_ref().map(|values| values.to_vec());
    }
    if bounds.values.depth >= DEEPEST {
        return None;
    }
    bounds.values.depth += 1;
    let made = made_by(bounds, node, tensor);
    let values = made.filter(|values| match bounds.shapes.get(tensor) {
        Some(shape) => super::product(shape) == Some(values.len() as i64),
        None => is_of_vector(bounds, node, tensor),
    });
    bounds.values.depth -= 1;
    bounds.values.found.insert(tensor, values.as_deref().map(Rc::from));
    values
}

/// Whether an op of whose output the inference knows no shape hands a vector on, or makes a slice of one.
fn is_of_vector(bounds: &mut Bounds, node: NodeId, tensor: TensorId) -> bool {
    let graph = bounds.graph;
    let comes_from_vector = graph.data_inputs(node).first().is_some_and(|&input| is_vector(bounds, input));
    let hands_on_vector = match graph.op(node).name() {
        "Merge" => true,
        "Enter" | "Exit" | "Switch" | "Identity" => comes_from_vector,
        "StridedSlice" => return comes_from_vector,
        _ => false,
    };
    if hands_on_vector {
        bounds.values.vectors.insert(tensor);
    }
    hands_on_vector
}

fn is_vector(bounds: &Bounds, tensor: TensorId) -> bool {
    bounds.shapes.rank(tensor) == Some(1) || bounds.values.vectors.contains(&tensor)
}

fn made_by(bounds: &mut Bounds, node: NodeId, tensor: TensorId) -> Option<Vec<Value>> {
    let op = bounds.graph.op(node).name();
    let output = bounds.graph.output_index(tensor) as usize;
    let one = |value: Value| Some(vec![value]);
    match op {
        "Const" => constant(bounds, node),
        "Identity" | "StopGradient" | "PreventGradient" | "Snapshot" | "Reshape" | "ExpandDims"
        | "Squeeze" | "Enter" | "Exit" | "Switch" | "Cast"
            if output == 0 || op == "Switch" =>
        {
            bounds.values(node, 0)
        }
        // The only branch that is taken gives it out.
        "Merge"
            if output == 0 && bounds.graph.data_inputs(node).iter().any(|&input| bounds.is_dead(input)) =>
        {
            let mut alive = bounds.graph.data_inputs(node).iter().filter(|&&input| !bounds.is_dead(input));
            let (&taken, None) = (alive.next()?, alive.next()) else { return None };
            of(bounds, taken)
        }
        // What a loop carries around as it is has the value that it began with.
        "Merge" if output == 0 && is_carried_unchanged(bounds.graph, node) => {
            let first = *bounds.graph.data_inputs(node).first()?;
            if bounds.shapes.get(tensor).is_none() && !is_vector(bounds, first) {
                return None;
            }
            of(bounds, first)
        }
        // What only ever gets larger is at most the largest of what it is compared with.
        "Merge" if output == 0 => {
            let other = carried_maximum(bounds.graph, node)?;
            let first = *bounds.graph.data_inputs(node).first()?;
            let length = bounds.shapes.get(other).filter(|shape| shape.len() == 1)?.first().copied()?;
            let (first, other) = (of(bounds, first)?, of(bounds, other)?);
            let larger = |(one, other): (&Value, &Value)| Value {
                at_most: one.at_most.max(other.at_most),
                is_exact: false,
                is_size: one.is_size || other.is_size,
            };
            let are_as_long = first.len() as i64 == length && other.len() == first.len();
            are_as_long.then(|| first.iter().zip(&other).map(larger).collect())
        }
        "Shape" => shape(bounds, node, 0),
        "ShapeN" => shape(bounds, node, output),
        "Size" => {
            let sizes = shape(bounds, node, 0)?;
            one(sizes.into_iter().try_fold(Value::is(1), times)?)
        }
        "Rank" => {
            let rank = bounds.shapes.rank(*bounds.graph.data_inputs(node).first()?)?;
            one(Value::is(rank as i64))
        }
        "Pack" => {
            let parts = (0..bounds.graph.data_inputs(node).len()).map(|slot| bounds.values(node, slot));
            let parts: Vec<_> = parts.collect::<Option<_>>()?;
            // Of longer ones another axis would say how they are mixed.
            let are_in_order = bounds.number(node, "axis") == 0 || parts.iter().all(|part| part.len() == 1);
            are_in_order.then(|| parts.concat())
        }
        "ConcatV2" => {
            let parts = bounds.graph.data_inputs(node).len().checked_sub(1)?;
            let parts: Option<Vec<_>> = (0..parts).map(|slot| bounds.values(node, slot)).collect();
            Some(parts?.concat())
        }
        "StridedSlice" => super::slices::of_values(bounds, node),
        "Slice" => {
            let values = bounds.values(node, 0)?;
            let (begin, size) = (bounds.exact_values(node, 1)?, bounds.exact_values(node, 2)?);
            let (&[begin], &[size]) = (&*begin, &*size) else { return None };
            let begin = usize::try_from(begin).ok()?;
            let end = if size < 0 { values.len() } else { begin.checked_add(usize::try_from(size).ok()?)? };
            values.get(begin..end).map(<[Value]>::to_vec)
        }
        "Gather" | "GatherV2" => {
            let values = bounds.values(node, 0)?;
            let places = bounds.exact_values(node, 1)?;
            places.into_iter().map(|place| values.get(usize::try_from(place).ok()?).copied()).collect()
        }
        "Add" | "AddV2" => pairs(bounds, node, |one, other| {
            Some(Value::made_of(one, other, one.at_most.checked_add(other.at_most)?))
        }),
        "Sub" => pairs(bounds, node, |one, other| {
            let least = other.exact().or(other.is_size.then_some(0))?;
            let at_most = one.at_most.checked_sub(least)?;
            let is_size = one.is_exact && other.is_exact && at_most >= 0;
            Some(Value { is_size, ..Value::made_of(one, other, at_most) })
        }),
        "Neg" => {
            let numbers = bounds.exact_values(node, 0)?;
            numbers.into_iter().map(|number| Some(Value::is(number.checked_neg()?))).collect()
        }
        "Mul" => pairs(bounds, node, times),
        "Maximum" => pairs(bounds, node, |one, other| {
            let is_size = one.is_size || other.is_size;
            Some(Value { is_size, ..Value::made_of(one, other, one.at_most.max(other.at_most)) })
        }),
        "Minimum" => minimum(bounds, node),
        "FloorDiv" => pairs(bounds, node, |one, other| {
            let by = other.exact().filter(|&by| by > 0)?;
            Some(Value { at_most: one.at_most.div_euclid(by), ..one })
        }),
        "FloorMod" => pairs(bounds, node, |one, other| {
            let by = other.exact().filter(|&by| by > 0)?;
            let rest = one.exact().map(|number| number.rem_euclid(by));
            // Of an unknown number it is less than what that is divided by.
            let at_most = rest.unwrap_or(by - 1);
            Some(Value { at_most, is_exact: rest.is_some(), is_size: true })
        }),
        "Prod" => one(bounds.values(node, 0)?.into_iter().try_fold(Value::is(1), times)?),
        "Max" => {
            let values = bounds.values(node, 0)?;
            let at_most = values.iter().map(|value| value.at_most).max()?;
            let is_exact = values.iter().all(|value| value.is_exact);
            one(Value { at_most, is_exact, is_size: values.iter().any(|value| value.is_size) })
        }
        "Min" => {
            let values = bounds.values(node, 0)?;
            let at_most = values.iter().map(|value| value.at_most).min()?;
            let is_exact = values.iter().all(|value| value.is_exact);
            let is_size = values.iter().all(|value| value.is_size);
            one(Value { at_most, is_exact, is_size })
        }
        "Range" => {
            let [start, limit, delta] = [0, 1, 2].map(|slot| bounds.exact_values(node, slot));
            let (&[start], &[limit], &[delta]) = (&*start?, &*limit?, &*delta?) else { return None };
            let count = (limit.checked_sub(start)? as f64 / delta as f64).ceil();
            (0.0..=LONGEST as f64)
                .contains(&count)
                .then(|| (0..count as i64).map(|i| Value::is(start + i * delta)).collect())
        }
        // Of vectors, in which an order of dimensions is turned.
        "Roll" => {
            let mut values = bounds.values(node, 0)?;
            let (shift, axis) = (bounds.exact_values(node, 1)?, bounds.exact_values(node, 2)?);
            let (&[shift], &[0 | -1]) = (&*shift, &*axis) else { return None };
            let rank = bounds.shapes.rank(*bounds.graph.data_inputs(node).first()?)?;
            let shift = shift.rem_euclid(values.len().max(1) as i64) as usize;
            values.rotate_right(shift);
            (rank == 1).then_some(values)
        }
        "InvertPermutation" => {
            let order = bounds.exact_values(node, 0)?;
            let place_of = |place: usize| order.iter().position(|&at| at == place as i64);
            (0..order.len()).map(|place| Some(Value::is(place_of(place)? as i64))).collect()
        }
        "OptionalGetValue" => {
            let optional = *bounds.graph.data_inputs(node).first()?;
            let &[held] = &*super::optionals::held(bounds.graph, optional, output)? else { return None };
            of(bounds, held)
        }
        "SparseReshape" if output == 1 => sparse_shape(bounds, node),
        "Fill" => {
            let count = super::product(&bounds.exact_values(node, 0)?)?;
            let &[value] = &*bounds.values(node, 1)? else { return None };
            (0..=LONGEST).contains(&count).then(|| vec![value; count as usize])
        }
        _ => None,
    }
}

/// Whether a `Merge` belongs to a loop whose body hands on what it got: from the `Switch` behind it to its own second input.
fn is_carried_unchanged(graph: &Graph, merge: NodeId) -> bool {
    next_value(graph, merge).is_some_and(|next| comes_from(graph, next, merge))
}

/// What else the larger of two is made of, where a loop brings that back to a `Merge` and one of them is the `Merge`'s own value.
fn carried_maximum(graph: &Graph, merge: NodeId) -> Option<TensorId> {
    let maximum =
        handed_on(graph, next_value(graph, merge)?).filter(|&node| graph.op(node).name() == "Maximum")?;
    let &[one, other] = graph.data_inputs(maximum) else { return None };
    match (comes_from(graph, one, merge), comes_from(graph, other, merge)) {
        (true, false) => Some(other),
        (false, true) => Some(one),
        _ => None,
    }
}

/// What a loop brings back to a `Merge`, if that is one of a loop.
fn next_value(graph: &Graph, merge: NodeId) -> Option<TensorId> {
    let next = made(graph, *graph.data_inputs(merge).get(1)?)?;
    (graph.op(next).name() == "NextIteration").then(|| graph.data_inputs(next).first().copied())?
}

/// Whether a tensor is that of a `Merge`, behind `Switch` and `Identity`.
fn comes_from(graph: &Graph, tensor: TensorId, merge: NodeId) -> bool {
    handed_on(graph, tensor) == Some(merge)
}

/// The op that made what `Switch` and `Identity` hand on.
fn handed_on(graph: &Graph, mut tensor: TensorId) -> Option<NodeId> {
    for _ in 0..DEEPEST {
        let node = made(graph, tensor)?;
        match graph.op(node).name() {
            "Identity" | "Switch" => tensor = *graph.data_inputs(node).first()?,
            _ => return Some(node),
        }
    }
    None
}

/// The op that makes a tensor; none if it is an argument of a function.
fn made(graph: &Graph, tensor: TensorId) -> Option<NodeId> {
    let node = graph.producer(tensor);
    (node.index() < graph.len()).then_some(node)
}

/// The sizes of an input.
fn shape(bounds: &Bounds, node: NodeId, slot: usize) -> Option<Vec<Value>> {
    let tensor = *bounds.graph.data_inputs(node).get(slot)?;
    let known = bounds.shapes.get(tensor);
    if let Some(known) = known.filter(|known| known.iter().all(|&size| size >= 0)) {
        return Some(known.iter().map(|&size| Value::is(size)).collect());
    }
    let most = bounds.most(tensor)?;
    let is_exact = bounds.exact.contains(&tensor);
    let exact =
        |place: usize| is_exact || known.and_then(|known| known.get(place)).is_some_and(|&size| size >= 0);
    let value = |(place, at_most)| Value { at_most, is_exact: exact(place), is_size: true };
    Some(most.into_iter().enumerate().map(value).collect())
}

/// A product. Two numbers below zero would exceed that of what they are at most.
fn times(one: Value, other: Value) -> Option<Value> {
    let is_bounded = one.is_exact && other.is_exact || one.is_size && other.is_size;
    is_bounded.then_some(Value::made_of(one, other, one.at_most.checked_mul(other.at_most)?))
}

/// What a sparse tensor is made into, of which one size may be left to follow from the others.
fn sparse_shape(bounds: &mut Bounds, node: NodeId) -> Option<Vec<Value>> {
    let (old, wanted) = (bounds.values(node, 1)?, bounds.values(node, 2)?);
    let is_open = |value: &Value| value.exact() == Some(-1);
    let all = old.into_iter().try_fold(Value::is(1), times)?;
    // Of the others, those that are only bounded may be as small as one.
    let others = wanted.iter().filter(|value| !is_open(value));
    let mut exact = others.clone().filter_map(|value| value.exact());
    let known = exact.try_fold(1, i64::checked_mul)?.max(1);
    let is_exact = all.is_exact && others.clone().all(|value| value.is_exact);
    let open = Value { at_most: all.at_most / known, is_exact, is_size: true };
    Some(wanted.iter().map(|&value| if is_open(&value) { open } else { value }).collect())
}

/// An op on each pair of elements; one that has a single element goes with all of the other's.
fn pairs(
    bounds: &mut Bounds,
    node: NodeId,
    of: impl Fn(Value, Value) -> Option<Value>,
) -> Option<Vec<Value>> {
    let (one, other) = (bounds.values(node, 0)?, bounds.values(node, 1)?);
    // One value goes with each of the others, also where these are none.
    let count = if one.is_empty() || other.is_empty() { 0 } else { one.len().max(other.len()) };
    let at = |values: &[Value], i: usize| match values {
        &[value] => Some(value),
        values => values.get(i).copied(),
    };
    (0..count).map(|i| of(at(&one, i)?, at(&other, i)?)).collect()
}

/// The smaller of two, of which one is enough.
fn minimum(bounds: &mut Bounds, node: NodeId) -> Option<Vec<Value>> {
    match (bounds.values(node, 0), bounds.values(node, 1)) {
        (Some(_), Some(_)) => {
            pairs(bounds, node, |one, other| Some(Value::made_of(one, other, one.at_most.min(other.at_most))))
        }
        (Some(one), None) | (None, Some(one)) => {
            let values = one.into_iter().map(|value| Value { is_exact: false, is_size: false, ..value });
            Some(values.collect())
        }
        (None, None) => None,
    }
}

/// The elements of a constant.
fn constant(bounds: &Bounds, node: NodeId) -> Option<Vec<Value>> {
    let value = AttrValue::decode(bounds.graph.attrs(node).raw("value")?).ok()?.value?;
    let AttrKind::Tensor(tensor) = value else { return None };
    let TensorProto { tensor_shape, tensor_content, int_val, int64_val, dtype, .. } = tensor;
    let sizes: Vec<i64> = tensor_shape.unwrap_or_default().dim.iter().map(|dim| dim.size).collect();
    let count = super::product(&sizes).filter(|count| (0..=LONGEST).contains(count))? as usize;
    let elements: Vec<i64> = match (DataType::new(dtype), tensor_content.is_empty()) {
        (DataType::INT32, false) => {
            let words = tensor_content.chunks_exact(4).filter_map(|word| word.try_into().ok());
            words.map(|word| i64::from(i32::from_le_bytes(word))).collect()
        }
        (DataType::INT64, false) => {
            let words = tensor_content.chunks_exact(8).filter_map(|word| word.try_into().ok());
            words.map(i64::from_le_bytes).collect()
        }
        (DataType::INT32, true) => int_val.into_iter().map(i64::from).collect(),
        (DataType::INT64, true) => int64_val,
        _ => return None,
    };
    // The last one given counts for all that follow; none given are zeros.
    let last = elements.last().copied().unwrap_or(0);
    Some((0..count).map(|i| Value::is(elements.get(i).copied().unwrap_or(last))).collect())
}

/// The place that an axis names, if it is one known number.
pub(super) fn axis(bounds: &mut Bounds, node: NodeId, slot: usize, rank: usize) -> Option<usize> {
    let &[axis] = &*bounds.exact_values(node, slot)? else { return None };
    axis_of(axis, rank)
}
