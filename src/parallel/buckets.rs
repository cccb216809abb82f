//! In which order to reduce, and what travels together.
//!
//! Collectives of all workers must come in one order. So each waits for the one before it, in the order in which gradients become ready
//! (the last layer's first): then reducing one goes on beside the computing of the next. Each collective costs some time whatever its
//! size, so small gradients are put together until they fill a bucket; one bucket for all would reduce nothing before the end.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::cuts::Cut;
use super::ops::can_reduce;
use super::{HOST, Loss, ParallelError, ParallelOptions};
use crate::dtype::DataType;
use crate::graph::{Condition, FrameId, NodeId, TensorId};
use crate::plan::{Analysis, Collective, Gathered, ReduceOn, Reduced};

/// The runs of train ops that something belongs to, as bits.
type Runs = u64;

/// Something to reduce with what decides its place.
struct Ready {
    runs: Runs,
    level: u32,
    cut: Cut,
}

/// Tensors that will travel together.
struct Bucket {
    key: (Runs, DataType, String),
    bytes: u64,
    cuts: Vec<Cut>,
}

struct Arranger<'a, 'g> {
    analysis: &'a Analysis<'g>,
    collectives: Vec<Collective>,
    open: Vec<Bucket>,
    /// What comes behind an open bucket: marked by node.
    behind: Vec<bool>,
    /// The last collective of each run.
    last: HashMap<u32, (usize, Runs)>,
}

/// Puts the reduces in an order. Also the loss, if its mean is among them.
pub(super) fn arrange(
    analysis: &Analysis,
    options: &ParallelOptions,
    cuts: Vec<Cut>,
    loss: Option<Loss>,
) -> Result<(Vec<Collective>, Option<TensorId>), ParallelError> {
    let graph = analysis.graph;
    let runs = Members::of(analysis);
    let mut cuts = cuts;
    // A loss that is written to a variable too is reduced for that already.
    for cut in &mut cuts {
        cut.consumers.extend(loss.filter(|loss| loss.tensor == cut.tensor).and_then(|loss| loss.reader));
    }
    let mut ready: Vec<Ready> = cuts
        .into_iter()
        .map(|cut| {
            let of = cut.consumers.iter().chain(&cut.index_consumers);
            let runs = of.fold(0, |all, &node| all | runs.of_node(node));
            Ready { runs, level: analysis.levels.level(graph.producer(cut.tensor)), cut }
        })
        .collect();
    let is_reduced = |tensor: TensorId| ready.iter().any(|ready| ready.cut.tensor == tensor);
    let loss = loss.filter(|loss| {
        let node = graph.producer(loss.tensor);
        can_reduce(graph.output_type(loss.tensor).dtype)
            && analysis.flow.condition(node) == Condition::ALWAYS
            && analysis.flow.output_frame(node) == FrameId::TOP
            && !is_reduced(loss.tensor)
    });
    if let Some(Loss { tensor, reader }) = loss {
        let node = graph.producer(tensor);
        let runs = if runs.of_node(node) == 0 { runs.all() } else { runs.of_node(node) };
        let (consumers, index_consumers) = (reader.into_iter().collect(), Default::default());
        let cut = Cut { tensor, indices: None, consumers, index_consumers };
        ready.push(Ready { runs, level: analysis.levels.level(node), cut });
    }
    // What more runs share comes first: who waits for it is run with it.
    ready.sort_by_key(|ready| (Reverse(ready.runs.count_ones()), ready.level, ready.cut.tensor));
    let mut arranger = Arranger {
        analysis,
        collectives: Vec::new(),
        open: Vec::new(),
        behind: vec![false; graph.len()],
        last: HashMap::new(),
    };
    for Ready { runs, cut, .. } in ready {
        arranger.put(options, runs, cut)?;
    }
    arranger.close_all()?;
    Ok((arranger.collectives, loss.map(|loss| loss.tensor)))
}

/// Which runs of train ops need a node.
struct Members(Vec<Vec<bool>>);

impl Members {
    fn of(analysis: &Analysis) -> Members {
        let graph = analysis.graph;
        let run = |run: usize| {
            let step = analysis.step.of_run(graph, run);
            graph.node_ids().map(|node| step.contains(node)).collect()
        };
        // More runs than bits share the last one.
        Members((0..analysis.step.run_count().min(64)).map(run).collect())
    }

    fn runs_of(&self, node: NodeId) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(move |&run| self.0[run].get(node.index()) == Some(&true))
    }

    fn all(&self) -> Runs {
        (0..self.0.len()).fold(0, |all, run| all | 1 << run)
    }
}

impl Members {
    fn of_node(&self, node: NodeId) -> Runs {
        self.runs_of(node).fold(0, |all, run| all | 1 << run)
    }
}

