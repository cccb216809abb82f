//! Which effects of a function may come before an op that did not come after them.
//!
//! Who calls a function runs all of it, so that an added edge A → B makes no op run that did not. It may make a read of a variable see an
//! update that it did not see. Not if the two are in one order in both graphs: then the rewritten graph does to each variable what
//! the original one did, in that order. This is shown here of each variable, from the edges of both graphs; what it is not shown of
//! is left to the rule of [`super::effects`].
//!
//! Two ops are in order if there is a path between them that is always gone. A `Merge` does not wait for all its data inputs, so that only
//! what all of them are behind is surely behind it. Of what stands in a branch or a loop nothing is shown.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::graph::{Graph, NodeId, Tensor};
use super::op_facts::{Flow, Outputs};
use super::step::Steps;
use crate::dtype::DataType;
use crate::proto::tensorflow::attr_value::Value;

/// If there are more pairs than this, none is followed.
const MOST_FOLLOWED: usize = 1 << 14;

/// Marks the ops with an effect for which it is shown. `is_unconditional` tells what stands outside of branches and loops.
pub(super) fn shown(
    graph: &Graph<'_>,
    order: &[NodeId],
    steps: &Steps,
    outputs: &mut Outputs,
    is_unconditional: impl Fn(NodeId) -> bool,
) -> Vec<bool> {
    let mut shown = vec![false; graph.len() as usize];
    let runs = |node: NodeId| steps.each.iter().any(|step| step[node as usize]);
    let of_step = || order.iter().copied().filter(|&node| graph.is_original(node) && runs(node));
    // More than one step means that somebody calls parts after all.
    if steps.each.len() != 1 || !of_step().all(|node| is_understood(graph, node)) {
        return shown;
    }
    let variables = Variables::of(graph);
    let mut touching: BTreeMap<Variable, Vec<NodeId>> = BTreeMap::new();
    for node in of_step().filter(|&node| !is_handed_on(graph, node)) {
        for &tensor in graph.origins(node) {
            match outputs.of(graph, tensor).map(|port| port.dtype) {
                Some(DataType::RESOURCE) => match variables.find(graph, outputs, tensor) {
                    Some(variable) => touching.entry(variable).or_default().push(node),
                    None => return shown,
                },
                Some(_) => {}
                None => return shown,
            }
        }
    }
    touching.retain(|_, nodes| nodes.iter().any(|&node| graph.op(node).has_effect));
    let mut pairs: Vec<Pair> = Vec::new();
    let mut unclear: BTreeSet<Variable> = BTreeSet::new();
    for (&variable, nodes) in &mut touching {
        nodes.dedup();
        match nodes.iter().all(|&node| is_unconditional(node)) {
            true => pairs.extend(to_be_shown(graph, variable, nodes)),
            false => unclear.extend([variable]),
        }
    }
    unclear.extend(not_shown(graph, order, pairs));
    for node in of_step().filter(|&node| graph.op(node).has_effect) {
        shown[node as usize] = true;
    }
    for node in unclear.iter().filter_map(|variable| touching.get(variable)).flatten() {
        shown[*node as usize] = false;
    }
    shown
}

/// A variable by an op that gives its handle.
type Variable = NodeId;

/// What has to come after what, so that all that touches a variable is in one order with its updates.
struct Pair {
    variable: Variable,
    first: NodeId,
    second: NodeId,
}

/// Whether it is known what an op of the step may do to variables: nothing, or something to those whose handles it takes.
fn is_understood(graph: &Graph<'_>, node: NodeId) -> bool {
    let facts = graph.op(node);
    let op = graph.nodes.op(node as usize);
    !facts.runs_function
        && (!facts.has_effect || is_update(op) || DRAWING.contains(&op) || TELLING.contains(&op))
}

/// Ops that change a variable whose handle they take, and nothing besides.
fn is_update(op: &str) -> bool {
    UPDATES.contains(&op)
        || ["ResourceApply", "ResourceSparseApply", "ResourceScatter"]
            .iter()
            .any(|start| op.starts_with(start))
}

const UPDATES: &[&str] = &[
    "AssignAddVariableOp",
    "AssignSubVariableOp",
    "AssignVariableOp",
    "ResourceStridedSliceAssign",
    "RngReadAndSkip",
    "RngSkip",
];

/// Ops with a generator of their own, which no other op sees.
pub(super) const DRAWING: &[&str] = &[
    "Multinomial",
    "ParameterizedTruncatedNormal",
    "RandomGamma",
    "RandomPoisson",
    "RandomPoissonV2",
    "RandomShuffle",
    "RandomStandardNormal",
    "RandomUniform",
    "RandomUniformInt",
    "TruncatedNormal",
];

/// Ops that tell somebody something.
const TELLING: &[&str] = &["Assert", "PrintV2"];

/// Whether an op gives the handle that it takes.
fn is_handed_on(graph: &Graph<'_>, node: NodeId) -> bool {
    matches!(graph.nodes.op(node as usize), "Identity" | "Switch" | "Enter")
}

/// The variables by the names that their handles have.
struct Variables {
    by_name: HashMap<Vec<u8>, Variable>,
}

impl Variables {
    fn of(graph: &Graph<'_>) -> Variables {
        let mut by_name = HashMap::new();
        for node in graph.ids() {
            if let Some(name) = Variables::name(graph, node) {
                by_name.entry(name).or_insert(node);
            }
        }
        Variables { by_name }
    }

