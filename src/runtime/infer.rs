//! The shapes that TensorFlow infers.

use std::collections::HashSet;

use super::load::TensorFlow;
use super::raw::RawGraph;
use super::status::Status;
use crate::format::{FormatError, Model};
use crate::graph::{Graph, NodeId};
use crate::shape::{Declared, GivenShapeError, GivenShapes, PlaceholderShapes, ShapeContradiction, Shapes};

/// Why the shapes of a graph could not be inferred.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InferError {
    /// What the user gave does not fit the graph.
    #[error(transparent)]
    Given(#[from] GivenShapeError),
    /// What the file declares and what TensorFlow infers cannot both be right.
    #[error(transparent)]
    Contradiction(#[from] ShapeContradiction),
    /// Ops that this TensorFlow does not have.
    #[error(
        "TensorFlow {version} does not know the op {} of node {node:?}{}: its shapes cannot be inferred without the \
         library that defines it, or with a newer TensorFlow",
        op,
        if *others > 0 { format!(" nor {others} other ops of the graph") } else { String::new() }
    )]
    UnknownOp {
        /// TensorFlow's version.
        version: String,
        /// The first node of such an op.
        node: String,
        /// The op.
        op: String,
        /// How many more ops of the graph are unknown.
        others: usize,
    },
    /// A graph that TensorFlow does not take.
    #[error("TensorFlow {version} does not accept the graph: {status}")]
    Refused {
        /// TensorFlow's version.
        version: String,
        /// What it says.
        status: Status,
    },
    /// The model's function library does not decode.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// The shapes of a model's graph: what it declares and what is given, with what TensorFlow infers from that.
///
/// `graph` must be the model's top level. What the file declares for another shape than a placeholder is given does not count.
///
/// # Errors
///
/// If what is given does not fit the graph, if TensorFlow refuses the graph, or if it infers what contradicts what is declared.
pub fn infer_shapes(
    tensorflow: &TensorFlow,
    model: &Model,
    graph: &Graph,
    given: &GivenShapes,
) -> Result<Shapes, InferError> {
    let placeholders = given.resolve(graph)?;
    let mut shapes = Shapes::declared(graph);
    placeholders.apply(graph, &mut shapes);
    match RawGraph::import(tensorflow, &placeholders.graph_def(model, Declared::Current)) {
        Ok(imported) => {
            shapes.refine(graph, ask(&imported, graph).map_err(|status| refused(tensorflow, status))?)?;
            Ok(shapes)
        }
        Err(status) => Err(explain(tensorflow, model, graph, &placeholders, shapes, status)),
    }
}

/// The shapes of all tensors of an imported graph.
fn ask(imported: &RawGraph, graph: &Graph) -> Result<Shapes, Status> {
    let mut shapes = Shapes::unknown(graph);
    for node in graph.node_ids() {
        let Some(operation) = imported.operation(graph.name(node)) else { continue };
        for (index, tensor) in (0..imported.outputs(operation)).zip(graph.outputs(node)) {
            shapes.set(tensor, imported.shape(operation, index)?);
        }
    }
    Ok(shapes)
}

fn refused(tensorflow: &TensorFlow, status: Status) -> InferError {
    InferError::Refused { version: tensorflow.version().to_string(), status }
}

/// Why TensorFlow refused a graph with `status`: because of declared shapes, because of an op, or as it says.
fn explain(
    tensorflow: &TensorFlow,
    model: &Model,
    graph: &Graph,
    placeholders: &PlaceholderShapes,
    mut declared: Shapes,
    status: Status,
) -> InferError {
    if let Ok(imported) = RawGraph::import(tensorflow, &placeholders.graph_def(model, Declared::Nothing)) {
        return match ask(&imported, graph) {
            Ok(inferred) => match declared.refine(graph, inferred) {
                Err(contradiction) => contradiction.into(),
                Ok(()) => refused(tensorflow, status),
            },
            Err(_) => refused(tensorflow, status),
        };
    }
    match unknown_op(tensorflow, model, graph) {
        Ok(Some(unknown)) => unknown,
        Ok(None) => refused(tensorflow, status),
        Err(error) => error,
    }
}

/// The op of the graph that TensorFlow does not know, if there is one.
fn unknown_op(
    tensorflow: &TensorFlow,
    model: &Model,
    graph: &Graph,
) -> Result<Option<InferError>, InferError> {
    let functions: HashSet<String> =
        model.functions()?.into_iter().map(|function| function.signature.name).collect();
    let empty = RawGraph::new(tensorflow);
    let mut seen = HashSet::new();
    let unknown: Vec<NodeId> = graph
        .node_ids()
        .filter(|&node| seen.insert(graph.op_id(node)))
        .filter(|&node| {
            let op = graph.op(node).name();
            !functions.contains(op) && !empty.knows_op(op)
        })
        .collect();
    Ok(unknown.first().map(|&node| InferError::UnknownOp {
        version: tensorflow.version().to_string(),
        node: graph.name(node).to_string(),
        op: graph.op(node).name().to_string(),
        others: unknown.len() - 1,
    }))
}
