//! What stands for a worker's own tensor is of all workers: a mean, or rows and indices one behind the other.
//!
//! `lms/parallel/<n>/mean` is the mean of one tensor, or of a bucket; `lms/parallel/<n>/rows` and `indices` are all workers' rows and
//! indices. A mean, a part of one, and rows divided by the number of workers are what an original input may read in place of the
//! worker's own; a `back` is a mean that is brought to where the worker's own tensor is.

use super::super::graph::{NodeId, Tensor};
use super::super::names::number;
use super::super::report::ViolationKind;
use super::expected::{Expected, kind};
use super::form::{Former, PREFIX};
use crate::dtype::DataType;
use crate::proto::tensorflow::attr_value::{ListValue, Value};

impl Former<'_, '_> {
    pub(super) fn loss(&mut self, node: NodeId) {
        self.is(node, &Expected { op: "Identity", attrs: Vec::new(), free: &["T"] });
        if self.graph.data(node).len() != 1 {
            self.wrong(node, ViolationKind::AddedInputs, "all workers' mean of a tensor");
        }
        self.on_host(node);
    }

    /// The original tensor that a node reads first.
    pub(super) fn source(&mut self, node: NodeId) -> Option<Tensor> {
        let source =
            self.graph.data(node).first().copied().filter(|tensor| self.graph.is_original(tensor.node));
        if source.is_none() {
            self.wrong(node, ViolationKind::AddedInputs, "a tensor of the original graph");
        }
        source
    }

    /// A mean of whole numbers is none.
    fn is_of_fractions(&mut self, node: NodeId) {
        let kinds = [DataType::FLOAT, DataType::HALF, DataType::DOUBLE, DataType::BFLOAT16];
        if !self.attr_type(node).is_some_and(|dtype| kinds.contains(&dtype)) {
            self.wrong(node, ViolationKind::AddedOp, "a type of which there are means");
        }
    }

    pub(super) fn of_collective(&mut self, node: NodeId, scope: &str, what: &str) {
        let under = |what: &str| format!("{PREFIX}{scope}/{what}");
        let device = self.graph.nodes.device(node as usize);
        let owner = ["mean", "rows"].iter().find_map(|what| self.named(&under(what)));
        if owner.is_none_or(|owner| self.graph.nodes.device(owner as usize) != device)
            && !matches!(what, "flat" | "axis" | "sizes" | "back")
            && !what.starts_with("shape/")
            && !what.starts_with("back/")
        {
            self.wrong(node, ViolationKind::AddedDevice, "the device of its collective");
        }
        let joined = self.named(&under("joined"));
        match (what, what.split_once('/')) {
            ("flat" | "axis" | "sizes", _) | (_, Some(("shape", _))) => {
                self.constant(node);
            }
            ("mean", _) => {
                self.collective(node, "CollectiveReduceV2", Some("Div"), true);
                self.is_of_fractions(node);
                match joined {
                    Some(joined) => {
                        if self.graph.data(node).first() != Some(&Self::first_output(joined)) {
                            self.wrong(node, ViolationKind::AddedInputs, "what was joined");
                        }
                    }
                    None => {
                        if let Some(source) = self.source(node) {
                            self.formed.reduced.insert(Self::first_output(node), source);
                        }
                    }
                }
            }
            ("joined", _) => self.joined(node, scope),
            ("split", _) => {
                self.is(
                    node,
                    &Expected {
                        op: "SplitV",
                        attrs: vec![("Tlen", kind(DataType::INT64))],
                        free: &["T", "num_split"],
                    },
                );
                let inputs =
                    [self.output(&under("mean")), self.output(&under("sizes")), self.output(&under("axis"))];
                self.reads(node, &inputs);
            }
            (_, Some(("in", k))) => {
                self.is(
                    node,
                    &Expected { op: "Reshape", attrs: vec![("Tshape", kind(DataType::INT32))], free: &["T"] },
                );
                let flat = self.named(&under("flat")).and_then(|flat| self.constant(flat));
                if self.graph.data(node).get(1) != self.output(&under("flat")).as_ref()
                    || flat != Some(vec![-1])
                    || number(k).is_none()
                {
                    self.wrong(node, ViolationKind::AddedInputs, "a tensor and the shape [-1]");
                }
                self.source(node);
            }
            (_, Some(("out", k))) => self.part(node, scope, k),
            ("back", _) => self.back(node, scope, None),
            (_, Some(("back", k))) => self.back(node, scope, Some(k)),
            ("count", _) => {
                let to = self.graph.nodes.attr(node as usize, "DstT").and_then(|to| to.value);
                match to {
                    Some(Value::Type(to)) => self.cast_anywhere(node, DataType::new(to)),
                    _ => self.wrong(node, ViolationKind::AddedOp, "a conversion of the number of workers"),
                }
            }
            ("part", _) => {
                self.is(node, &Expected { op: "RealDiv", attrs: Vec::new(), free: &["T"] });
                self.source(node);
                if self.graph.data(node).get(1) != self.output(&under("count")).as_ref() {
                    self.wrong(node, ViolationKind::AddedInputs, "rows and the number of workers");
                }
            }
            ("rows", _) => {
                self.collective(node, "CollectiveGatherV2", None, true);
                self.is_of_fractions(node);
                let part = self.named(&under("part"));
                let source = part.and_then(|part| self.source(part));
                if self.graph.data(node).first().copied() != part.map(Self::first_output) {
                    self.wrong(node, ViolationKind::AddedInputs, "the divided rows");
                }
                if let Some(source) = source {
                    self.formed.reduced.insert(Self::first_output(node), source);
                    self.formed.gathered.insert(source);
                }
            }
            ("indices", _) => {
                self.collective(node, "CollectiveGatherV2", None, true);
                if let Some(source) = self.source(node) {
                    self.formed.reduced.insert(Self::first_output(node), source);
                    self.formed.gathered.insert(source);
                }
            }
            _ => self.wrong(node, ViolationKind::UnknownAddedOp, "a known op of a collective"),
        }
    }

    /// A mean brought to where the tensor is that it is of.
    fn back(&mut self, node: NodeId, scope: &str, k: Option<&str>) {
        let under = |what: &str| format!("{PREFIX}{scope}/{what}");
        let [mean, own] = match k {
            None => ["mean", "mean"].map(under),
            Some(k) => ["out", "in"].map(|what| under(&format!("{what}/{k}"))),
        };
        let source = self.named(&own).and_then(|own| self.source(own));
        let (Some(source), true) = (source, self.named(&under("joined")).is_some() == k.is_some()) else {
            return self.wrong(node, ViolationKind::AddedInputs, "a mean of the original graph");
        };
        let device = self.graph.nodes.device(source.node as usize);
        let beside = format!("loc:@{}", self.graph.name(source.node)).into_bytes();
        let beside = Value::List(ListValue { s: vec![beside], ..ListValue::default() });
        let attrs = if device.is_empty() { vec![("_class", beside)] } else { Vec::new() };
        self.is(node, &Expected { op: "Identity", attrs, free: &["T"] });
        self.no_controls(node);
        if self.graph.nodes.device(node as usize) != device {
            self.wrong(node, ViolationKind::AddedDevice, "the device of the tensor that it is of");
        }
        if self.reads(node, &[self.output(&mean)]) {
            self.formed.reduced.insert(Self::first_output(node), source);
        }
    }
}
