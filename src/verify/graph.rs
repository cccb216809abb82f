//! The rewritten graph in flat arrays, and within it the original one.
//!
//! Each input of an original node has two readings: what it reads as written, and what it reads when swap ops and
//! recomputed ops are followed back. Once the rules about inputs hold, the second is what the original graph reads, so
//! one graph serves for both.

use super::copies::Copies;
use super::names::{
    INITIAL_PREFIX, Input, NameMap, ORDER_PREFIX, RECOMPUTED_PREFIX, SWAP_IN_PREFIX, SWAP_OUT_PREFIX,
};
use super::op_facts::{Flow, OpFacts, OpTable};
use super::report::{Report, ViolationKind};
use super::same_nodes;
use crate::format::Nodes;

/// A node of the rewritten graph by its place in the file.
pub(super) type NodeId = u32;

/// No node.
pub(super) const NONE: NodeId = NodeId::MAX;

/// An output of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Tensor {
    pub node: NodeId,
    pub output: u32,
}

/// What a node is to the rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Original,
    SwapIn,
    SwapOut,
    Order,
    /// A second copy of an original node.
    Recomputed,
    /// A copy of what a variable begins with.
    Initial,
    /// Under `lms/`, but none of the above.
    Unknown,
}

impl Role {
    fn of_added(name: &str) -> Role {
        // The kinds of added ops. A new kind is a line here and a rule about its form.
        let kinds = [
            (SWAP_IN_PREFIX, Role::SwapIn),
            (SWAP_OUT_PREFIX, Role::SwapOut),
            (ORDER_PREFIX, Role::Order),
            (RECOMPUTED_PREFIX, Role::Recomputed),
            (INITIAL_PREFIX, Role::Initial),
        ];
        kinds.into_iter().find(|(prefix, _)| name.starts_with(prefix)).map_or(Role::Unknown, |(_, role)| role)
    }

    /// Whether output 0 is the tensor that the op's data input is.
    pub fn is_swap(self) -> bool {
        matches!(self, Role::SwapIn | Role::SwapOut | Role::Initial)
    }
}

/// A control input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Control {
    pub from: NodeId,
    /// Whether the original graph has it not; of a recomputed op, whether its original has it not there.
    pub added: bool,
}

/// One list for each node, all in one array.
#[derive(Debug)]
pub(super) struct Lists<T> {
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T> Lists<T> {
    pub fn with_capacity(lists: usize, items: usize) -> Lists<T> {
        let mut starts = Vec::with_capacity(lists + 1);
        starts.push(0);
        Lists { starts, items: Vec::with_capacity(items) }
    }

    /// Adds the list of the next node.
    pub fn push(&mut self, items: impl IntoIterator<Item = T>) {
        self.items.extend(items);
        self.close();
    }

    /// Ends the list of the next node.
    fn close(&mut self) {
        self.starts.push(self.items.len() as u32);
    }

    fn range(&self, node: NodeId) -> std::ops::Range<usize> {
        self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize
    }

    /// A node's list.
    pub fn of(&self, node: NodeId) -> &[T] {
        &self.items[self.range(node)]
    }
}

/// The two graphs in one.
#[derive(Debug)]
pub(super) struct Graph<'a> {
    pub nodes: Nodes<'a>,
    pub ops: OpTable<'a>,
    pub names: NameMap<'a, NodeId>,
    pub roles: Vec<Role>,
    pub copies: Copies,
    data: Lists<Tensor>,
    /// What each data input reads when added ops are followed back, beside `data`.
    origins: Vec<Tensor>,
    control: Lists<Control>,
    consumers: Lists<NodeId>,
}

