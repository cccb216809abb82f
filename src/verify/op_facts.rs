//! What the rules ask about an op, looked up once for each op and not for each node.

use std::collections::{BTreeMap, HashMap};

use prost::Message;

use crate::format::{Model, Nodes};
use crate::ops::{OpInfo, OpRegistry, Port};
use crate::proto::tensorflow::AttrValue;

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

/// Which of an op's inputs it may give out without a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passes {
    Nothing,
    Input(usize),
    AnyInput,
}

impl Passes {
    fn of(op: &str, flow: Flow, gives_ref_on: bool) -> Passes {
        match op {
            "IdentityN" | "RefSelect" => Passes::AnyInput,
            // The first input is the axis.
            "Split" => Passes::Input(1),
            _ if flow == Flow::Merge => Passes::AnyInput,
            _ if !matches!(flow, Flow::Plain | Flow::LoopCond) || PASS_BUFFER.contains(&op) => {
                Passes::Input(0)
            }
            // What updates a variable gives out that variable: its first input, whatever other refs it takes.
            _ if gives_ref_on => Passes::Input(0),
            _ => Passes::Nothing,
        }
    }

    /// Whether the op may give out what it gets at this place.
    pub fn input(self, slot: usize) -> bool {
        match self {
            Passes::Nothing => false,
            Passes::Input(passed) => passed == slot,
            Passes::AnyInput => true,
        }
    }
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
    /// Which of its inputs' buffers its output may be.
    pub passes_buffer: Passes,
    /// Whether it has a side effect, a state, or something to be fed: also if it is not known.
    pub is_needy: bool,
}

/// Ops whose kernels give out the buffer that they got, or a part of it, without a copy.
///
/// Those that give out the variable itself have a ref output and are told by that.
const PASS_BUFFER: &[&str] = &[
    "Bitcast",
    "Cast",
    "CheckNumerics",
    "CheckNumericsV2",
    "DebugIdentity",
    "DebugIdentityV2",
    "EnsureShape",
    "ExpandDims",
    "GuaranteeConst",
    "Identity",
    "IdentityN",
    "PlaceholderWithDefault",
    "PreventGradient",
    "Print",
    "RefIdentity",
    "RefSelect",
    "Reshape",
    "Slice",
    "Snapshot",
    "Split",
    "SplitV",
    "Squeeze",
    "StopGradient",
    "StridedSlice",
    "Tile",
    "Transpose",
    "Unpack",
];

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
    fn new(op: &str, info: Option<&'a OpInfo>) -> OpFacts<'a> {
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
        let has_ref = |args: &[crate::proto::tensorflow::op_def::ArgDef]| args.iter().any(|arg| arg.is_ref);
        let gives_ref_on = info.is_some_and(|info| has_ref(info.inputs()) && has_ref(info.outputs()));
        OpFacts {
            info,
            flow,
            is_variable: is_ref_variable
                || matches!(op, "AutoReloadVariable" | "VarHandleOp" | "_VarHandlesOp"),
            is_ref_variable,
            gives_ref: info.is_none_or(|info| has_ref(info.outputs())),
            passes_buffer: Passes::of(op, flow, gives_ref_on),
            is_needy: matches!(op, "Placeholder" | "PlaceholderV2") || info.is_none_or(OpInfo::is_stateful),
        }
    }

    /// Whether the op may write to a ref that it takes; true also of ops that are not known.
    pub fn may_write_refs(&self) -> bool {
        let Some(info) = self.info else { return true };
        info.inputs().iter().any(|arg| arg.is_ref) && !READ_REF.contains(&info.name())
    }
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
                let info = ops.get(op).or_else(|| by_name.get(op).copied());
                table.facts.push(OpFacts::new(op, info));
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

/// A node's attributes, decoded; those that do not decode are left out.
pub(super) fn attrs(nodes: Nodes<'_>, node: u32) -> BTreeMap<String, AttrValue> {
    nodes
        .attrs(node as usize)
        .filter_map(|(name, value)| {
            Some((std::str::from_utf8(name).ok()?.to_string(), AttrValue::decode(value).ok()?))
        })
        .collect()
}

/// What a node puts out at a place; none if its op or that output is not known.
pub(super) fn output(nodes: Nodes<'_>, info: &OpInfo, node: u32, output: u32) -> Option<Port> {
    info.output_ports(&attrs(nodes, node)).ok()?.get(output as usize).copied()
}
