//! What the user sees.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display, Write};

use serde::Serialize;
use tf_lms::cli::{Page, Size, count};
use tf_lms::format::{Encoding, Kind};
use tf_lms::graph::{Graph, NodeId};
use tf_lms::ops::Fact;
use tf_lms::order::{Place, Placement};
use tf_lms::plan::{Analysis, DataParallel, Plan, Swap, begins_accumulator};
use tf_lms::shape::learning_parameter_bytes;
use tf_lms::tune::describe;

/// The version of the JSON document.
const SCHEMA: u32 = 1;

/// How many of the largest tensors are listed.
const LISTED: usize = 10;

/// All facts about a rewrite.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: u32,
    input: Input,
    largest_op: Option<LargestOp>,
    strategy: String,
    parameters: serde_json::Value,
    devices: Vec<DeviceSwaps>,
    #[serde(flatten)]
    total: SwapCounts,
    /// Only named where there are some.
    #[serde(skip_serializing_if = "is_zero")]
    recomputed_ops: usize,
    /// The same.
    #[serde(skip_serializing_if = "is_zero")]
    initial_values: usize,
    /// The same.
    #[serde(skip_serializing_if = "is_zero")]
    weights_on_host: usize,
    /// The same, of stacks and lists of loops.
    #[serde(skip_serializing_if = "is_zero")]
    accumulators_on_host: usize,
    /// Only if the graph was made to train on several workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_parallel: Option<Reduces>,
    pub control_edges: usize,
    pub verified: bool,
    pub seconds: Seconds,
    pub output: Option<String>,
    #[serde(skip)]
    name: String,
    #[serde(skip)]
    functions: usize,
    /// The function that is the training step.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    /// How many calls in it were made flat.
    #[serde(skip)]
    flat_calls: usize,
    #[serde(skip)]
    unknown_tensors: Vec<String>,
    #[serde(skip)]
    largest_swaps: Vec<Swap>,
    #[serde(skip)]
    swaps_of_unknown_size: usize,
    /// What else the user should know, a sentence each.
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Input {
    kind: Kind,
    encoding: Encoding,
    nodes: usize,
    edges: usize,
    levels: usize,
    parameter_bytes: u64,
    unknown_size_tensors: usize,
}

/// What all workers do together in a step.
#[derive(Debug, Clone, Copy, Serialize)]
struct Reduces {
    tensors: usize,
    bytes: u64,
    collectives: usize,
    variables: usize,
}

impl Reduces {
    fn of(parallel: &DataParallel) -> Reduces {
        Reduces {
            tensors: parallel.tensors(),
            bytes: parallel.bytes(),
            collectives: parallel.collectives.len(),
            variables: parallel.variables.len(),
        }
    }
}

#[derive(Debug, Serialize)]
struct LargestOp {
    name: String,
    op: String,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
struct SwapCounts {
    swapouts: usize,
    swapout_bytes: u64,
    swapins: usize,
    swapin_bytes: u64,
}

impl SwapCounts {
    /// Counts a tensor that leaves.
    fn add_out(&mut self, bytes: u64) {
        self.swapouts += 1;
        self.swapout_bytes = self.swapout_bytes.saturating_add(bytes);
    }

    /// Counts a time that one comes back.
    fn add_in(&mut self, bytes: u64) {
        self.swapins += 1;
        self.swapin_bytes = self.swapin_bytes.saturating_add(bytes);
    }

    fn plus(self, other: &SwapCounts) -> SwapCounts {
        SwapCounts {
            swapouts: self.swapouts + other.swapouts,
            swapout_bytes: self.swapout_bytes.saturating_add(other.swapout_bytes),
            swapins: self.swapins + other.swapins,
            swapin_bytes: self.swapin_bytes.saturating_add(other.swapin_bytes),
        }
    }
}

#[derive(Debug, Serialize)]
struct DeviceSwaps {
    device: String,
    #[serde(flatten)]
    traffic: SwapCounts,
}

/// Seconds for each phase.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Seconds {
    pub read: f64,
    pub size: f64,
    pub analyze: f64,
    pub plan: f64,
    pub rewrite: f64,
    pub verify: f64,
    pub write: f64,
    pub total: f64,
}

