//! What the rules ask about an op, looked up once for each op and not for each node.

use std::collections::HashMap;

use super::effects::{has_effect, is_fed};
use super::graph::{Graph, Tensor};
use crate::format::{Model, Nodes};
use crate::ops::{Attr, AttrLookup, OpInfo, OpRegistry, Port};
use crate::proto::tensorflow::op_def::ArgDef;

/// How an op takes part in v1 control flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Plain,
    Switch,
    Merge,
    Enter,
    Exit,
    NextIteration,
    LoopCond,
}

/// What is known about an op.
#[derive(Debug)]
pub(super) struct OpFacts<'a> {
    /// The op's definition, unless none is known.
    pub info: Option<&'a OpInfo>,
    pub flow: Flow,
    /// Holds a variable, or gives a handle to one.
    pub is_variable: bool,
    /// Holds a ref variable: its output is the variable's buffer.
    pub is_ref_variable: bool,
    /// Gives out references; true also of an op that is not known.
    pub gives_ref: bool,
    /// Of which inputs its output may be the buffer.
    pub passes: Passes,
    /// Does not look into what it passes.
    pub only_passes: bool,
    /// Looks at what its inputs hold, and not only at their shapes.
    pub reads_values: bool,
    /// Changes something that outlives its run; also if it is not known.
    pub has_effect: bool,
    /// Rests on what somebody must have given: the state of a variable, a table, a queue, or what is fed.
    pub rests_on_state: bool,
    /// Runs a function: it is the name of one, or has one as an attribute.
    pub runs_function: bool,
}

/// Of which data inputs an op may give out the buffer, or a part of it, without a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passes {
    None,
    /// Of one input.
    Slot(usize),
    All,
}

impl Passes {
    /// Whether the buffer of this input may be given out.
    pub fn takes(self, slot: usize) -> bool {
        match self {
            Passes::None => false,
            Passes::Slot(only) => slot == only,
            Passes::All => true,
        }
    }

    fn of(op: &str, info: Option<&OpInfo>) -> Passes {
        match op {
            "Merge" | "RefMerge" | "_XlaMerge" | "IdentityN" | "RefSelect" => return Passes::All,
            "Split" => return Passes::Slot(1),
            _ if PASS_FIRST.contains(&op) => return Passes::Slot(0),
            _ => {}
        }
        // What is not known may do anything.
        let Some(info) = info else { return Passes::All };
        let takes_and_gives_refs = has_ref(info.inputs()) && has_ref(info.outputs());
        let update = ["Assign", "Apply", "SparseApply", "Scatter"].iter().any(|start| op.starts_with(start));
        match (takes_and_gives_refs, update) {
            (false, _) => Passes::None,
            // An update gives on the variable that it is about, and none of the others that it reads.
            (true, true) => Passes::Slot(0),
            (true, false) => Passes::All,
        }
    }
}

