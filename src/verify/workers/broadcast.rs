//! The broadcast has the known form: a variable takes the sum of what the workers have, of whom all but worker 0 give zeros.

use super::super::graph::NodeId;
use super::super::report::ViolationKind;
use super::expected::Expected;
use super::form::Former;
use crate::dtype::DataType;

const BROADCAST: &str = "lms/parallel/broadcast";

impl Former<'_, '_> {
    pub(super) fn all_assigned(&mut self, node: NodeId) {
        self.is(node, &Expected { op: "NoOp", attrs: Vec::new(), free: &[] });
        let all = self.graph.control(node).iter().all(|control| {
            let name = self.graph.name(control.from);
            name.starts_with("lms/parallel/broadcast/") && name.ends_with("/assign")
        });
        if !all {
            self.wrong(node, ViolationKind::AddedInputs, "the broadcasts of variables");
        }
        self.on_host(node);
    }

    /// A variable takes the sum of what the workers have, of whom all but worker 0 give zeros.
    pub(super) fn of_broadcast(&mut self, node: NodeId, scope: &str, what: &str) {
        let under = |what: &str| format!("{BROADCAST}/{scope}/{what}");
        // The chain from the variable and back to it.
        let chain = |former: &Self| {
            let mut names = vec![under("read")];
            names.extend(
                (0..).map(|k| under(&format!("to/{k}"))).take_while(|name| former.named(name).is_some()),
            );
            names.extend([under("own"), under("sum")]);
            names.extend(
                (0..).map(|k| under(&format!("from/{k}"))).take_while(|name| former.named(name).is_some()),
            );
            names
        };
        let names = chain(self);
        let before = |former: &Self, name: &str| {
            let at = names.iter().position(|other| other == name)?;
            former.output(names.get(at.checked_sub(1)?)?)
        };
        let variable = |former: &Self, node: NodeId| {
            let first = former.graph.data(node).first().copied()?;
            (former.graph.op(first.node).is_variable && former.graph.is_original(first.node)).then_some(first)
        };
        let op = self.graph.nodes.op(node as usize);
        let own_name = self.graph.name(node);
        match (what, what.split_once('/')) {
            ("read", _) => {
                if !matches!(op, "Identity" | "ReadVariableOp") || variable(self, node).is_none() {
                    self.wrong(node, ViolationKind::AddedInputs, "a variable");
                }
            }
            (_, Some(("to" | "from", _))) => {
                if !matches!(op, "Bitcast" | "Cast") {
                    self.wrong(node, ViolationKind::AddedOp, "a conversion");
                }
                self.reads(node, &[before(self, own_name)]);
                self.on_host(node);
            }
            ("own", _) => {
                self.is(node, &Expected { op: "Mul", attrs: Vec::new(), free: &["T"] });
                let one = match self.attr_type(node) {
                    Some(DataType::INT32) => "lms/parallel/one",
                    Some(DataType::INT64) => "lms/parallel/one_long",
                    _ => return self.wrong(node, ViolationKind::AddedOp, "whole numbers"),
                };
                self.reads(node, &[before(self, own_name), self.output(one)]);
                self.on_host(node);
            }
            ("sum", _) => {
                self.collective(node, "CollectiveReduceV2", Some("Id"), false);
                let waits = self.graph.data(node).first().copied();
                if waits != self.output(&under("own")) {
                    self.wrong(node, ViolationKind::AddedInputs, "the worker's own numbers");
                }
                self.on_host(node);
            }
            ("assign", _) => {
                let read = self.named(&under("read")).and_then(|read| variable(self, read));
                let same = variable(self, node).is_some() && variable(self, node) == read;
                let last = names.last().and_then(|name| self.output(name));
                let is_assign = matches!(op, "Assign" | "AssignVariableOp");
                if !same || !is_assign || self.graph.data(node).get(1).copied() != last {
                    self.wrong(node, ViolationKind::AddedInputs, "the variable that was read, and the sum");
                }
            }
            _ => self.wrong(node, ViolationKind::UnknownAddedOp, "a known op of a broadcast"),
        }
    }
}
