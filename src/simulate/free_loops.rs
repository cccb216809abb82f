//! Loops whose iterations do not wait for one another.
//!
//! TensorFlow begins an iteration as soon as a counter on the host says that there is one, up to as many at once as the loop's
//! `parallel_iterations`, ten if nobody said otherwise. Most of what an RNN computes waits for the state of the iteration before. But where a loop
//! goes through parts of a batch and adds up gradients, only the sums wait, and what all parts need is in memory at once: eight parts
//! took 14.6 MiB where one at a time takes 5.5.
//!
//! So a step with such a loop is judged by what it takes if iterations are side by side, unless a plan has the next one wait for the end of this.
//! Where most of what a loop makes waits for the iteration before, the rest is not counted so: there it was never seen to get far ahead.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use super::accumulations::iterations_at_once;
use super::carried::Carried;
use super::loops::Loops;
use super::program::Buffer;
use crate::graph::{ControlFlow, FrameId, Graph, NodeId, TensorId};
use crate::ops::Flow;
use crate::order::{Place, Placement};
use crate::plan::{Analysis, Draft};

/// A loop whose iterations do not wait for one another.
#[derive(Debug, Clone)]
pub struct FreeLoop {
    /// What begins the next iteration: it leads the counter there.
    pub next: NodeId,
    /// What an iteration ends with: the loop leads into the next one what these make.
    pub ends: Vec<NodeId>,
    /// How many iterations may be under way at once.
    times: u64,
    /// What an iteration makes on GPUs that does not wait for the one before, each with whether the next iteration would wait for all that
    /// reads it if it waited for the ends.
    tensors: Vec<(TensorId, bool)>,
}

impl FreeLoop {
    /// Whether a plan has the next iteration wait for all that this one ends with.
    fn is_paced(&self, orders: &HashSet<(NodeId, NodeId)>) -> bool {
        self.ends.iter().all(|&end| orders.contains(&(end, self.next)))
    }
}

/// Those of a step.
pub(super) fn free_loops(
    analysis: &Analysis,
    placement: &Placement,
    (loops, carried): (&Loops, &Carried),
    runs: impl Fn(NodeId) -> bool,
    buffer: impl Fn(NodeId, TensorId) -> Buffer,
) -> Vec<FreeLoop> {
    let Analysis { graph, flow, .. } = analysis;
    let at_once = iterations_at_once(analysis);
    let mut inside: HashMap<FrameId, Vec<NodeId>> = HashMap::default();
    for node in graph.node_ids().filter(|&node| flow.frame(node) != FrameId::TOP) {
        let around = std::iter::successors(Some(flow.frame(node)), |&frame| Some(flow.around(frame)));
        for frame in around.take_while(|&frame| frame != FrameId::TOP) {
            inside.entry(frame).or_default().push(node);
        }
    }
    let mut found = Vec::new();
    for (frame, nodes) in inside {
        let body = Body { graph, flow, frame, nodes: nodes.iter().copied().collect() };
        let gates = body.gates();
        let Some(&next) = gates.first() else { continue };
        let times = loops.times_at_once(next, at_once.get(&frame)).filter(|&times| times > 1);
        let Some(times) = times else { continue };
        let awaited = body.before(gates);
        let ends: Vec<NodeId> = body.ends(placement).filter(|end| !awaited.contains(end)).collect();
        let awaited_with_ends: HashSet<NodeId> =
            body.before(ends.iter().copied().collect()).into_iter().chain(awaited.iter().copied()).collect();
        let (mut free_bytes, mut waiting_bytes) = (0u64, 0u64);
        let mut tensors = Vec::new();
        for &node in nodes.iter().filter(|&&node| runs(node) && graph.flow(node).is_none()) {
            for tensor in graph.outputs(node) {
                let is_made =
                    matches!(placement.output(tensor), Place::Gpu(_)) && buffer(node, tensor).may_be_own();
                let bytes = analysis.sizes.bytes(tensor).filter(|&bytes| is_made && bytes > 0);
                let Some(bytes) = bytes else { continue };
                let readers = || graph.uses(tensor).iter().map(|reader| reader.node).chain([node]);
                if carried.waits(node) || readers().all(|node| awaited.contains(&node)) {
                    waiting_bytes = waiting_bytes.saturating_add(bytes);
                } else {
                    free_bytes = free_bytes.saturating_add(bytes);
                    tensors.push((tensor, readers().all(|node| awaited_with_ends.contains(&node))));
                }
            }
        }
        if free_bytes > waiting_bytes {
            found.push(FreeLoop { next, ends, times, tensors });
        }
    }
    found.sort_by_key(|of_loop| of_loop.next);
    found
}