impl Arranger<'_, '_> {
    fn put(&mut self, options: &ParallelOptions, runs: Runs, cut: Cut) -> Result<(), ParallelError> {
        let graph = self.analysis.graph;
        let is_behind = |tensor: TensorId| self.behind[graph.producer(tensor).index()];
        if is_behind(cut.tensor) || cut.indices.is_some_and(is_behind) {
            self.close_all()?;
        }
        if let Some(indices) = cut.indices {
            let values = self.reduced(cut.tensor, &cut.consumers);
            let indices = self.reduced(indices, &cut.index_consumers);
            let name = values.tensor.clone();
            return self.push(runs, HOST.to_string(), Gathered::Rows { values, indices }, &name);
        }
        let device = match options.reduce {
            ReduceOn::Host => HOST.to_string(),
            ReduceOn::Gpu => gpu_of(self.analysis, cut.tensor),
        };
        let key = (runs, graph.output_type(cut.tensor).dtype, device);
        // A tensor of unknown size has no place in a larger one.
        let known = self.analysis.shapes.get(cut.tensor);
        let known = known.is_some_and(|shape| shape.iter().all(|&size| size >= 0));
        let bytes = self.analysis.sizes.bytes(cut.tensor).filter(|_| known);
        let Some(bytes) = bytes else {
            let mean = vec![self.reduced(cut.tensor, &cut.consumers)];
            let name = mean[0].tensor.clone();
            return self.push(runs, key.2, Gathered::Mean(mean), &name);
        };
        self.mark_behind(&cut);
        let place = self.open.iter().position(|bucket| bucket.key == key);
        let place = place.unwrap_or_else(|| {
            self.open.push(Bucket { key, bytes: 0, cuts: Vec::new() });
            self.open.len() - 1
        });
        let bucket = &mut self.open[place];
        bucket.bytes += bytes;
        bucket.cuts.push(cut);
        if bucket.bytes >= options.bucket_bytes {
            let bucket = self.open.remove(place);
            self.close(bucket)?;
        }
        Ok(())
    }

    /// Marks what comes behind the readers of a reduced tensor.
    fn mark_behind(&mut self, cut: &Cut) {
        let graph = self.analysis.graph;
        let mut open: Vec<NodeId> = cut.consumers.iter().copied().collect();
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut self.behind[node.index()], true) {
                open.extend(graph.successors(node));
            }
        }
    }

    fn close_all(&mut self) -> Result<(), ParallelError> {
        for bucket in std::mem::take(&mut self.open) {
            self.close(bucket)?;
        }
        self.behind.fill(false);
        Ok(())
    }

    fn close(&mut self, bucket: Bucket) -> Result<(), ParallelError> {
        let (runs, _, device) = bucket.key;
        let mean: Vec<Reduced> =
            bucket.cuts.iter().map(|cut| self.reduced(cut.tensor, &cut.consumers)).collect();
        let name = mean.first().map(|reduced| reduced.tensor.clone()).unwrap_or_default();
        self.push(runs, device, Gathered::Mean(mean), &name)
    }

    fn push(&mut self, runs: Runs, device: String, what: Gathered, name: &str) -> Result<(), ParallelError> {
        let own = (0..64u32).filter(|run| runs & 1 << run != 0);
        let mut after = Vec::new();
        for run in own.clone() {
            if let Some(&(last, last_runs)) = self.last.get(&run) {
                // Whoever runs this one runs that one too, as it waits for it.
                if runs & !last_runs != 0 {
                    return Err(ParallelError::SharedInPart { tensor: name.to_string() });
                }
                after.push(last);
            }
        }
        after.sort_unstable();
        after.dedup();
        let number = self.collectives.len();
        self.collectives.push(Collective { after, device, what });
        for run in own {
            self.last.insert(run, (number, runs));
        }
        Ok(())
    }

    fn reduced<'n>(&self, tensor: TensorId, consumers: impl IntoIterator<Item = &'n NodeId>) -> Reduced {
        let graph = self.analysis.graph;
        let shape = self.analysis.shapes.get(tensor).map(<[i64]>::to_vec);
        Reduced {
            tensor: graph.tensor_name(tensor).to_string(),
            shape: shape.filter(|shape| shape.iter().all(|&size| size >= 0)),
            bytes: self.analysis.sizes.bytes(tensor),
            consumers: consumers.into_iter().map(|&node| graph.name(node).to_string()).collect(),
        }
    }
}

/// The GPU that makes a tensor.
fn gpu_of(analysis: &Analysis, tensor: TensorId) -> String {
    let graph = analysis.graph;
    graph.device(graph.producer(tensor)).gpu().map_or(HOST.to_string(), |gpu| gpu.to_string())
}
