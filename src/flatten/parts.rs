//! What the expansion of a function is made of.

use std::collections::HashMap;
use std::rc::Rc;

use super::library::LocalTensor;
use crate::dtype::DataType;
use crate::proto::tensorflow::AttrValue;
use crate::proto::tensorflow::attr_value::Value;

/// A node of the flat graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum FlatNode {
    /// A node of an instance's body.
    Body { instance: u32, node: u32 },
    /// One that was made.
    Made(u32),
}

/// A tensor of the flat graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Tensor {
    pub node: FlatNode,
    pub output: u32,
}

/// What a made node reads.
#[derive(Debug, Clone, Copy)]
pub(super) enum MadeInput {
    /// The tensor that a tensor of an instance is.
    Data(u32, LocalTensor),
    /// What decides which branch is taken: the same before it was led into the branches around.
    Decides(u32, LocalTensor),
    /// All that a node of an instance waits for.
    ControlsOf { instance: u32, node: u32 },
    /// What an instance's effects are.
    EffectsOf(u32),
    /// What an instance returns.
    ReturnsOf(u32),
    /// Another node.
    Control(FlatNode),
    /// A tensor of the flat graph.
    Tensor(Tensor),
}

/// A node that no body has.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub name: String,
    pub op: String,
    pub inputs: Vec<MadeInput>,
    pub device: String,
    pub attrs: Attrs,
    /// The node of the graph's top level whose attributes it has instead.
    pub like: Option<usize>,
    /// The instance that it belongs to.
    pub owner: u32,
    /// The branches, and parts of a loop, that run only if it does.
    pub branches: Vec<u32>,
}

/// What a loop carries from iteration to iteration.
#[derive(Debug, Clone, Copy)]
pub(super) enum Carried {
    /// A resource's handle: the node that leads it into the loop, in which it stays the same.
    Handle(u32),
    /// The nodes around a value.
    Value { merge: u32, switch: u32, next: u32 },
}

/// What became of a call.
#[derive(Debug, Default)]
pub(super) struct Flattened {
    /// The body that is in its place, or the branches, or a loop's condition and body.
    pub bodies: Vec<u32>,
    /// Behind branches and loops: what stands for each result.
    pub results: Option<Vec<u32>>,
    /// Of its returns those that are arguments of the call, as made nodes.
    pub passed: HashMap<u32, u32>,
    /// For each input of branches what it is in each of them; none for what reaches them by another way.
    pub routed: Vec<Option<Vec<Tensor>>>,
    /// What branches wait for.
    pub starts: Vec<u32>,
    /// For each input of a loop what carries it.
    pub carried: Vec<Carried>,
    /// What stands before the body, and what behind it.
    pub before: Vec<u32>,
    pub behind: Vec<u32>,
    /// What stands for the call as a control input.
    pub done: Option<u32>,
}

/// One copy of a body.
#[derive(Debug, Default)]
pub(super) struct Instance {
    pub function: usize,
    /// The call that it is the body of.
    pub call: Option<(u32, u32)>,
    /// One behind the last instance within it.
    pub end: u32,
    /// Which of the call's data inputs its first argument is.
    pub first_input: usize,
    /// What its nodes wait for unless they read something within `gated`.
    pub gate: Option<FlatNode>,
    /// The instance that is as a whole behind the gate.
    pub gated: u32,
    pub device: String,
    /// Whether all its nodes are on that device.
    pub is_on_one_device: bool,
    pub attrs: Rc<HashMap<String, AttrValue>>,
    pub names: Vec<Option<Box<str>>>,
    pub calls: HashMap<u32, Flattened>,
    /// What these names begin with.
    pub scope: Box<str>,
    /// For each argument the tensor that it is, once that is known.
    pub arguments: Vec<Argument>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Argument {
    Unknown,
    Asked,
    Known(Tensor),
}

/// A call that stays one op.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptCall {
    /// The op, by its name in the flat graph.
    pub node: String,
    /// The function that it calls.
    pub function: String,
    /// Why it stays.
    pub why: &'static str,
}

/// Where the nodes around a condition or a loop belong.
#[derive(Debug)]
pub(super) struct Around {
    pub caller: u32,
    /// What their names begin with, without the last slash.
    pub scope: String,
    pub device: String,
}

/// Attributes of a node that is made.
pub(super) type Attrs = Vec<(&'static str, AttrValue)>;

/// The attribute of an op of one type.
pub(super) fn of_type(dtype: DataType) -> (&'static str, AttrValue) {
    ("T", AttrValue { value: Some(Value::Type(dtype.number())) })
}

/// An output of a made node.
pub(super) fn output_of(made: u32, output: u32) -> Tensor {
    Tensor { node: FlatNode::Made(made), output }
}