/// What is known before the rewrite.
pub struct Facts<'a> {
    pub analysis: &'a Analysis<'a>,
    pub plan: &'a Plan,
    pub name: &'a str,
    pub kind: Kind,
    pub encoding: Encoding,
    pub trainable: &'a [String],
    pub functions: usize,
    /// The function that is the training step, and how many calls in it were made flat.
    pub function: Option<(&'a str, usize)>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Report {
    pub fn new(facts: &Facts) -> Report {
        let Facts { analysis, plan, .. } = facts;
        let graph = analysis.graph;
        let parameter_bytes = learning_parameter_bytes(graph, &analysis.shapes, facts.trainable);
        let unknown = analysis.unknown_tensors();
        let mut largest_swaps = plan.swaps.clone();
        largest_swaps.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.tensor.cmp(&b.tensor)));
        largest_swaps.truncate(LISTED);
        let devices = traffic_by_device(analysis, plan);
        let total = devices.iter().fold(SwapCounts::default(), |total, device| total.plus(&device.traffic));
        Report {
            schema: SCHEMA,
            input: Input {
                kind: facts.kind,
                encoding: facts.encoding,
                nodes: graph.len(),
                edges: analysis.edge_count(),
                levels: analysis.levels.count(),
                parameter_bytes,
                unknown_size_tensors: unknown.len(),
            },
            largest_op: analysis.largest_op().map(|(node, bytes)| LargestOp {
                name: graph.name(node).to_string(),
                op: graph.op(node).name().to_string(),
                bytes,
            }),
            strategy: plan.strategy.clone(),
            parameters: plan.parameters.clone(),
            devices,
            total,
            recomputed_ops: plan.recomputations.len(),
            initial_values: plan.initial_values.len(),
            weights_on_host: on_host(analysis, plan, |graph, node| {
                graph.op(node).facts().has(Fact::KeepsValue)
            }),
            accumulators_on_host: on_host(analysis, plan, begins_accumulator),
            data_parallel: plan.data_parallel.as_ref().map(Reduces::of),
            control_edges: 0,
            verified: false,
            seconds: Seconds::default(),
            output: None,
            name: facts.name.to_string(),
            functions: facts.functions,
            function: facts.function.map(|(name, _)| name.to_string()),
            flat_calls: facts.function.map_or(0, |(_, calls)| calls),
            unknown_tensors: unknown
                .iter()
                .take(3)
                .map(|&tensor| graph.tensor_name(tensor).to_string())
                .collect(),
            largest_swaps,
            swaps_of_unknown_size: plan.swaps.iter().filter(|swap| swap.bytes.is_none()).count(),
            notes: Vec::new(),
        }
    }

    /// The report as one JSON document.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// How many ops of a sort go to the host with a plan.
fn on_host(analysis: &Analysis, plan: &Plan, is_one: impl Fn(&Graph, NodeId) -> bool) -> usize {
    let graph = analysis.graph;
    let host_ops: HashSet<&str> = plan.host_ops.iter().map(|name| &**name).collect();
    let is_there = |&node: &NodeId| is_one(graph, node) && host_ops.contains(graph.name(node));
    graph.node_ids().filter(is_there).count()
}

fn traffic_by_device(analysis: &Analysis, plan: &Plan) -> Vec<DeviceSwaps> {
    let graph = analysis.graph;
    let mut by_device: Vec<SwapCounts> = vec![SwapCounts::default(); graph.devices().len()];
    let by_name: HashMap<&str, _> = graph.node_ids().map(|node| (graph.name(node), node)).collect();
    let host_ops: HashSet<&str> = plan.host_ops.iter().map(|name| &**name).collect();
    let placement = Placement::of(graph);
    for swap in &plan.swaps {
        let producer = swap.tensor.rsplit_once(':').and_then(|(node, _)| by_name.get(node));
        let Some(&producer) = producer else { continue };
        let bytes = swap.bytes.unwrap_or(0);
        let is_of_host = placement.op(producer) == Place::Host;
        // What is on the host, as a weight or what is fed, need not go there.
        if !is_of_host && !host_ops.contains(graph.name(producer)) {
            by_device[graph.device_index(producer)].add_out(bytes);
        }
        for swap_in in &swap.swap_ins {
            // What the host makes comes to whoever reads it.
            let reader = swap_in.consumers.first().and_then(|name| by_name.get(&**name));
            let owner = reader.copied().filter(|_| is_of_host).unwrap_or(producer);
            by_device[graph.device_index(owner)].add_in(bytes);
        }
    }
    let devices = graph.devices().iter().zip(by_device).filter(|(_, traffic)| traffic.swapins > 0);
    devices.map(|(device, traffic)| DeviceSwaps { device: device.to_string(), traffic }).collect()
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let input = &self.input;
        let mut page = Page::titled(format_args!("{}: {} ({})", self.name, input.kind, input.encoding));
        self.graph(&mut page);
        page.gap();
        self.changes(&mut page);
        self.largest(&mut page);
        page.gap();
        if self.verified {
            page.row("checked", "the rewritten graph computes what the original does");
        }
        self.notes.iter().for_each(|note| page.row("note", note));
        page.row_if_any("written", self.output.as_ref());
        page.row("seconds", self.seconds);
        page.fmt(f)
    }
}

