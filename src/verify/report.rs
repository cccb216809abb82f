//! What the checker says: what it counted, or what is wrong.

use std::fmt;

use serde::Serialize;

/// What was added to a graph that computes what it computed before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Nodes of the original graph.
    pub nodes: usize,
    /// Ops that bring a tensor back for a group of consumers.
    pub swap_ins: usize,
    /// Ops that stand for the end of a copy to the host.
    pub swap_outs: usize,
    /// Ops that only order others.
    pub order_ops: usize,
    /// Second copies of original nodes.
    pub recomputed_ops: usize,
    /// Different original nodes that have second copies.
    pub recomputed_nodes: usize,
    /// Copies of what variables begin with.
    pub initial_values: usize,
    /// Original ops that went to the host.
    pub host_ops: usize,
    /// Different tensors that leave.
    pub swapped_tensors: usize,
    /// Data inputs of original nodes that read an added op in place of the tensor.
    pub rewired_inputs: usize,
    /// Collectives that a step runs.
    pub reduces: usize,
    /// Tensors that are read as all workers'.
    pub reduced_tensors: usize,
    /// Control inputs that were added, those of added ops included. Those that a recomputed op has from its original
    /// are not.
    pub added_control_edges: usize,
}

/// What rule a violation breaks: a stable name for machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ViolationKind {
    /// The files hold different messages.
    FileKind,
    /// Something around the nodes changed.
    Surroundings,
    /// A part of a file that the check needs does not decode.
    Damaged,
    /// Two nodes have one name.
    DuplicateName,
    /// An original node is missing.
    MissingNode,
    /// A node was added that is not under `lms/`.
    ExtraNode,
    /// Original nodes stand in another order.
    ReorderedNode,
    /// An original node differs in more than its inputs.
    ChangedNode,
    /// An input is no input: malformed, of a node that is not there, or data after control.
    BadInput,
    /// A node under `lms/` is none of the ops that a rewrite adds.
    UnknownAddedOp,
    /// The name of an added op does not say what it is.
    AddedName,
    /// The op or the attributes of an added op are not what they must be.
    AddedOp,
    /// The inputs of an added op are not what they must be.
    AddedInputs,
    /// An added op is not on a host device in its owner's task.
    AddedDevice,
    /// An op is run again that may not give the same again, or does more than give it.
    Unrepeatable,
    /// A node has more or fewer data inputs than before.
    InputCount,
    /// A data input reads another tensor.
    WrongTensor,
    /// A control input was lost.
    LostControl,
    /// The graph has a cycle.
    Cycle,
    /// An added edge leads into or out of a loop.
    Frame,
    /// An added edge leads from one iteration of a loop to another.
    Iteration,
    /// An added edge comes from an op that may be dead when its target is alive.
    Branch,
    /// A variable may be updated before a delayed reader has read it.
    RefOrder,
    /// A run would do something with effects or needs that it did not do.
    NewWork,
    /// A fetch would run an op with an effect that it did not run, or the other way round.
    NewEffect,
    /// The tensor is of a type that cannot be swapped.
    UnswappableType,
    /// The tensor is a reference to a variable's buffer.
    RefType,
    /// The tensor is a variable or a handle.
    Persistent,
    /// An op went to the host that computes something, or without what must be where it is.
    HostOp,
    /// The definition of an op is not known, so nothing can be proved about it.
    UnknownOp,
    /// Something that depends on one worker's data is written to a variable.
    LocalUpdate,
    /// A mean is taken behind a step that is not linear in the gradient.
    LateReduce,
    /// Two collectives have one key.
    SharedKey,
    /// What all workers must come to together may be left out.
    ConditionalReduce,
    /// Two collectives have no certain order.
    UnorderedReduces,
}

