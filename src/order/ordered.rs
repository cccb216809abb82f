//! Which effects of a function an op may be made to come after though it did not before.
//!
//! A function always runs as a whole, so that no added edge makes a run have an effect that it did not have. What an edge can change is the
//! order of effects: a read of a variable may come after an update that it came before. It cannot where the graph itself orders the two,
//! as `tf.function` does for all that touches one variable (`AutomaticControlDependencies`): an edge against that order would close
//! a cycle. So the updates of a variable are free of the rule of [`super::Effects`] if each of them is ordered with all else that touches it.
//!
//! Only what stands outside of branches and loops counts as ordered, for a branch or a later iteration is behind less than its graph shows.
//! Where some op may touch variables that it does not name, as Python's code may, no effect is free.

use std::collections::BTreeMap;

use crate::dtype::DataType;
use crate::graph::{Condition, ControlFlow, FrameId, Graph, NodeId, TensorId};
use crate::ops::Flow;

use super::Step;

/// So many pairs of ops are followed through the graph; of more none is taken to be in order. The checker follows twice as many, since it also
/// asks for an update behind the one before where something is read between.
const MOST_FOLLOWED: usize = 1 << 13;

/// For each op whether it has an effect that an op of the step may come after, whatever that op came after before. `graph` is a function
/// that runs as a whole, for `step`.
pub(super) fn free_effects(graph: &Graph, step: &Step) -> Vec<bool> {
    let mut is_free = vec![false; graph.len()];
    let Some(variables) = Touched::of(graph, step) else { return is_free };
    let unordered = unordered(graph, &variables);
    let of_own = graph.node_ids().filter(|&node| is_of_its_own(graph.op(node).name()));
    let updates = graph.node_ids().filter(|&node| updates_variable(graph, node));
    for node in updates.filter(|&node| step.certainly_contains(node)) {
        let mut variables = variables.touched_by(graph, node);
        is_free[node.index()] = variables.all(|variable| unordered.get(&variable) == Some(&false));
    }
    for node in of_own.filter(|&node| step.certainly_contains(node)) {
        is_free[node.index()] = true;
    }
    is_free
}

/// Whether an op's effect is on itself alone: a generator's next numbers, or what is told to a person.
fn is_of_its_own(op: &str) -> bool {
    draws_random_numbers(op) || matches!(op, "Assert" | "PrintV2")
}

/// Whether an op has a generator of its own, and gives that one's next numbers.
pub(super) fn draws_random_numbers(op: &str) -> bool {
    matches!(
        op,
        "Multinomial"
            | "ParameterizedTruncatedNormal"
            | "RandomGamma"
            | "RandomPoisson"
            | "RandomPoissonV2"
            | "RandomShuffle"
            | "RandomStandardNormal"
            | "RandomUniform"
            | "RandomUniformInt"
            | "TruncatedNormal"
    )
}

/// Whether an op's effect is on the variables whose handles it is given, and on nothing else.
fn updates_variable(graph: &Graph, node: NodeId) -> bool {
    let name = graph.op(node).name();
    let is_update = name.starts_with("Assign") && name.ends_with("VariableOp")
        || ["ResourceApply", "ResourceScatter", "ResourceSparseApply", "ResourceStridedSliceAssign"]
            .iter()
            .any(|start| name.starts_with(start))
        || matches!(name, "RngReadAndSkip" | "RngSkip");
    is_update && handles(graph, node).next().is_some()
}

/// The handles among what an op reads.
fn handles<'g>(graph: &'g Graph, node: NodeId) -> impl Iterator<Item = TensorId> + 'g {
    let is_handle = |tensor: &TensorId| graph.output_type(*tensor).dtype == DataType::RESOURCE;
    graph.data_inputs(node).iter().copied().filter(is_handle)
}

/// An op that makes the handle of a variable, or the first of those that make it.
type Variable = NodeId;

/// What touches each variable.
struct Touched<'g> {
    /// Of a variable that several ops make handles of the first one.
    by_name: BTreeMap<&'g [u8], Variable>,
    /// For each variable the ops of the step that are given its handle, in topological order.
    ops: BTreeMap<Variable, Vec<NodeId>>,
}

