//! No mean is taken where it is another one's than the whole batch's.
//!
//! A mean of clipped gradients is not the clipped mean. From each tensor that is reduced the way goes back over ops that pass on, scale or
//! add, to where a backward pass ends: a product of matrices, a filter's gradient, a sum over examples. On this way there must be no op that
//! is not linear, and no factor that depends on a gradient. A factor that depends on activations is the backward pass itself: `dy · f'(x)`.
//! The two are told apart by where their dependence on data comes from: that of a norm, or of "is all of it finite", is gone as soon as
//! the gradients are taken for known.

use std::collections::{HashMap, HashSet};

use super::super::graph::{Graph, NodeId, Tensor};
use super::super::op_facts::Flow;
use super::super::report::{Report, ViolationKind};
use super::depends;
use super::form::Formed;

/// What an op does to what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// It passes its first input on; others decide only where or whether.
    Passes,
    /// It adds its inputs.
    Adds,
    /// It multiplies the first with the second.
    Multiplies,
    /// It divides the first by the second.
    Divides,
    /// It chooses between the second and the third.
    Chooses,
    /// Something that is not linear, to the same number of values.
    Bends,
    /// It ends a backward pass, or moves what does.
    Ends,
    /// It adds up rows.
    AddsRows,
    Unknown,
}

fn does(op: &str) -> Does {
    match op {
        "Cast" | "CheckNumerics" | "CheckNumericsV2" | "EnsureShape" | "ExpandDims" | "Identity" | "Neg"
        | "PreventGradient" | "Reshape" | "Snapshot" | "Squeeze" | "StopGradient" | "Switch"
        | "Transpose" => Does::Passes,
        "Add" | "AddN" | "AddV2" | "Sub" => Does::Adds,
        "Mul" | "MulNoNan" => Does::Multiplies,
        "Div" | "DivNoNan" | "RealDiv" => Does::Divides,
        "Select" | "SelectV2" => Does::Chooses,
        "Abs" | "ClipByValue" | "Inv" | "Maximum" | "Minimum" | "Pow" | "Reciprocal" | "Rsqrt" | "Sign"
        | "Sqrt" | "Square" | "SquaredDifference" => Does::Bends,
        "UnsortedSegmentSum" => Does::AddsRows,
        "BiasAddGrad"
        | "BroadcastTo"
        | "Concat"
        | "ConcatV2"
        | "Conv2D"
        | "Conv3D"
        | "DepthToSpace"
        | "DynamicStitch"
        | "Einsum"
        | "Exit"
        | "Gather"
        | "GatherV2"
        | "IdentityN"
        | "MatMul"
        | "Mean"
        | "Merge"
        | "Pack"
        | "Pad"
        | "ParallelConcat"
        | "ScatterNd"
        | "SegmentSum"
        | "Slice"
        | "SparseSegmentSum"
        | "SparseTensorDenseMatMul"
        | "Split"
        | "SplitV"
        | "StridedSlice"
        | "Sum"
        | "TensorScatterAdd"
        | "TensorArrayConcatV3"
        | "TensorArrayGatherV3"
        | "TensorArrayReadV3"
        | "TensorListStack"
        | "Tile"
        | "Unpack" => Does::Ends,
        _ if op.contains("BackpropFilter")
            || op.contains("BackpropInput")
            || op.starts_with("BatchMatMul")
            || op.starts_with("CudnnRNNBackprop")
            || op.starts_with("FusedBatchNorm")
            || op.ends_with("Grad") && !op.contains("Sqrt")
            || op.ends_with("GradV2") =>
        {
            Does::Ends
        }
        _ => Does::Unknown,
    }
}

struct Looker<'g, 'a> {
    graph: &'g Graph<'a>,
    order: &'g [NodeId],
    chosen: &'g [bool],
    /// What differs between workers where nothing but reduces is taken to be the same.
    differs: Vec<bool>,
    /// The ways back from each tensor that was looked at.
    ways: HashMap<Tensor, HashSet<Tensor>>,
    sources: Vec<Tensor>,
    report: &'g mut Report,
}

/// Looks at each tensor that is reduced.
pub(super) fn check(
    graph: &Graph<'_>,
    order: &[NodeId],
    chosen: &[bool],
    formed: &Formed,
    report: &mut Report,
) {
    let mut sources: Vec<Tensor> = formed.reduced.values().copied().collect();
    sources.sort_unstable();
    sources.dedup();
    let differs = depends::spread(graph, order, chosen, &HashSet::new());
    let mut looker =
        Looker { graph, order, chosen, differs, ways: HashMap::new(), sources: sources.clone(), report };
    for source in sources {
        let is_rows = formed.gathered.contains(&source);
        looker.look(source, is_rows);
    }
}

