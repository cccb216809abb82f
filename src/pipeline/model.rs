//! A model with what its file says about it.

use std::collections::HashMap;
use std::path::Path;

use super::error::OfFile;
use super::{AnalysisOptions, Error, Rewritten};
use crate::format::{self, Edits, Encoding, Model as File, Source, collected_ops, collected_variables};
use crate::graph::{Graph, NodeId};
use crate::ops::OpRegistry;
use crate::order::Step;
use crate::plan::{Analysis, Plan};
use crate::proto::tensorflow::{MetaGraphDef, OpList};
use crate::rewrite;
#[cfg(feature = "tensorflow")]
use crate::runtime::{TensorFlow, infer_shapes};
use crate::shape::{Shapes, Sizes};

/// What to read where a file leaves a choice, and what it may lack.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The tags of the graph to take from a SavedModel that holds several.
    pub tags: Option<Vec<String>>,
    /// Definitions of ops that TensorFlow does not have, beside those that the file carries: see [`super::read_op_list`].
    pub op_defs: OpList,
}

/// A model: a GraphDef, MetaGraphDef or SavedModel, with what its file says about it.
#[derive(Debug)]
pub struct Model {
    source: Option<Source>,
    file: File,
    read_options: format::ReadOptions,
    registry: OpRegistry,
    meta_graph: Option<MetaGraphDef>,
}

/// Reads the model in a file or a SavedModel's folder.
///
/// # Errors
///
/// If it cannot be read, or is no model.
pub fn read(path: impl AsRef<Path>) -> Result<Model, Error> {
    Model::open(&Source::Path(path.as_ref().to_path_buf()), &OpenOptions::default())
}

impl Model {
    /// Reads the model in a file, in a SavedModel's folder, or on standard input.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is no model.
    pub fn open(source: &Source, options: &OpenOptions) -> Result<Model, Error> {
        let file = source.read(&options.format())?;
        Ok(Model { source: Some(source.clone()), ..Model::new(file, options)? })
    }

    /// Reads the content of a file. `name` is what messages call it.
    ///
    /// # Errors
    ///
    /// If it is no model.
    pub fn from_bytes(name: &str, content: Vec<u8>, options: &OpenOptions) -> Result<Model, Error> {
        Model::new(File::from_bytes(name, content, &options.format())?, options)
    }

    fn new(file: File, options: &OpenOptions) -> Result<Model, Error> {
        let meta_graph = file.meta_graph()?;
        let mut extra = options.op_defs.clone();
        let info = meta_graph.as_ref().and_then(|meta_graph| meta_graph.meta_info_def.as_ref());
        extra.op.extend(info.and_then(|info| info.stripped_op_list.clone()).unwrap_or_default().op);
        extra.op.extend(file.functions()?.into_iter().map(|function| function.signature));
        let registry = OpRegistry::with_extra(&extra);
        Ok(Model { source: None, file, read_options: options.format(), registry, meta_graph })
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        self.file.name()
    }

    /// Where it was read from; none if from memory.
    pub fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// The file: its bytes, its kind and its encoding.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The same, without what is known about it.
    pub fn into_file(self) -> File {
        self.file
    }

    /// The ops that its nodes may have.
    pub fn registry(&self) -> &OpRegistry {
        &self.registry
    }

    /// What is around the graph, if anything is.
    pub fn meta_graph(&self) -> Option<&MetaGraphDef> {
        self.meta_graph.as_ref()
    }

    /// The names of the variables that the file says are trainable.
    pub fn trainable_variables(&self) -> Vec<String> {
        let names = |meta_graph| collected_variables(meta_graph, "trainable_variables");
        self.meta_graph.as_ref().map(names).unwrap_or_default()
    }