impl ViolationKind {
    /// The name, such as `wrong_tensor`.
    pub fn name(self) -> &'static str {
        match self {
            ViolationKind::FileKind => "file_kind",
            ViolationKind::Surroundings => "surroundings",
            ViolationKind::Damaged => "damaged",
            ViolationKind::DuplicateName => "duplicate_name",
            ViolationKind::MissingNode => "missing_node",
            ViolationKind::ExtraNode => "extra_node",
            ViolationKind::ReorderedNode => "reordered_node",
            ViolationKind::ChangedNode => "changed_node",
            ViolationKind::BadInput => "bad_input",
            ViolationKind::UnknownAddedOp => "unknown_added_op",
            ViolationKind::AddedName => "added_name",
            ViolationKind::AddedOp => "added_op",
            ViolationKind::AddedInputs => "added_inputs",
            ViolationKind::AddedDevice => "added_device",
            ViolationKind::Unrepeatable => "unrepeatable",
            ViolationKind::InputCount => "input_count",
            ViolationKind::WrongTensor => "wrong_tensor",
            ViolationKind::LostControl => "lost_control",
            ViolationKind::Cycle => "cycle",
            ViolationKind::Frame => "frame",
            ViolationKind::Iteration => "iteration",
            ViolationKind::Branch => "branch",
            ViolationKind::RefOrder => "ref_order",
            ViolationKind::NewWork => "new_work",
            ViolationKind::NewEffect => "new_effect",
            ViolationKind::UnswappableType => "unswappable_type",
            ViolationKind::RefType => "ref_type",
            ViolationKind::Persistent => "persistent",
            ViolationKind::HostOp => "host_op",
            ViolationKind::UnknownOp => "unknown_op",
            ViolationKind::LocalUpdate => "local_update",
            ViolationKind::LateReduce => "late_reduce",
            ViolationKind::SharedKey => "shared_key",
            ViolationKind::ConditionalReduce => "conditional_reduce",
            ViolationKind::UnorderedReduces => "unordered_reduces",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The rule that is broken.
    pub kind: ViolationKind,
    /// The nodes it is about, the one at fault first; none if it is about the file.
    pub nodes: Vec<String>,
    /// What the rule asks for.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.kind.name())?;
        if !self.nodes.is_empty() {
            write!(f, "{}: ", self.nodes.join(", "))?;
        }
        write!(f, "expected {}, found {}", self.expected, self.found)
    }
}

/// The rewritten graph is not proved to compute what the original does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct VerifyError {
    /// The first violations, in the order of the rules and then of the nodes.
    pub violations: Vec<Violation>,
    /// How many more there are of the rules that were looked at.
    pub further: usize,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rewritten graph does not compute what the original does")?;
        for violation in &self.violations {
            write!(f, "\n  {violation}")?;
        }
        match self.further {
            0 => Ok(()),
            further => write!(f, "\n  and {further} more"),
        }
    }
}

/// Collects violations while the rules are looked at.
#[derive(Debug, Default)]
pub(super) struct Report {
    violations: Vec<Violation>,
    further: usize,
}

impl Report {
    /// So many are worded; the others are counted.
    const KEPT: usize = 20;

    /// Notes a violation. `what` gives its nodes, what was expected and what was found.
    pub fn add<'n, const N: usize>(
        &mut self,
        kind: ViolationKind,
        what: impl FnOnce() -> ([&'n str; N], String, String),
    ) {
        if self.violations.len() == Self::KEPT {
            self.further += 1;
            return;
        }
        let (nodes, expected, found) = what();
        self.violations.push(Violation { kind, nodes: nodes.map(String::from).to_vec(), expected, found });
    }

    /// Ends the check if anything is wrong so far: later rules rest on the earlier ones.
    pub fn stop(&mut self) -> Result<(), VerifyError> {
        if self.violations.is_empty() {
            return Ok(());
        }
        Err(std::mem::take(self).into_error())
    }

    /// What is wrong.
    pub fn into_error(self) -> VerifyError {
        VerifyError { violations: self.violations, further: self.further }
    }
}
