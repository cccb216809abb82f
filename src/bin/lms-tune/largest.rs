//! How large a graph's free sizes may be.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use anyhow::Context;
use serde::Serialize;
use tf_lms::cli::{Failure, GraphArgs, Page, Size, milliseconds};
use tf_lms::graph::{Graph, NodeId};
use tf_lms::shape::Shapes;
use tf_lms::tune::Verdict;
use tf_lms::{Error, Model};

use crate::args::{Args, Free};
use crate::output::print;
use crate::report::peak;

/// The largest size that is tried. No tensor that has it in two dimensions fits anywhere.
const LARGEST: u64 = 1 << 20;

/// A size that was tried.
#[derive(Debug, Clone, Serialize)]
struct Probe {
    size: u64,
    peak_before: u64,
    /// None: out of memory without swapping.
    step_seconds_before: Option<f64>,
    /// None: out of memory with swapping too.
    step_seconds_after: Option<f64>,
    /// Examples in a second, or elements of the free dimensions, with swapping if it is needed.
    rate: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Curve {
    schema: u32,
    free: String,
    rate_unit: &'static str,
    gpu_mem: u64,
    device_profile: String,
    largest_before: Option<u64>,
    largest_after: Option<u64>,
    probes: Vec<Probe>,
    #[serde(skip)]
    name: String,
}

/// Finds the largest sizes that fit without and with swapping, and prints what was tried on the way.
pub fn run(args: &Args, free: &[Free]) -> anyhow::Result<()> {
    let model = args.model.read_step(&args.graph, &args.step)?;
    let graph = model.graph()?;
    let mut search =
        SizeSearch { args, model: &model, graph: &graph, free, probes: BTreeMap::new(), refusal: None };
    let multiple = free.iter().map(|free| free.multiple).max().unwrap_or(1);
    let before = search.largest(multiple, |probe| probe.step_seconds_before.is_some())?;
    let after = search.largest(multiple, |probe| probe.step_seconds_after.is_some())?;
    if search.probes.values().all(Option::is_none)
        && let Some(refusal) = search.refusal
    {
        return Err(refusal.context("none of the sizes that were tried is one that the graph can have"));
    }
    let is_batch = free.iter().all(|free| free.dimensions.placeholder.is_none());
    let curve = Curve {
        schema: 1,
        free: free.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        rate_unit: if is_batch { "examples/s" } else { "million elements/s" },
        gpu_mem: args.budget.memory()?.first().copied().unwrap_or(0),
        device_profile: args.budget.profile(None)?.name,
        largest_before: before,
        largest_after: after,
        probes: search.probes.into_values().flatten().collect(),
        name: model.name().to_string(),
    };
    let text =
        if args.verbosity.json { serde_json::to_string_pretty(&curve)? + "\n" } else { curve.to_string() };
    print(args, &text)?;
    match after {
        Some(_) => Ok(()),
        None => Err(Failure::DoesNotFit.error(format!("{}: not even the smallest size fits", curve.name))),
    }
}

struct SizeSearch<'a> {
    args: &'a Args,
    model: &'a Model,
    graph: &'a Graph<'a>,
    free: &'a [Free],
    /// None: a size that the graph cannot have.
    probes: BTreeMap<u64, Option<Probe>>,
    /// Why the graph cannot have the last size that it cannot have.
    refusal: Option<anyhow::Error>,
}