impl Looker<'_, '_> {
    /// Follows one tensor back.
    fn look(&mut self, source: Tensor, is_rows: bool) {
        let mut open = vec![source];
        let mut seen = HashSet::new();
        while let Some(tensor) = open.pop() {
            // What is the same on all workers has a mean of its own value.
            if !seen.insert(tensor) || !self.differs[tensor.node as usize] {
                continue;
            }
            let graph = self.graph;
            let op = graph.nodes.op(tensor.node as usize);
            let inputs = graph.data(tensor.node);
            let is_index = is_rows && self.is_whole_number(tensor);
            match does(op) {
                _ if is_index => {}
                Does::Passes => {
                    let decides =
                        inputs.iter().skip(1).any(|other| self.depends_on_gradient(*other, &inputs[..1]));
                    if decides && graph.flow(tensor.node) == Flow::Switch {
                        self.bad(source, tensor.node, "a choice that depends on gradients");
                    }
                    open.extend(inputs.first());
                }
                Does::Adds => open.extend(inputs),
                Does::Bends => self.bad(source, tensor.node, "a step that is not linear"),
                Does::Multiplies | Does::Divides => {
                    let [first, second] = inputs[..] else { continue };
                    let [a, b] = [first, second].map(|input| self.differs[input.node as usize]);
                    if !a && does(op) == Does::Divides {
                        self.bad(source, tensor.node, "a divisor that differs between workers");
                    } else if a && b {
                        // A square has no other factor.
                        let same = first == second;
                        if same
                            || self.depends_on_gradient(second, &[first])
                            || self.depends_on_gradient(first, &[second])
                        {
                            self.bad(source, tensor.node, "a factor that depends on gradients");
                        }
                    } else {
                        open.push(if a { first } else { second });
                    }
                }
                Does::Chooses => {
                    if let Some((condition, values)) = inputs.split_first() {
                        if self.differs[condition.node as usize] {
                            if self.depends_on_gradient(*condition, values) {
                                self.bad(source, tensor.node, "a choice that depends on gradients");
                            }
                        } else {
                            open.extend(values);
                        }
                    }
                }
                Does::AddsRows => {
                    let segments = inputs.get(1);
                    let unique =
                        segments.is_some_and(|ids| graph.nodes.op(ids.node as usize).starts_with("Unique"));
                    if is_rows && unique {
                        self.bad(
                            source,
                            tensor.node,
                            "adding up rows of one index, of which workers have other numbers",
                        );
                    }
                }
                Does::Ends => {}
                Does::Unknown => self.bad(source, tensor.node, "an op of which nothing is known"),
            }
        }
    }

    /// Whether what a tensor depends on data by are gradients alone: those that lead to `way`, and those of other reduces.
    fn depends_on_gradient(&mut self, tensor: Tensor, way: &[Tensor]) -> bool {
        if !self.differs[tensor.node as usize] {
            return false;
        }
        let mut known: HashSet<Tensor> = HashSet::new();
        for at in self.sources.clone() {
            known.extend(self.way(at));
        }
        // The factor's own way must not be taken for known, but for what is on the other's too.
        let own = self.way(tensor);
        let others: HashSet<Tensor> = way.iter().flat_map(|&tensor| self.way(tensor)).collect();
        known.retain(|at| !own.contains(at));
        known.extend(others.iter().filter(|at| **at != tensor));
        let left = depends::spread(self.graph, self.order, self.chosen, &known);
        !left[tensor.node as usize]
    }

    /// A tensor and all that leads to it over steps that keep the number of values.
    fn way(&mut self, tensor: Tensor) -> HashSet<Tensor> {
        if let Some(way) = self.ways.get(&tensor) {
            return way.clone();
        }
        let mut way = HashSet::new();
        let mut open = vec![tensor];
        while let Some(at) = open.pop() {
            if !way.insert(at) {
                continue;
            }
            let inputs = self.graph.data(at.node);
            match does(self.graph.nodes.op(at.node as usize)) {
                Does::Passes => open.extend(inputs.first()),
                Does::Adds | Does::Multiplies | Does::Divides | Does::Bends => open.extend(inputs),
                Does::Chooses => open.extend(inputs.iter().skip(1)),
                Does::Ends | Does::AddsRows | Does::Unknown => {}
            }
        }
        self.ways.insert(tensor, way.clone());
        way
    }

    /// Whether a tensor holds whole numbers: indices, of which no mean is taken.
    fn is_whole_number(&self, tensor: Tensor) -> bool {
        let mut outputs = super::super::op_facts::Outputs::default();
        let port = outputs.of(self.graph, tensor);
        port.is_some_and(|port| {
            [crate::dtype::DataType::INT32, crate::dtype::DataType::INT64].contains(&port.dtype)
        })
    }

    fn bad(&mut self, source: Tensor, node: NodeId, what: &str) {
        let graph = self.graph;
        self.report.add(ViolationKind::LateReduce, || {
            let expected = format!("`{}` reduced in front of {what}", graph.tensor_name(source));
            (
                [graph.name(source.node), graph.name(node)],
                expected,
                format!("behind it (op {})", graph.nodes.op(node as usize)),
            )
        });
    }
}