impl<'g> Touched<'g> {
    /// None if some op of the step may touch variables whose handles it is not given, or one that nobody can name.
    fn of(graph: &'g Graph, step: &Step) -> Option<Touched<'g>> {
        let mut by_name = BTreeMap::new();
        for node in graph.node_ids() {
            if let Some(name) = graph.attrs(node).string("shared_name").filter(|name| !name.is_empty()) {
                by_name.entry(name).or_insert(node);
            }
        }
        let mut touched = Touched { by_name, ops: BTreeMap::new() };
        for &node in graph.topological().iter().filter(|&&node| step.may_run(node)) {
            let op = graph.op(node);
            let is_known = !op.has_effect() || is_of_its_own(op.name()) || updates_variable(graph, node);
            if !is_known || op.runs_functions() {
                return None;
            }
            if hands_on(op.name()) {
                continue;
            }
            for handle in handles(graph, node) {
                let ops = touched.ops.entry(touched.variable(graph, handle)?).or_default();
                if ops.last() != Some(&node) {
                    ops.push(node);
                }
            }
        }
        Some(touched)
    }

    /// The variable of a handle; none if another op than those that hand on gives it.
    fn variable(&self, graph: &Graph, handle: TensorId) -> Option<Variable> {
        let mut maker = graph.producer(handle);
        while maker.index() < graph.len() && hands_on(graph.op(maker).name()) {
            maker = graph.producer(*graph.data_inputs(maker).first()?);
        }
        if maker.index() >= graph.len() || handles(graph, maker).next().is_some() {
            return None;
        }
        let name = graph.attrs(maker).string("shared_name").unwrap_or_default();
        Some(self.by_name.get(name).copied().unwrap_or(maker))
    }

    fn touched_by(&self, graph: &Graph, node: NodeId) -> impl Iterator<Item = Variable> {
        handles(graph, node).filter_map(|handle| self.variable(graph, handle))
    }
}

/// Whether what an op gives is the handle that it is given.
fn hands_on(op: &str) -> bool {
    matches!(op, "Enter" | "Identity" | "Switch")
}

/// For each variable that is updated whether something that touches it is not ordered with an update.
fn unordered(graph: &Graph, touched: &Touched<'_>) -> BTreeMap<Variable, bool> {
    let flow = ControlFlow::of(graph);
    let mut found = BTreeMap::new();
    // What has to come one after the other, and is not next to the other in the graph.
    let mut apart: Vec<(Variable, NodeId, NodeId)> = Vec::new();
    for (&variable, ops) in &touched.ops {
        if !ops.iter().any(|&node| graph.op(node).has_effect()) {
            continue;
        }
        let is_always =
            |&node: &NodeId| flow.frame(node) == FrameId::TOP && flow.condition(node) == Condition::ALWAYS;
        found.insert(variable, !ops.iter().all(is_always));
        for (before, after) in neighbours(graph, ops) {
            if !graph.predecessors(after).any(|from| from == before) {
                apart.push((variable, before, after));
            }
        }
    }
    let mut marks = Marks::new(graph);
    let mut updates: Vec<NodeId> = apart
        .iter()
        .flat_map(|&(_, before, after)| [before, after])
        .filter(|&node| graph.op(node).has_effect())
        .collect();
    updates.sort_unstable();
    updates.dedup();
    if apart.len() > MOST_FOLLOWED {
        updates.clear();
    }
    let mut is_apart = vec![true; apart.len()];
    for batch in updates.chunks(64) {
        let bit = |node| batch.binary_search(&node).map_or(0, |bit| 1u64 << bit);
        marks.forward(graph, batch);
        for (pair, is_apart) in apart.iter().zip(&mut is_apart) {
            *is_apart &= marks.of(pair.2) & bit(pair.1) == 0;
        }
        marks.backward(graph, batch);
        for (pair, is_apart) in apart.iter().zip(&mut is_apart) {
            *is_apart &= marks.of(pair.1) & bit(pair.2) == 0;
        }
    }
    for (&(variable, ..), _) in apart.iter().zip(is_apart).filter(|(_, is_apart)| *is_apart) {
        found.insert(variable, true);
    }
    found
}

/// Of ops that touch one variable, in topological order, the pairs that have to be ordered so that each update is ordered with all others.
fn neighbours(graph: &Graph, ops: &[NodeId]) -> Vec<(NodeId, NodeId)> {
    let mut pairs = Vec::new();
    let mut update = None;
    let mut reads: Vec<NodeId> = Vec::new();
    for &node in ops {
        let is_update = graph.op(node).has_effect();
        if is_update && !reads.is_empty() {
            pairs.extend(reads.drain(..).map(|read| (read, node)));
        } else {
            pairs.extend(update.map(|update| (update, node)));
        }
        match is_update {
            true => update = Some(node),
            false => reads.push(node),
        }
    }
    pairs
}

/// For each op which of up to 64 others certainly come before it, or after.
struct Marks {
    bits: Vec<u64>,
}

impl Marks {
    fn new(graph: &Graph) -> Marks {
        Marks { bits: vec![0; graph.len()] }
    }

    fn of(&self, node: NodeId) -> u64 {
        self.bits[node.index()]
    }

    fn begin(&mut self, from: &[NodeId]) {
        self.bits.fill(0);
        for (bit, node) in from.iter().enumerate() {
            self.bits[node.index()] = 1 << bit;
        }
    }

