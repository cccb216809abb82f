//! Functions as flat graphs, traced ones and what a graph calls: the library's way, without Python.

use prost::Message;
use pyo3::pybacked::PyBackedBytes;
use tf_lms::flatten::{Caller, as_run as bring_into_run_form, flatten as flat_of, lowered};
use tf_lms::format::{Model, ReadOptions};
use tf_lms::ops::OpRegistry;
use tf_lms::proto::tensorflow::{GraphDef, OpList};

use crate::errors::Refusal;

/// A function made flat.
pub struct Flattened {
    /// A GraphDef, binary.
    pub graph: Vec<u8>,
    /// The node of each argument.
    pub arguments: Vec<String>,
    /// The node of each return.
    pub returns: Vec<String>,
    /// The op that a step is run for.
    pub train_op: String,
    /// The calls that stay one op: the op, the function, and why.
    pub kept: Vec<(String, String, String)>,
}

/// Makes a function of a GraphDef's library flat. What its arguments are is told by a call of it at the graph's top level.
pub fn flatten(name: &str, graph: &PyBackedBytes, function: &str) -> Result<Flattened, Refusal> {
    let model = Model::from_bytes(name, graph.to_vec(), &ReadOptions::default())?;
    let registry = registry_of(&model)?;
    let flat = flat_of(&model, &registry, function).map_err(|error| Refusal::Other(error.to_string()))?;
    let nodes = |named: Vec<(String, String)>| named.into_iter().map(|(node, _)| node).collect();
    let kept = flat.kept.into_iter().map(|call| (call.node, call.function, call.why.to_string()));
    Ok(Flattened {
        graph: flat.model.graph_def().to_vec(),
        arguments: nodes(flat.arguments),
        returns: nodes(flat.returns),
        train_op: flat.train_step,
        kept: kept.collect(),
    })
}

/// A GraphDef with all calls at its top level made flat; none if there are none.
pub fn without_calls(name: &str, graph: &PyBackedBytes) -> Result<Option<Vec<u8>>, Refusal> {
    let model = Model::from_bytes(name, graph.to_vec(), &ReadOptions::default())?;
    let edits = lowered(&model, &registry_of(&model)?).map_err(|error| Refusal::Other(error.to_string()))?;
    let Some(edits) = edits else { return Ok(None) };
    Ok(Some(model.changed(&edits, model.encoding())?.graph_def().to_vec()))
}

/// The ops of TensorFlow, and the functions of a model, which are ops where they are called by name.
fn registry_of(model: &Model) -> Result<OpRegistry, Refusal> {
    let signatures = model.functions()?.into_iter().map(|function| function.signature);
    Ok(OpRegistry::with_extra(&OpList { op: signatures.collect() }))
}

/// A flat graph as it is where its caller runs it.
pub fn as_run(name: &str, graph: &PyBackedBytes, caller: Caller) -> Result<Vec<u8>, Refusal> {
    let refused = |error: &dyn std::fmt::Display| Refusal::Other(format!("{name}: {error}"));
    let mut graph = GraphDef::decode(&graph[..]).map_err(|error| refused(&error))?;
    bring_into_run_form(&mut graph, OpRegistry::builtin(), caller).map_err(|error| refused(&error))?;
    Ok(graph.encode_to_vec())
}