/// How often tensors may be there at a time, of those that may be more than once, with what a plan has wait.
pub(super) fn times_at_once(free_loops: &[FreeLoop], draft: &Draft) -> HashMap<TensorId, u64> {
    let mut times: HashMap<TensorId, u64> = HashMap::default();
    if free_loops.is_empty() {
        return times;
    }
    let orders = draft.ordered_pairs();
    for of_loop in free_loops {
        let is_paced = of_loop.is_paced(&orders);
        for &(tensor, waits_for_ends) in &of_loop.tensors {
            if !(is_paced && waits_for_ends) {
                let known = times.entry(tensor).or_insert(1);
                *known = known.saturating_mul(of_loop.times);
            }
        }
    }
    times
}

/// The body of a loop, with the loops in it.
struct Body<'a> {
    graph: &'a Graph<'a>,
    flow: &'a ControlFlow,
    frame: FrameId,
    nodes: HashSet<NodeId>,
}

impl Body<'_> {
    /// What leads into the next iteration what says whether there is one.
    fn gates(&self) -> BTreeSet<NodeId> {
        let is_condition = |node: &NodeId| {
            self.graph.flow(*node) == Some(Flow::LoopCond) && self.flow.frame(*node) == self.frame
        };
        let conditions = self.nodes.iter().copied().filter(is_condition).collect();
        let merges = self.before(conditions).into_iter();
        let back = merges.flat_map(|merge| self.graph.predecessors(merge).map(move |from| (from, merge)));
        let back = back.filter(|&(from, merge)| self.is_back_edge(from, merge));
        back.map(|(from, _)| from).collect()
    }

    /// What makes on a GPU what the loop leads into the next iteration.
    fn ends(&self, placement: &Placement) -> impl Iterator<Item = NodeId> {
        let leads = |node: &NodeId| {
            self.graph.flow(*node) == Some(Flow::NextIteration) && self.flow.frame(*node) == self.frame
        };
        let led = self.nodes.iter().copied().filter(leads).flat_map(|node| self.graph.data_inputs(node));
        let makers = led.map(|&tensor| self.graph.producer(tensor));
        let is_end = |node: &NodeId| {
            self.nodes.contains(node)
                && self.flow.frame(*node) == self.frame
                && self.graph.flow(*node).is_none()
                && matches!(placement.op(*node), Place::Gpu(_))
        };
        makers.filter(is_end).collect::<BTreeSet<_>>().into_iter()
    }

    /// All that these wait for in one iteration, themselves included.
    fn before(&self, nodes: BTreeSet<NodeId>) -> HashSet<NodeId> {
        let mut open: Vec<NodeId> = nodes.into_iter().collect();
        let mut seen: HashSet<NodeId> = open.iter().copied().collect();
        while let Some(node) = open.pop() {
            let before = self
                .graph
                .predecessors(node)
                .filter(|&from| self.nodes.contains(&from) && !self.is_back_edge(from, node));
            open.extend(before.filter(|&from| seen.insert(from)));
        }
        seen
    }

    /// Whether an edge leads into this loop's next iteration.
    fn is_back_edge(&self, from: NodeId, to: NodeId) -> bool {
        self.flow.frame(to) == self.frame && self.graph.is_back_edge(from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Model, ReadOptions};
    use crate::ops::OpRegistry;
    use crate::plan::{Iterations, NodeOrder, OrderReason};
    use crate::shape::{Shapes, Sizes};
    use crate::simulate::outcome::NoObserver;
    use crate::simulate::{Machine, OpCost, Outline, Program, simulate};

    /// A loop that adds up what it makes of `x`. `fed_back` is what it makes that of.
    fn nodes(fed_back: &str) -> String {
        let of = |name: &str, op: &str, inputs: &str, dtype: &str, more: &str| {
            let inputs: String =
                inputs.split_whitespace().map(|input| format!("input: '{input}' ")).collect();
            let shape = match dtype {
                "DT_FLOAT" => "shape { dim { size: 64 } dim { size: 64 } }",
                _ => "shape { }",
            };
            let shapes = match op {
                "Switch" | "Merge" => shape.repeat(2),
                _ => shape.to_string(),
            };
            format!(
                "node {{ name: '{name}' op: '{op}' {inputs} attr {{ key: 'T' value {{ type: {dtype} }} }} attr {{ key: 'dtype' value \
                 {{ type: {dtype} }} }} attr {{ key: '_output_shapes' value {{ list {{ {shapes} }} }} }} {more} }}\n"
            )
        };
        let frame =
            "attr { key: 'frame_name' value { s: 'loop' } } attr { key: 'is_constant' value { b: false } }";
        let constant =
            "attr { key: 'frame_name' value { s: 'loop' } } attr { key: 'is_constant' value { b: true } }";
        let two = "attr { key: 'N' value { i: 2 } }";
        let mut text = of("x", "Placeholder", "", "DT_FLOAT", "")
            + &of("zero", "Placeholder", "", "DT_INT32", "")
            + &of("x_in", "Enter", "x", "DT_FLOAT", constant)
            + &of("less", "Less", "counter counter", "DT_INT32", "")
            + &of("go_on", "LoopCond", "less", "DT_BOOL", "")
            + &of("count", "AddV2", "counter_in:1 counter_in:1", "DT_INT32", "")
            + &of("wide", "Tanh", &format!("{fed_back} ^counter_in"), "DT_FLOAT", "")
            + &of("gradient", "MatMul", "wide x_in", "DT_FLOAT", "")
            + &of("sum", "AddV2", "sum_in:1 gradient", "DT_FLOAT", "");
        for (name, first, next, dtype) in
            [("counter", "zero", "count", "DT_INT32"), ("sum", "x", "sum", "DT_FLOAT")]
        {
            let merged = match name {
                "counter" => "counter",
                _ => "sum_merged",
            };
            text += &of(&format!("{name}_enter"), "Enter", first, dtype, frame);
            text += &of(merged, "Merge", &format!("{name}_enter {name}_next"), dtype, two);
            text += &of(&format!("{name}_in"), "Switch", &format!("{merged} go_on"), dtype, "");
            text += &of(&format!("{name}_next"), "NextIteration", next, dtype, "");
            text += &of(&format!("{name}_out"), "Exit", &format!("{name}_in"), dtype, "");
        }
        text + "node { name: 'train' op: 'NoOp' input: '^sum_out' input: '^counter_out' }"
    }

    /// What a loop of six iterations is found to be.
    fn with_outline(text: String, look: impl FnOnce(&Graph, &Outline)) {
        let model = Model::from_bytes("test.pbtxt", text.into_bytes(), &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let shapes = Shapes::declared(&graph);
        let sizes = Sizes::of(&graph, &shapes).unwrap();
        let train = graph.node_ids().find(|&node| graph.name(node) == "train").unwrap();
        let analysis = Analysis::new(&graph, &[train], shapes, sizes);
        let analysis = analysis.with_iterations(Iterations { others: Some(6), named: Vec::new() });
        let placement = Placement::of(&graph);
        let outline = Outline::new(&analysis, &placement, |_| OpCost::default()).unwrap();
        look(&graph, &outline);
    }

    #[test]
    fn sums_over_parts_are_side_by_side_unless_a_plan_has_one_wait() {
        with_outline(nodes("x_in"), |graph, outline| {
            let [found] = outline.free_loops() else { panic!("{:?}", outline.free_loops()) };
            let ends: Vec<&str> = found.ends.iter().map(|&end| graph.name(end)).collect();
            assert_eq!((graph.name(found.next), &ends[..], found.times), ("counter_next", &["sum"][..], 6));
            assert!(Program::side_by_side(outline, &Draft::default()).is_some());
            let order = NodeOrder { before: found.ends[0], after: found.next, reason: OrderReason::Budget };
            let paced = Draft { orders: vec![order], ..Draft::default() };
            assert!(Program::side_by_side(outline, &paced).is_none());
        });
    }

    #[test]
    fn a_loop_that_waits_for_what_it_gives_out_fits_into_no_memory() {
        with_outline(nodes("x_in"), |graph, outline| {
            let [before, after] = ["sum_out", "x_in"]
                .map(|name| graph.node_ids().find(|&node| graph.name(node) == name).unwrap());
            let order = NodeOrder { before, after, reason: OrderReason::Budget };
            for (orders, runs) in [(Vec::new(), true), (vec![order], false)] {
                let program = Program::new(outline, &Draft { orders, ..Draft::default() });
                assert_eq!(simulate(&program, &Machine::idle(), &mut NoObserver).is_ok(), runs);
            }
        });
    }

    #[test]
    fn what_rests_on_the_iteration_before_is_not() {
        with_outline(nodes("sum_in:1"), |_, outline| assert!(outline.free_loops().is_empty()));
    }
}