    /// Marks what comes after these.
    fn forward(&mut self, graph: &Graph, from: &[NodeId]) {
        self.begin(from);
        for &node in graph.topological() {
            let certain = graph.predecessors(node).filter(|&before| is_awaited(graph, before, node));
            let bits = certain.fold(0, |bits, before| bits | self.bits[before.index()]);
            self.bits[node.index()] |= bits;
        }
    }

    /// Marks what comes before these.
    fn backward(&mut self, graph: &Graph, from: &[NodeId]) {
        self.begin(from);
        for &node in graph.topological().iter().rev() {
            let bits = self.of(node);
            if bits != 0 {
                for before in graph.predecessors(node).filter(|&before| is_awaited(graph, before, node)) {
                    self.bits[before.index()] |= bits;
                }
            }
        }
    }
}

/// Whether an op surely waits for another one that it reads: a `Merge` takes the first input that is there.
fn is_awaited(graph: &Graph, before: NodeId, node: NodeId) -> bool {
    before.index() < graph.len()
        && (graph.flow(node) != Some(Flow::Merge) || graph.control_inputs(node).contains(&before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Model, ReadOptions};
    use crate::ops::OpRegistry;

    /// A variable that is read, updated, and read again; and a generator.
    const NODES: &[&str] = &[
        "x Placeholder",
        "v VarHandleOp",
        "read ReadVariableOp v",
        "a AddV2 x read",
        "update AssignSubVariableOp v a ^read",
        "later ReadVariableOp v ^update",
        "random RandomUniform x",
    ];

    /// Which of the nodes have a free effect, with these nodes besides, of which all are part of the step.
    fn free(more: &[&str]) -> Vec<String> {
        let mut text = String::new();
        let names = |line: &&&str| format!("^{}", line.split(' ').next().unwrap_or_default());
        let all: Vec<String> = NODES.iter().chain(more).map(|line| names(&line)).collect();
        let train = format!("train NoOp {}", all.join(" "));
        for line in NODES.iter().copied().chain(more.iter().copied()).chain([train.as_str()]) {
            let mut words = line.split(' ');
            let (name, op) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            text += &format!("node {{ name: \"{name}\" op: \"{op}\"");
            words.for_each(|input| text += &format!(" input: \"{input}\""));
            let dtype = match (name, op) {
                ("handle", _) => "DT_RESOURCE",
                ("p", _) => "DT_BOOL",
                _ => "DT_FLOAT",
            };
            for attr in ["T", "dtype"] {
                text += &format!(" attr {{ key: \"{attr}\" value {{ type: {dtype} }} }}");
            }
            text += " attr { key: \"N\" value { i: 2 } } }\n";
        }
        let model = Model::from_bytes("a graph", text.into_bytes(), &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let train = graph.node_ids().find(|&node| graph.name(node) == "train").unwrap();
        let free = free_effects(&graph, &Step::of(&graph, &[train]));
        graph.node_ids().filter(|node| free[node.index()]).map(|node| graph.name(node).to_string()).collect()
    }

    #[test]
    fn an_update_is_free_if_all_that_touches_its_variable_is_in_order() {
        assert_eq!(free(&[]), ["update", "random"]);
        assert_eq!(free(&["other ReadVariableOp v"]), ["random"]);
        assert_eq!(free(&["other ReadVariableOp v ^later"]), ["update", "random"]);
        // Over some ops, before and after.
        assert_eq!(
            free(&["b Relu later", "c Relu b", "again AssignVariableOp v c"]),
            ["update", "random", "again"]
        );
        assert_eq!(free(&["again AssignVariableOp v x"]), ["random"]);
        // Two variables.
        assert_eq!(
            free(&["w VarHandleOp", "set AssignVariableOp w x", "seen ReadVariableOp w"]),
            ["update", "random"]
        );
        assert_eq!(free(&["w VarHandleOp", "set AssignVariableOp w x"]), ["update", "random", "set"]);
    }

    #[test]
    fn where_variables_are_touched_unseen_no_effect_is_free() {
        assert_eq!(free(&["any WriteFile x x"]), [""; 0]);
        assert_eq!(free(&["handle Merge v v", "other ReadVariableOp handle"]), [""; 0]);
        assert_eq!(free(&["handle Identity v", "other ReadVariableOp handle ^later"]), ["update", "random"]);
    }

    #[test]
    fn what_a_branch_or_a_merge_leads_to_is_not_in_order() {
        let branch =
            ["p Placeholder", "choice Switch x p", "no Identity choice", "yes Identity choice:1 ^update"];
        let with = |more: &[&str]| free(&branch.iter().chain(more).copied().collect::<Vec<_>>());
        assert_eq!(with(&["either Merge no yes", "other ReadVariableOp v ^either"]), ["random"]);
        assert_eq!(
            with(&["either Merge no yes ^update", "other ReadVariableOp v ^either"]),
            ["update", "random"]
        );
        assert_eq!(with(&["other ReadVariableOp v ^yes"]), ["random"]);
    }
}