fn has_function(info: &OpInfo) -> bool {
    info.def().attr.iter().any(|attr| matches!(attr.r#type.as_str(), "func" | "list(func)"))
}

fn has_ref(args: &[ArgDef]) -> bool {
    args.iter().any(|arg| arg.is_ref)
}

/// Ops that may give out the buffer of their first input, some only where they have nothing to do.
const PASS_FIRST: &[&str] = &[
    "AddN",
    "All",
    "Any",
    "BatchMatrixBandPart",
    "BatchToSpace",
    "BatchToSpaceND",
    "Bitcast",
    "BroadcastTo",
    "Cast",
    "CheckNumerics",
    "CheckNumericsV2",
    "Copy",
    "CopyHost",
    "DebugIdentity",
    "DebugIdentityV2",
    "EnsureShape",
    "Enter",
    "Exit",
    "ExpandDims",
    "GuaranteeConst",
    "Identity",
    "MatrixBandPart",
    "Max",
    "Mean",
    "Min",
    "MirrorPad",
    "NextIteration",
    "Pack",
    "Pad",
    "PadV2",
    "PlaceholderWithDefault",
    "PreventGradient",
    "Print",
    "Prod",
    "RefEnter",
    "RefExit",
    "RefIdentity",
    "RefNextIteration",
    "RefSwitch",
    "Reshape",
    "Slice",
    "Snapshot",
    "SpaceToBatch",
    "SpaceToBatchND",
    "SplitV",
    "Squeeze",
    "StopGradient",
    "StridedSlice",
    "Sum",
    "Switch",
    "Tile",
    "Transpose",
    "Unpack",
    "_SwitchN",
];

/// Those that give it out always, and never look into it.
const ONLY_PASS: &[&str] = &[
    "Bitcast",
    "EnsureShape",
    "Enter",
    "Exit",
    "ExpandDims",
    "GuaranteeConst",
    "Identity",
    "IdentityN",
    "Merge",
    "NextIteration",
    "PlaceholderWithDefault",
    "PreventGradient",
    "RefEnter",
    "RefExit",
    "RefIdentity",
    "RefMerge",
    "RefNextIteration",
    "RefSelect",
    "RefSwitch",
    "Reshape",
    "Squeeze",
    "StopGradient",
    "Switch",
    "_SwitchN",
    "_XlaMerge",
];

/// Ops that ask a tensor for its shape and type only: they may read it before or after its values change.
const READ_SHAPE_ONLY: &[&str] = &["OnesLike", "Rank", "Shape", "ShapeN", "Size", "ZerosLike"];

/// Ops that take a ref and do not write to it.
const READ_REF: &[&str] = &[
    "IsVariableInitialized",
    "RefEnter",
    "RefExit",
    "RefIdentity",
    "RefMerge",
    "RefNextIteration",
    "RefSelect",
    "RefSwitch",
];

impl<'a> OpFacts<'a> {
    pub fn new(op: &str, info: Option<&'a OpInfo>, is_function: bool) -> OpFacts<'a> {
        let flow = match op.strip_prefix("Ref").unwrap_or(op) {
            "Switch" | "_SwitchN" => Flow::Switch,
            "Merge" | "_XlaMerge" => Flow::Merge,
            "Enter" => Flow::Enter,
            "Exit" => Flow::Exit,
            "NextIteration" => Flow::NextIteration,
            "LoopCond" => Flow::LoopCond,
            _ => Flow::Plain,
        };
        let is_ref_variable = matches!(op, "VariableV2" | "Variable" | "TemporaryVariable");
        OpFacts {
            info,
            flow,
            is_variable: is_ref_variable
                || matches!(op, "AutoReloadVariable" | "VarHandleOp" | "_VarHandlesOp"),
            is_ref_variable,
            gives_ref: info.is_none_or(|info| has_ref(info.outputs())),
            passes: Passes::of(op, info),
            only_passes: ONLY_PASS.contains(&op),
            reads_values: !READ_SHAPE_ONLY.contains(&op),
            has_effect: has_effect(op, info),
            rests_on_state: is_fed(op) || info.is_some_and(OpInfo::is_stateful) && !has_effect(op, info),
            runs_function: is_function || info.is_none_or(has_function),
        }
    }

    /// Whether the op may write to a ref that it takes; true also of ops that are not known.
    pub fn may_write_refs(&self) -> bool {
        may_write_refs(self.info)
    }
}

pub(super) fn may_write_refs(info: Option<&OpInfo>) -> bool {
    info.is_none_or(|info| info.inputs().iter().any(|arg| arg.is_ref) && !READ_REF.contains(&info.name()))
}

/// The facts of all ops of a graph.
#[derive(Debug)]
pub(super) struct OpTable<'a> {
    facts: Vec<OpFacts<'a>>,
    of_node: Vec<u32>,
}

impl<'a> OpTable<'a> {
    /// `functions` are ops too: those of the model's library, for names that the registry has not.
    pub fn new(nodes: Nodes<'a>, ops: &'a OpRegistry, functions: &'a [OpInfo]) -> OpTable<'a> {
        let by_name: HashMap<&str, &OpInfo> = functions.iter().map(|info| (info.name(), info)).collect();
        let mut table = OpTable { facts: Vec::new(), of_node: Vec::with_capacity(nodes.len()) };
        let mut known: HashMap<&str, u32> = HashMap::new();
        for node in 0..nodes.len() {
            let op = nodes.op(node);
            let place = *known.entry(op).or_insert_with(|| {
                let builtin = ops.get(op);
                let function = by_name.get(op).copied().filter(|_| builtin.is_none());
                table.facts.push(OpFacts::new(op, builtin.or(function), function.is_some()));
                table.facts.len() as u32 - 1
            });
            table.of_node.push(place);
        }
        table
    }

    /// The facts about a node's op.
    pub fn of(&self, node: u32) -> &OpFacts<'a> {
        &self.facts[self.of_node[node as usize] as usize]
    }
}

/// The functions of a model's library as ops; none if the library is damaged.
pub(super) fn functions(model: &Model, ops: &OpRegistry) -> Option<Vec<OpInfo>> {
    let nodes = model.nodes();
    // Most graphs call none of their functions by name, and reading a library takes time.
    if (0..nodes.len()).all(|node| ops.id(nodes.op(node)).is_some()) {
        return Some(Vec::new());
    }
    let functions = model.functions().ok()?;
    Some(functions.into_iter().map(|function| OpInfo::from(function.signature)).collect())
}

/// A node's attributes, each decoded when it is asked for.
struct NodeAttrs<'a> {
    nodes: Nodes<'a>,
    node: u32,
}

impl AttrLookup for NodeAttrs<'_> {
    fn attr(&self, name: &str) -> Option<Attr<'_>> {
        let value = self.nodes.attr(self.node as usize, name)?;
        Some(match Attr::from(&value) {
            Attr::Int(value) => Attr::Int(value),
            Attr::Bool(value) => Attr::Bool(value),
            Attr::Type(dtype) => Attr::Type(dtype),
            Attr::Types(dtypes) => Attr::Types(dtypes),
            // No signature depends on it.
            _ => Attr::Other,
        })
    }
}

/// What nodes put out, remembered: one tensor may have many swaps.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    known: HashMap<Tensor, Option<Port>>,
}

impl Outputs {
    /// What a tensor is; none if its op or that output of it is not known.
    pub fn of(&mut self, graph: &Graph<'_>, tensor: Tensor) -> Option<Port> {
        *self.known.entry(tensor).or_insert_with(|| {
            let attrs = NodeAttrs { nodes: graph.nodes, node: tensor.node };
            let ports = graph.op(tensor.node).info?.output_ports(&attrs).ok()?;
            ports.get(tensor.output as usize).copied()
        })
    }
}

/// What a node takes in; none if its attributes do not say.
pub(super) fn inputs(nodes: Nodes<'_>, info: &OpInfo, node: u32) -> Option<Vec<Port>> {
    info.input_ports(&NodeAttrs { nodes, node }).ok()
}

/// What a node gives out; none if its attributes do not say.
pub(super) fn outputs(nodes: Nodes<'_>, info: &OpInfo, node: u32) -> Option<Vec<Port>> {
    info.output_ports(&NodeAttrs { nodes, node }).ok()
}
