//! The number of workers is fed, or is a variable that nothing else can write; and worker 0 is told from the others by its rank, which
//! is fed.

use super::super::graph::NodeId;
use super::super::report::ViolationKind;
use super::expected::{Expected, kind, text};
use super::form::Former;
use crate::dtype::DataType;
use crate::proto::tensorflow::attr_value::Value;

pub(super) const WORKERS: &str = "lms/parallel/workers";
const RANK: &str = "lms/parallel/rank";
/// The variable with the number of workers, where the step is a function; also the name by which it is shared.
const COUNT: &str = "lms/parallel/count";

impl Former<'_, '_> {
    pub(super) fn placeholder(&mut self, node: NodeId) {
        let shape = Value::Shape(Default::default());
        let attrs = vec![("dtype", kind(DataType::INT32)), ("shape", shape)];
        self.is(node, &Expected { op: "Placeholder", attrs, free: &[] });
        self.no_inputs(node);
        self.on_host(node);
    }

    /// The variable with the number of workers, by the one name that all share.
    pub(super) fn count(&mut self, node: NodeId) {
        let attrs = vec![
            ("dtype", kind(DataType::INT32)),
            ("shape", Value::Shape(Default::default())),
            ("container", text("")),
            ("shared_name", text(COUNT)),
        ];
        self.is(node, &Expected { op: "VarHandleOp", attrs, free: &[] });
        self.no_inputs(node);
        self.on_host(node);
    }

    pub(super) fn reads_count(&mut self, node: NodeId) {
        let attrs = vec![("dtype", kind(DataType::INT32))];
        self.is(node, &Expected { op: "ReadVariableOp", attrs, free: &[] });
        self.reads(node, &[self.output(COUNT)]);
        self.no_controls(node);
        self.on_host(node);
    }

    pub(super) fn set_count(&mut self, node: NodeId) {
        let attrs = vec![("dtype", kind(DataType::INT32)), ("validate_shape", Value::B(false))];
        self.is(node, &Expected { op: "AssignVariableOp", attrs, free: &[] });
        self.reads(node, &[self.output(COUNT), self.output(WORKERS)]);
        self.no_controls(node);
        self.on_host(node);
    }

    /// An original op that named the variable with the number of workers could change it.
    pub(super) fn shares_nothing(&mut self, node: NodeId) {
        let shared = self.graph.nodes.attr(node as usize, "shared_name").and_then(|name| name.value);
        if shared == Some(text(COUNT)) {
            self.wrong(
                node,
                ViolationKind::UnknownAddedOp,
                "no original op to be called as one that was added",
            );
        }
    }

    pub(super) fn is_first(&mut self, node: NodeId) {
        let attrs = vec![("T", kind(DataType::INT32)), ("incompatible_shape_error", Value::B(true))];
        self.is(node, &Expected { op: "Equal", attrs, free: &[] });
        self.reads(node, &[self.output(RANK), self.output("lms/parallel/zero")]);
        let zero = self.named("lms/parallel/zero").and_then(|zero| self.constant(zero));
        if zero != Some(vec![0]) {
            self.wrong(node, ViolationKind::AddedInputs, "the rank and 0");
        }
        self.on_host(node);
    }

    pub(super) fn cast(&mut self, node: NodeId, from: DataType, to: DataType, input: &str) {
        let attrs = vec![("SrcT", kind(from)), ("DstT", kind(to)), ("Truncate", Value::B(false))];
        self.is(node, &Expected { op: "Cast", attrs, free: &[] });
        self.reads(node, &[self.output(input)]);
        self.on_host(node);
    }

    pub(super) fn cast_anywhere(&mut self, node: NodeId, to: DataType) {
        let attrs = vec![("SrcT", kind(DataType::INT32)), ("DstT", kind(to)), ("Truncate", Value::B(false))];
        self.is(node, &Expected { op: "Cast", attrs, free: &[] });
        self.reads(node, &[self.output(WORKERS)]);
    }
}