impl SizeSearch<'_> {
    /// The largest multiple that fits: doubled until it does not, then halved in between.
    fn largest(&mut self, multiple: u64, fits: impl Fn(&Probe) -> bool) -> anyhow::Result<Option<u64>> {
        let (mut low, mut high) = (0, 1);
        while high * multiple <= LARGEST {
            if !self.probe(high * multiple)?.is_some_and(&fits) && (low > 0 || high >= 8) {
                break;
            }
            if self.probe(high * multiple)?.is_some_and(&fits) {
                low = high;
            }
            high *= 2;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.probe(middle * multiple)?.is_some_and(&fits) { low = middle } else { high = middle }
        }
        Ok((low > 0).then_some(low * multiple))
    }

    /// What comes of a size; none if the graph cannot have it.
    fn probe(&mut self, size: u64) -> anyhow::Result<Option<&Probe>> {
        if !self.probes.contains_key(&size) {
            let graph_args = self.graph_args(size)?;
            let probe = match self.model.shapes(self.graph, &graph_args.analysis()) {
                Ok(shapes) => Some(self.simulate(size, &graph_args, shapes)?),
                Err(error @ Error::TensorFlow { .. }) => return Err(error.into()),
                // Some sizes contradict the graph, as when halves and doubles of an odd size meet.
                Err(error) => {
                    self.refusal = Some(error.into());
                    None
                }
            };
            self.probes.insert(size, probe);
        }
        Ok(self.probes.get(&size).and_then(Option::as_ref))
    }

    fn simulate(&self, size: u64, graph_args: &GraphArgs, shapes: Shapes) -> anyhow::Result<Probe> {
        let elements = self.elements(&shapes, size);
        let sizes = self.model.sizes(self.graph, &shapes)?;
        let analysis = self.model.analyse_sized(self.graph, &graph_args.analysis(), (shapes, sizes))?;
        let mut budget = self.args.budget.budget(None, &self.args.tflms)?;
        // What is asked for is a size that is sure to do.
        budget.keeps_margin = true;
        let tuning = analysis.fit(&budget).with_context(|| self.model.name().to_string())?.tuning;
        let before = tuning.before.step_seconds;
        let (without, with) = match &tuning.verdict {
            Verdict::Fits => (Some(before), Some(before)),
            Verdict::FitsWithSwapping(found) => (None, Some(found.outcome.step_seconds)),
            Verdict::DoesNotFit => (None, None),
        };
        Ok(Probe {
            size,
            peak_before: peak(&tuning.before),
            step_seconds_before: without,
            step_seconds_after: with,
            rate: with.map(|seconds| elements / seconds),
        })
    }

    /// How many examples, or millions of elements of the first placeholder with free dimensions, a step takes in.
    fn elements(&self, shapes: &Shapes, size: u64) -> f64 {
        let mut named = self.free.iter().map(|free| &free.dimensions);
        let Some(free) = named.find(|free| free.placeholder.is_some()) else { return size as f64 };
        let name = free.placeholder.as_deref().unwrap_or_default();
        let shape = find(self.graph, name).and_then(|node| shapes.get(self.graph.outputs(node).next()?));
        let batch = shape
            .and_then(|shape| shape.first())
            .copied()
            .filter(|_| !free.dimensions.contains(&0))
            .unwrap_or(1);
        batch.max(1) as f64 * (size as f64).powi(free.dimensions.len() as i32) / 1e6
    }

    /// The flags with one size put in.
    fn graph_args(&self, size: u64) -> anyhow::Result<GraphArgs> {
        self.free.iter().try_fold(self.args.graph.clone(), |args, free| {
            args.with_size(&free.dimensions, size, self.graph, &format!("--max {free}"))
        })
    }
}

fn find(graph: &Graph, name: &str) -> Option<NodeId> {
    graph.node_ids().find(|&node| graph.name(node) == name)
}

impl Display for Free {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dimensions)?;
        if self.multiple > 1 { write!(f, "/{}", self.multiple) } else { Ok(()) }
    }
}

impl Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (free, memory) = (&self.free, Size(self.gpu_mem));
        let title = format_args!("{}: the largest {free} in {memory}, on {}", self.name, self.device_profile);
        let mut page = Page::titled(title);
        let size = |size: Option<u64>| size.map_or("none".to_string(), |size| size.to_string());
        page.row("without swapping", size(self.largest_before));
        page.row("with swapping", size(self.largest_after));
        let or_none = |told: Option<String>| told.unwrap_or("-".to_string());
        let rows: Vec<[String; 5]> = self
            .probes
            .iter()
            .map(|probe| {
                let [before, after] = [probe.step_seconds_before, probe.step_seconds_after]
                    .map(|seconds| or_none(seconds.map(milliseconds)));
                let rate = or_none(probe.rate.map(|rate| format!("{rate:.3}")));
                [probe.size.to_string(), Size(probe.peak_before).to_string(), before, after, rate]
            })
            .collect();
        page.table(["size", "peak before", "step before", "step after", self.rate_unit], &rows);
        page.fmt(f)
    }
}