    /// The graph.
    ///
    /// # Errors
    ///
    /// If the model's nodes are none.
    pub fn graph(&self) -> Result<Graph<'_>, Error> {
        Ok(Graph::of_model(&self.file, &self.registry).of(self.name())?)
    }

    /// All that is known of the graph.
    ///
    /// # Errors
    ///
    /// As [`Model::shapes`], or if a tensor is larger than any memory, or an op that a step is to be run for is not there.
    pub fn analyse<'a>(
        &self,
        graph: &'a Graph<'a>,
        options: &AnalysisOptions,
    ) -> Result<Analysis<'a>, Error> {
        let shapes = self.shapes(graph, options)?;
        let sizes = self.sizes(graph, &shapes)?;
        self.analyse_sized(graph, options, (shapes, sizes))
    }

    /// As [`Model::analyse`], with shapes and sizes that are known already.
    ///
    /// # Errors
    ///
    /// If an op that a step is to be run for is not there.
    pub fn analyse_sized<'a>(
        &self,
        graph: &'a Graph<'a>,
        options: &AnalysisOptions,
        (shapes, sizes): (Shapes, Sizes),
    ) -> Result<Analysis<'a>, Error> {
        let analysis = Analysis::with_step(graph, self.step(graph, &options.train_ops)?, shapes, sizes);
        Ok(analysis.with_iterations(options.iterations.clone()))
    }

    /// The shapes of all tensors: those in the file, and, where something was given or the file has none at all, what TensorFlow
    /// infers.
    ///
    /// # Errors
    ///
    /// If TensorFlow is needed and not found, or what was given contradicts the graph.
    pub fn shapes(&self, graph: &Graph, options: &AnalysisOptions) -> Result<Shapes, Error> {
        let declared = Shapes::declared(graph);
        let has_shapes = graph.tensor_ids().any(|tensor| declared.rank(tensor).is_some());
        if options.shapes.is_empty() && has_shapes {
            return Ok(declared);
        }
        let why = if has_shapes {
            "the given shapes must be carried through the graph"
        } else {
            "the file holds no shapes"
        };
        self.infer(graph, options, why)
    }

    #[cfg(feature = "tensorflow")]
    fn infer(&self, graph: &Graph, options: &AnalysisOptions, why: &'static str) -> Result<Shapes, Error> {
        let tensorflow = TensorFlow::open(options.tensorflow.as_deref())
            .map_err(|source| Error::TensorFlow { name: self.name().to_string(), why, source })?;
        Ok(infer_shapes(tensorflow, &self.file, graph, &options.shapes).of(self.name())?)
    }

    #[cfg(not(feature = "tensorflow"))]
    fn infer(&self, _: &Graph, _: &AnalysisOptions, why: &'static str) -> Result<Shapes, Error> {
        Err(Error::WithoutTensorFlow { name: self.name().to_string(), why })
    }

    /// The bytes of all tensors of these shapes.
    ///
    /// # Errors
    ///
    /// If a tensor is larger than any memory.
    pub fn sizes(&self, graph: &Graph, shapes: &Shapes) -> Result<Sizes, Error> {
        Ok(Sizes::of(graph, shapes).of(self.name())?)
    }

    /// What a step runs: what the given ops need, which are run together; else what the ops need that the file names, each of which is
    /// run for a step of its own.
    fn step(&self, graph: &Graph, train_ops: &[String]) -> Result<Step, Error> {
        let by_name: HashMap<&str, NodeId> = graph.node_ids().map(|node| (graph.name(node), node)).collect();
        let find = |name: &String| by_name.get(format::op_name(name)).copied();
        let missing = |op: &String| Error::NoSuchTrainOp { name: self.name().to_string(), op: op.clone() };
        let given = train_ops.iter().map(|name| find(name).ok_or_else(|| missing(name)));
        let together: Vec<NodeId> = given.collect::<Result<_, _>>()?;
        let collected = self.meta_graph.as_ref().map(|meta_graph| collected_ops(meta_graph, "train_op"));
        let mut runs: Vec<Vec<NodeId>> =
            collected.unwrap_or_default().iter().filter_map(find).map(|node| vec![node]).collect();
        if together.is_empty() {
            let all = 0..runs.len();
            return Ok(Step::of_runs(graph, &runs, all));
        }
        // What others of the file's train ops run must stay as it is all the same.
        runs.insert(0, together);
        Ok(Step::of_runs(graph, &runs, 0..1))
    }

    /// Carries a plan out. `graph` is this model's.
    ///
    /// # Errors
    ///
    /// If the plan cannot be carried out.
    pub fn rewrite(&self, graph: &Graph, plan: &Plan) -> Result<Rewritten<'_>, Error> {
        self.rewrite_as(graph, plan, self.file.encoding())
    }

    /// As [`Model::rewrite`], in an encoding.
    ///
    /// # Errors
    ///
    /// If the plan cannot be carried out, or the encoding cannot hold all of the model.
    pub fn rewrite_as(&self, graph: &Graph, plan: &Plan, encoding: Encoding) -> Result<Rewritten<'_>, Error> {
        let rewritten = rewrite::rewrite(&self.file, graph, plan).of(self.name())?;
        let content = self.file.edited(&rewritten.edits, encoding)?.to_vec();
        let file = File::from_bytes(self.name(), content, &self.read_options)?;
        Ok(Rewritten { original: self, file, control_edges: rewritten.control_edges })
    }

    /// What takes all that was added to a rewritten model out again: see [`File::edited`].
    ///
    /// # Errors
    ///
    /// If nothing was added, or what was does not look like it.
    pub fn strip(&self) -> Result<Edits, Error> {
        Ok(rewrite::strip(&self.file).of(self.name())?)
    }
}

impl OpenOptions {
    fn format(&self) -> format::ReadOptions {
        format::ReadOptions { tags: self.tags.clone() }
    }
}
