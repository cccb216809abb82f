//! Where a training graph must reduce so that many workers train as one would with all their data.
//!
//! Each worker runs the same graph on its part of a batch. What it applies to its variables must be what one process would apply that has
//! the whole batch: the same function of the *mean* of all workers' gradients. A mean may be taken anywhere as long as only linear steps
//! lie between: `mean(c · g) = c · mean(g)`. It may not be taken behind a clip, behind a factor that depends on the gradient, behind a
//! choice whether to skip a step, or behind the adding up of a sparse gradient's rows.
//!
//! * [`depends`] says what depends on a worker's data.
//! * [`updates`] finds the ops that write to variables, and what they take.
//! * [`spine`] walks back from there, an op at a time, as long as it knows what an op does to a gradient.
//! * [`cuts`] finds how far back that walk goes (to where the backward pass ends), and in front of which step to reduce.
//! * [`buckets`] puts the reduces in an order and small ones together.
//!
//! What is not understood is an error that names the op: a guess here would train to other weights, and nobody would see it.

mod buckets;
mod cuts;
mod depends;
mod error;
mod ops;
mod spine;
mod updates;

pub use error::ParallelError;
pub(crate) use updates::variable_type;

use crate::graph::{ByName, Device, Graph, NodeId, TensorId};
use crate::plan::{Analysis, DataParallel, GraphIdentity, ReduceOn, graph_digest};

/// How to reduce.
#[derive(Debug, Clone, PartialEq)]
pub struct ParallelOptions {
    /// Where.
    pub reduce: ReduceOn,
    /// Gradients are put together until they have so many bytes.
    pub bucket_bytes: u64,
    /// The tensor whose mean over all workers can be fetched, `node:output`. Of a function the op that stands for one of its returns:
    /// the function then returns the mean.
    pub loss: Option<String>,
}

/// Gradients of so many bytes travel together if nothing else is said.
pub const BUCKET_BYTES: u64 = 4 << 20;

impl Default for ParallelOptions {
    fn default() -> ParallelOptions {
        ParallelOptions { reduce: ReduceOn::Host, bucket_bytes: BUCKET_BYTES, loss: None }
    }
}

/// The host of a worker, whichever task of a cluster it is.
const HOST: &str = "/device:CPU:0";

/// Finds out what makes a graph train on several workers.
///
/// # Errors
///
/// If it is not known what a step runs, or what becomes of a gradient is not understood.
pub fn data_parallel(analysis: &Analysis, options: &ParallelOptions) -> Result<DataParallel, ParallelError> {
    if !analysis.step.is_known() {
        return Err(ParallelError::UnknownStep);
    }
    let graph = analysis.graph;
    check_tasks(graph)?;
    let cuts = cuts::find(analysis)?;
    let loss = options.loss.as_deref().and_then(|name| ByName::of(graph).tensor_or_first(name));
    let loss = loss.and_then(|named| Loss::of(analysis, named));
    let (collectives, loss) = buckets::arrange(analysis, options, cuts, loss)?;
    Ok(DataParallel {
        graph: GraphIdentity {
            nodes: graph.len(),
            digest: graph_digest(graph),
            function: analysis.function.clone(),
        },
        host_device: HOST.to_string(),
        collectives,
        variables: variables(analysis)?,
        loss: loss.map(|loss| graph.tensor_name(loss).to_string()),
    })
}

/// A tensor whose mean over all workers is wanted.
#[derive(Debug, Clone, Copy)]
struct Loss {
    tensor: TensorId,
    /// What reads the mean; none if it is fetched.
    reader: Option<NodeId>,
}

impl Loss {
    /// None if what a function returns is no single number.
    fn of(analysis: &Analysis, named: TensorId) -> Option<Loss> {
        let graph = analysis.graph;
        if analysis.function.is_none() {
            return Some(Loss { tensor: named, reader: None });
        }
        let reader = graph.producer(named);
        let &tensor = graph.data_inputs(reader).first()?;
        (analysis.shapes.rank(tensor) == Some(0)).then_some(Loss { tensor, reader: Some(reader) })
    }
}

/// A file for all workers can name none of them. TensorFlow 2 traces functions for `localhost`, which is the process that runs them.
fn check_tasks(graph: &Graph) -> Result<(), ParallelError> {
    let is_own = |device: &Device| device.job.as_deref() == Some("localhost");
    let names_one = |device: &Device| (device.job.is_some() || device.task.is_some()) && !is_own(device);
    let found = graph.node_ids().find(|&node| names_one(graph.device(node)));
    found.map_or(Ok(()), |node| {
        let device = graph.device(node).to_string();
        Err(ParallelError::NamesTask { node: graph.name(node).to_string(), device })
    })
}

/// The variables that steps use.
fn variables(analysis: &Analysis) -> Result<Vec<String>, ParallelError> {
    let graph = analysis.graph;
    let of_step =
        graph.node_ids().filter(|&node| analysis.step.contains(node) && updates::is_variable(graph, node));
    of_step
        .map(|node| {
            let name = graph.name(node).to_string();
            let dtype = updates::variable_type(graph, node);
            match dtype.filter(|&dtype| ops::can_broadcast(dtype)) {
                Some(_) => Ok(name),
                None => Err(ParallelError::VariableType {
                    variable: name,
                    dtype: dtype.map_or("unknown".to_string(), |dtype| dtype.to_string()),
                }),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