    /// Two ops that give handles of this name give those of one variable.
    fn name(graph: &Graph<'_>, node: NodeId) -> Option<Vec<u8>> {
        match graph.nodes.attr(node as usize, "shared_name")?.value? {
            Value::S(name) if !name.is_empty() => Some(name),
            _ => None,
        }
    }

    /// The variable of a handle; none if it is not clear.
    fn find(&self, graph: &Graph<'_>, outputs: &mut Outputs, mut handle: Tensor) -> Option<Variable> {
        while is_handed_on(graph, handle.node) {
            handle = *graph.origins(handle.node).first()?;
        }
        let mut takes = graph.origins(handle.node).iter();
        if takes.any(|&tensor| outputs.of(graph, tensor).is_none_or(|port| port.dtype == DataType::RESOURCE))
        {
            return None;
        }
        let named = Variables::name(graph, handle.node).and_then(|name| self.by_name.get(&name).copied());
        Some(named.unwrap_or(handle.node))
    }
}

/// Of ops that touch one variable, in the order of the graph, the pairs that suffice: each op after the update before it, and each update
/// after what touches the variable since the one before.
fn to_be_shown(graph: &Graph<'_>, variable: Variable, nodes: &[NodeId]) -> Vec<Pair> {
    let pair = |first, second| Pair { variable, first, second };
    let is_update = |node: NodeId| graph.op(node).has_effect;
    let mut pairs = Vec::new();
    let mut since: &[NodeId] = &[];
    let mut start = 0;
    for (at, &node) in nodes.iter().enumerate() {
        if is_update(node) {
            pairs.extend(since.iter().map(|&first| pair(first, node)));
            start = at;
        } else if is_update(nodes[start]) {
            pairs.push(pair(nodes[start], node));
        }
        since = &nodes[start..=at];
    }
    pairs
}

/// The variables of the pairs that are not in order, in both graphs.
fn not_shown(graph: &Graph<'_>, order: &[NodeId], mut pairs: Vec<Pair>) -> Vec<Variable> {
    let is_next = |pair: &Pair| {
        let in_both =
            graph.control(pair.second).iter().any(|control| !control.added && control.from == pair.first);
        in_both || graph.data(pair.second).iter().any(|tensor| tensor.node == pair.first)
    };
    pairs.retain(|pair| !is_next(pair));
    if pairs.len() > MOST_FOLLOWED {
        return pairs.into_iter().map(|pair| pair.variable).collect();
    }
    pairs.sort_unstable_by_key(|pair| pair.first);
    let mut reach = Reach { graph, order, before: vec![0; order.len()], after: vec![0; order.len()] };
    let mut found = Vec::new();
    let mut open: &[Pair] = &pairs;
    while let Some(first) = open.first() {
        let mut batch = vec![first.first];
        let is_of_batch = |pair: &&Pair| {
            if batch.last() != Some(&pair.first) {
                batch.push(pair.first);
            }
            batch.len() <= 64
        };
        let count = open.iter().take_while(is_of_batch).count();
        let (now, later) = open.split_at(count);
        batch.truncate(64);
        reach.run(&batch);
        found.extend(now.iter().filter(|pair| !reach.is_after(&batch, pair)).map(|pair| pair.variable));
        open = later;
    }
    found
}

/// What is surely behind which ops, for up to 64 of them at a time, in the original graph and in the rewritten one.
struct Reach<'g, 'a> {
    graph: &'g Graph<'a>,
    order: &'g [NodeId],
    before: Vec<u64>,
    after: Vec<u64>,
}

impl Reach<'_, '_> {
    fn run(&mut self, from: &[NodeId]) {
        self.before.fill(0);
        self.after.fill(0);
        for (bit, &node) in from.iter().enumerate() {
            self.before[node as usize] = 1 << bit;
            self.after[node as usize] = 1 << bit;
        }
        let graph = self.graph;
        for &node in self.order {
            if graph.is_original(node) {
                let controls = graph.control(node).iter().filter(|control| !control.added);
                let controls = controls.map(|control| control.from);
                self.before[node as usize] |=
                    behind(graph, node, graph.origins(node), controls, &self.before);
            }
            let controls = graph.control(node).iter().map(|control| control.from);
            self.after[node as usize] |= behind(graph, node, graph.data(node), controls, &self.after);
        }
    }

    fn is_after(&self, batch: &[NodeId], pair: &Pair) -> bool {
        let Ok(bit) = batch.binary_search(&pair.first) else { return false };
        let second = pair.second as usize;
        (self.before[second] & self.after[second]) >> bit & 1 == 1
    }
}

/// What a node is surely behind, by what its inputs are.
fn behind(
    graph: &Graph<'_>,
    node: NodeId,
    data: &[Tensor],
    controls: impl Iterator<Item = NodeId>,
    bits: &[u64],
) -> u64 {
    let of_data = data.iter().map(|tensor| tensor.node).filter(|&from| !graph.is_back_edge(from, node));
    let of_data = of_data.map(|from| bits[from as usize]);
    let data = match graph.flow(node) {
        Flow::Merge => of_data.reduce(|one, other| one & other).unwrap_or(0),
        _ => of_data.fold(0, |one, other| one | other),
    };
    controls.fold(data, |one, other| one | bits[other as usize])
}