impl<'a> Graph<'a> {
    /// Joins the graphs' inputs to their nodes.
    ///
    /// `pairs` says which original each node is. Reports inputs that name no node.
    pub fn new(
        original: Nodes<'a>,
        rewritten: Nodes<'a>,
        pairs: &[NodeId],
        ops: OpTable<'a>,
        report: &mut Report,
    ) -> Graph<'a> {
        let names = same_nodes::by_name(rewritten, "the rewritten graph", report);
        let role = |(node, &pair): (usize, &NodeId)| match pair {
            NONE => Role::of_added(rewritten.name(node)),
            _ => Role::Original,
        };
        let roles: Vec<Role> = pairs.iter().enumerate().map(role).collect();
        let count = rewritten.len();
        let mut graph = Graph {
            nodes: rewritten,
            ops,
            names,
            roles,
            copies: Copies::default(),
            data: Lists::with_capacity(count, rewritten.input_count()),
            origins: Vec::new(),
            control: Lists::with_capacity(count, 0),
            consumers: Lists::with_capacity(0, 0),
        };
        for (node, &pair) in (0..).zip(pairs) {
            graph.push_inputs(node, original, pair, report);
        }
        graph.copies = Copies::find(&graph);
        graph.mark_copied_controls();
        graph.origins = graph.data.items.iter().map(|&tensor| graph.follow_back(tensor)).collect();
        graph.consumers = graph.find_consumers();
        graph
    }

    /// How many nodes there are, added ones among them.
    pub fn len(&self) -> u32 {
        self.roles.len() as u32
    }

    /// Whether the graph is for any of several workers, whose tasks it does not name.
    pub fn serves_any_task(&self) -> bool {
        self.names.contains_key("lms/parallel/workers")
    }

    /// All nodes in the order of the file.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        0..self.len()
    }

    pub fn name(&self, node: NodeId) -> &'a str {
        self.nodes.name(node as usize)
    }

    /// A tensor as inputs name it.
    pub fn tensor_name(&self, tensor: Tensor) -> String {
        format!("{}:{}", self.name(tensor.node), tensor.output)
    }

    pub fn op(&self, node: NodeId) -> &OpFacts<'a> {
        self.ops.of(node)
    }

    pub fn flow(&self, node: NodeId) -> Flow {
        self.ops.of(node).flow
    }

    pub fn role(&self, node: NodeId) -> Role {
        self.roles[node as usize]
    }

    pub fn is_original(&self, node: NodeId) -> bool {
        self.role(node) == Role::Original
    }

    /// The data inputs as written.
    pub fn data(&self, node: NodeId) -> &[Tensor] {
        self.data.of(node)
    }

    /// The data inputs with added ops followed back: those of the original graph.
    pub fn origins(&self, node: NodeId) -> &[Tensor] {
        &self.origins[self.data.range(node)]
    }

    pub fn control(&self, node: NodeId) -> &[Control] {
        self.control.of(node)
    }

    /// All nodes that take an input from this one, once for each such input.
    pub fn consumers(&self, node: NodeId) -> &[NodeId] {
        self.consumers.of(node)
    }

    /// Where all inputs of a node come from, as written.
    pub fn sources(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let control = self.control(node).iter().map(|control| control.from);
        self.data(node).iter().map(|tensor| tensor.node).chain(control)
    }

    /// Where all inputs of an original node come from in the original graph.
    pub fn original_sources(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let control = self.control(node).iter().filter(|control| !control.added).map(|control| control.from);
        self.origins(node).iter().map(|tensor| tensor.node).chain(control)
    }

    /// Where the inputs of a node come from that the original graph has not.
    pub fn added_sources(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let added = !self.is_original(node);
        let control = self.control(node).iter().filter(move |control| control.added || added);
        let data = self.data(node).iter().filter(move |tensor| added || !self.is_original(tensor.node));
        data.map(|tensor| tensor.node).chain(control.map(|control| control.from))
    }

    /// What a node is behind in an order of the nodes: all its inputs, and a recomputed op its original too. So who reads
    /// the copy in the original's place is behind both, and one order serves the original graph as well.
    pub fn is_behind(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.sources(node).chain(self.copies.original_of(node))
    }

    /// The nodes of the original graph that an added op stands for or hands on.
    pub fn stands_for(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let swapped = if self.role(node).is_swap() { self.origins(node) } else { &[] };
        swapped.iter().map(|tensor| tensor.node).chain(self.copies.original_of(node))
    }

    /// Whether an edge closes a loop: the one kind that may lie on a cycle.
    pub fn is_back_edge(&self, from: NodeId, to: NodeId) -> bool {
        self.flow(from) == Flow::NextIteration && self.flow(to) == Flow::Merge
    }

    /// Whether a node is where a loop's iterations begin.
    pub fn is_loop_header(&self, node: NodeId) -> bool {
        self.flow(node) == Flow::Merge
            && self.origins(node).iter().any(|tensor| self.flow(tensor.node) == Flow::NextIteration)
    }

    fn push_inputs(&mut self, node: NodeId, original: Nodes<'a>, pair: NodeId, report: &mut Report) {
        let first_control = self.control.items.len();
        for input in self.nodes.inputs(node as usize) {
            match self.resolve(input) {
                Some((Input::Data(_, output), from)) => {
                    if self.control.items.len() > first_control {
                        let name = self.name(node);
                        report.add(ViolationKind::BadInput, || {
                            let found = format!("`{input}` behind a control input");
                            ([name], "all data inputs before the control inputs".to_string(), found)
                        });
                    }
                    self.data.items.push(Tensor { node: from, output });
                }
                Some((Input::Control(_), from)) => self.control.items.push(Control { from, added: true }),
                None => {
                    let name = self.name(node);
                    report.add(ViolationKind::BadInput, || {
                        let expected = "inputs `node`, `node:output` or `^node` of nodes of the graph";
                        ([name], expected.to_string(), format!("`{input}`"))
                    });
                }
            }
        }
        if pair != NONE {
            self.mark_original_controls(first_control, original, pair);
        }
        self.data.close();
        self.control.close();
    }

    /// Tells the control inputs that the original node has from those that were added.
    fn mark_original_controls(&mut self, first: usize, original: Nodes<'a>, pair: NodeId) {
        let mut before: Vec<NodeId> = Vec::new();
        for input in original.inputs(pair as usize).filter(|input| input.starts_with('^')) {
            before.extend(self.resolve(input).map(|(_, from)| from));
        }
        before.sort_unstable();
        for control in &mut self.control.items[first..] {
            control.added = before.binary_search(&control.from).is_err();
        }
    }

    /// Tells the control inputs that a recomputed op has from its original from those that were added.
    fn mark_copied_controls(&mut self) {
        for &(copy, original) in self.copies.by_copy() {
            let mut before: Vec<NodeId> = self
                .control
                .of(original)
                .iter()
                .filter(|control| !control.added)
                .map(|control| control.from)
                .collect();
            before.sort_unstable();
            let range = self.control.range(copy);
            for control in &mut self.control.items[range] {
                control.added = before.binary_search(&control.from).is_err();
            }
        }
    }

    /// An input's node, by the names of the rewritten graph.
    pub fn resolve(&self, input: &'a str) -> Option<(Input<'a>, NodeId)> {
        let input = Input::parse(input)?;
        let (Input::Data(name, _) | Input::Control(name)) = input;
        self.names.get(name).map(|&node| (input, node))
    }

    /// The tensor that an added op's output is; any other tensor is itself.
    fn follow_back(&self, tensor: Tensor) -> Tensor {
        let mut tensor = tensor;
        // By their form a swap-in reads a swap-out at most.
        for _ in 0..2 {
            match self.data.of(tensor.node).first() {
                Some(&read) if self.role(tensor.node).is_swap() && tensor.output == 0 => tensor = read,
                _ => break,
            }
        }
        // A recomputed op names an original node and no other, so this is the end.
        match self.copies.original_of(tensor.node) {
            Some(original) => Tensor { node: original, ..tensor },
            None => tensor,
        }
    }

    fn find_consumers(&self) -> Lists<NodeId> {
        let mut starts = vec![0u32; self.roles.len() + 1];
        for node in self.ids() {
            for from in self.sources(node) {
                starts[from as usize + 1] += 1;
            }
        }
        for node in 0..self.roles.len() {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut items = vec![NONE; starts.last().map_or(0, |&end| end as usize)];
        for node in self.ids() {
            for from in self.sources(node) {
                let place = &mut next[from as usize];
                items[*place as usize] = node;
                *place += 1;
            }
        }
        Lists { starts, items }
    }
}
