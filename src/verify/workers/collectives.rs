//! A collective takes the number of workers, its group and a key of its own, and waits for other collectives only.

use std::collections::HashMap;

use super::super::graph::{NodeId, Tensor};
use super::super::report::ViolationKind;
use super::expected::{Expected, numbers, text};
use super::form::{Former, PREFIX, Together};
use super::ranks::WORKERS;
use crate::format::Model;
use crate::proto::tensorflow::attr_value::Value;

impl Former<'_, '_> {
    pub(super) fn barrier(&mut self, node: NodeId) {
        self.collective(node, "CollectiveReduceV2", Some("Id"), false);
        if self.graph.data(node).first() != self.output(WORKERS).as_ref() {
            self.wrong(node, ViolationKind::AddedInputs, "the number of workers");
        }
        self.on_host(node);
    }

    /// A collective of the right form: it takes the number of workers, its group and a key of its own, and waits for collectives only.
    pub(super) fn collective(
        &mut self,
        node: NodeId,
        op: &'static str,
        result: Option<&str>,
        is_of_step: bool,
    ) {
        let mut attrs = vec![("is_stateless", Value::B(false)), ("Nordering_token", Value::I(0))];
        if let Some(result) = result {
            attrs.extend([
                ("merge_op", text("Add")),
                ("final_op", text(result)),
                ("max_subdivs_per_device", Value::I(-1)),
            ]);
        }
        self.is(node, &Expected { op, attrs, free: &["T", "communication_hint", "timeout_seconds"] });
        let name = self.graph.name(node);
        let is_gpu = self.graph.nodes.device(node as usize).contains("GPU");
        let group = if is_gpu { "lms/parallel/gpus" } else { "lms/parallel/hosts" };
        let expected = [self.output(WORKERS), self.output(group), self.output(&format!("{name}/key"))];
        let read: Vec<Option<Tensor>> = self.graph.data(node).iter().skip(1).copied().map(Some).collect();
        if read != expected {
            return self.wrong(
                node,
                ViolationKind::AddedInputs,
                "the number of workers, its group and its key",
            );
        }
        let waits: Vec<NodeId> = self.graph.control(node).iter().map(|control| control.from).collect();
        let is_known = |&from: &NodeId| {
            let other = self.graph.name(from);
            other.starts_with(PREFIX)
                && (self.graph.nodes.op(from as usize).starts_with("Collective")
                    || other.ends_with("/assign"))
        };
        if !waits.iter().all(is_known) {
            self.wrong(node, ViolationKind::AddedInputs, "control inputs from collectives only");
        }
        let keys =
            [group, &format!("{name}/key")].map(|name| self.named(name).and_then(|node| self.constant(node)));
        match keys.map(|key| key.and_then(|key| <[i64; 1]>::try_from(key).ok())) {
            [Some([group]), Some([key])] => {
                if let Some(&other) = self.keys.get(&(group, key)) {
                    let graph = self.graph;
                    self.report.add(ViolationKind::SharedKey, || {
                        (
                            [graph.name(node), graph.name(other)],
                            "keys of their own".to_string(),
                            format!("both {key}"),
                        )
                    });
                }
                self.keys.insert((group, key), node);
            }
            _ => {
                self.wrong(node, ViolationKind::AddedInputs, "one number as the key, and one as the group's")
            }
        }
        self.formed.collectives.push(Together { node, is_of_step });
    }
}

/// The group and the key of each collective of a graph of which the form is shown, with its name.
pub(in super::super) fn keys(model: &Model) -> Vec<((i64, i64), String)> {
    let nodes = model.nodes();
    let places: HashMap<&str, usize> = (0..nodes.len()).map(|node| (nodes.name(node), node)).collect();
    let number = |name: &str| match nodes.attr(*places.get(name)?, "value")?.value? {
        Value::Tensor(tensor) => numbers(&tensor)?.first().copied(),
        _ => None,
    };
    let is_together =
        |&node: &usize| nodes.name(node).starts_with(PREFIX) && nodes.op(node).starts_with("Collective");
    let key = |node: usize| {
        let name = nodes.name(node);
        let group = nodes.inputs(node).nth(2)?;
        Some(((number(group)?, number(&format!("{name}/key"))?), name.to_string()))
    };
    (0..nodes.len()).filter(is_together).filter_map(key).collect()
}