impl Report {
    /// What was read.
    fn graph(&self, page: &mut Page) {
        let input = &self.input;
        let [nodes, edges, levels] = [input.nodes, input.edges, input.levels].map(count);
        page.row("graph", format_args!("{nodes} nodes, {edges} edges, {levels} levels"));
        if let Some(function) = &self.function {
            let calls = match self.flat_calls {
                1 => "1 call".to_string(),
                calls => format!("{} calls", count(calls)),
            };
            page.row("step", format_args!("function {function}, with {calls} in it made flat"));
        } else if self.functions > 0 {
            page.row("functions", format_args!("{}, left as they are", count(self.functions)));
        }
        page.row("learning parameters", Size(input.parameter_bytes));
        if let Some(LargestOp { name, op, bytes }) = &self.largest_op {
            page.row("largest op", format_args!("{} in {name} ({op})", Size(*bytes)));
        }
        if input.unknown_size_tensors > 0 {
            let more = if input.unknown_size_tensors > self.unknown_tensors.len() { ", …" } else { "" };
            let (tensors, names) = (count(input.unknown_size_tensors), self.unknown_tensors.join(", "));
            page.row("of unknown size", format_args!("{tensors} tensors: {names}{more}"));
        }
        page.row("strategy", Strategy(self));
    }

    /// What the rewrite did.
    fn changes(&self, page: &mut Page) {
        let SwapCounts { swapouts, swapout_bytes, swapins, swapin_bytes } = self.total;
        page.row("swapped out", format_args!("{} tensors, {}", count(swapouts), Size(swapout_bytes)));
        page.row("swapped in", format_args!("{} times, {}", count(swapins), Size(swapin_bytes)));
        let some = |number: usize| Some(number).filter(|&number| number > 0).map(count);
        let rows = [
            ("", "and ", some(self.swaps_of_unknown_size), " tensors of unknown size"),
            ("run again", "", some(self.recomputed_ops), " ops"),
            ("by way of host", "", some(self.initial_values), " initial values"),
            ("on the host", "", some(self.weights_on_host), " weights"),
            ("on the host", "", some(self.accumulators_on_host), " stacks and lists of loops"),
        ];
        for (name, before, number, unit) in rows {
            page.row_if_any(name, number.map(|number| format!("{before}{number}{unit}")));
        }
        if let Some(Reduces { tensors, bytes, collectives, variables }) = self.data_parallel {
            let [tensors, collectives, variables] = [tensors, collectives, variables].map(count);
            page.row(
                "reduced",
                format_args!("{tensors} tensors, {}, by {collectives} collectives", Size(bytes)),
            );
            page.row("broadcast", format_args!("{variables} variables"));
        }
        page.row("control edges", count(self.control_edges));
        for DeviceSwaps { device, traffic } in self.devices.iter().filter(|_| self.devices.len() > 1) {
            let SwapCounts { swapouts, swapout_bytes, swapins, swapin_bytes } = traffic;
            let name = if device.is_empty() { "(no device)" } else { device };
            let [out, back] = [swapout_bytes, swapin_bytes].map(|&bytes| Size(bytes));
            page.row(name, format_args!("{swapouts} out, {out}; {swapins} in, {back}"));
        }
    }

    /// The largest tensors that leave.
    fn largest(&self, page: &mut Page) {
        if !self.largest_swaps.is_empty() {
            page.gap();
            page.line("largest tensors swapped");
        }
        for swap in &self.largest_swaps {
            let size = swap.bytes.map_or("unknown".to_string(), |bytes| Size(bytes).to_string());
            let times = swap.swap_ins.len();
            let plural = if times == 1 { "" } else { "s" };
            page.line(format_args!("  {size:>10}  {}, back {times} time{plural}", swap.tensor));
        }
    }
}

/// The strategy with its main parameters.
struct Strategy<'a>(&'a Report);

impl Display for Strategy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.strategy)?;
        let mut separator = ": ";
        for (name, value) in
            describe(&self.0.strategy).iter().flat_map(|known| known.shown(&self.0.parameters))
        {
            write!(f, "{separator}{name} {value}")?;
            separator = ", ";
        }
        Ok(())
    }
}

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phases = [
            ("read", self.read),
            ("size", self.size),
            ("analyze", self.analyze),
            ("plan", self.plan),
            ("rewrite", self.rewrite),
            ("verify", self.verify),
            ("write", self.write),
        ];
        write!(f, "{:.3}", self.total)?;
        for (index, (phase, seconds)) in phases.into_iter().enumerate() {
            f.write_str(if index == 0 { " (" } else { ", " })?;
            write!(f, "{phase} {seconds:.3}")?;
        }
        f.write_char(')')
    }
}
