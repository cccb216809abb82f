//! A model with what its file says about it.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::error::OfFile;
use super::{AnalysisOptions, Error, Rewritten};
use crate::flatten::{
    Entry, Flat, find_entry, flatten, functions_in, lowered, restored, updating_functions, write_back,
    write_over,
};
use crate::format::{self, Edits, Encoding, Model as File, Source, collected_ops, collected_variables};
use crate::graph::{Graph, NodeId};
use crate::ops::OpRegistry;
use crate::order::{Step, run_alone};
use crate::plan::{Analysis, Plan, WORKERS};
use crate::proto::tensorflow::saved_object::Kind;
use crate::proto::tensorflow::{MetaGraphDef, OpList};
use crate::rewrite::{self, RewriteError};
#[cfg(feature = "tensorflow")]
use crate::runtime::{TensorFlow, infer_shapes};
use crate::shape::{Shapes, Sizes};
use crate::simulate::iterated;

/// What to read where a file leaves a choice, and what it may lack.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The tags of the graph to take from a SavedModel that holds several.
    pub tags: Option<Vec<String>>,
    /// Definitions of ops that TensorFlow does not have, beside those that the file carries: see [`super::read_op_list`].
    pub op_defs: OpList,
    /// Which function of the file is the training step.
    pub step: StepFunction,
    /// Whether the graph is a function that was made flat before, so that it always runs as a whole.
    pub is_function: bool,
}

/// Which function of a file is the training step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StepFunction {
    /// The one that updates variables, of all that the file's signatures call; if there is none, the step is at the graph's top level.
    #[default]
    Automatic,
    /// The one that this signature calls.
    Signature(String),
    /// This one.
    Function(String),
    /// None: the step is at the graph's top level, whatever is called there.
    TopLevel,
}

/// A model: a GraphDef, MetaGraphDef or SavedModel, with what its file says about it.
#[derive(Debug)]
pub struct Model {
    pub(super) source: Option<Source>,
    pub(super) file: File,
    pub(super) read_options: format::ReadOptions,
    pub(super) op_defs: OpList,
    pub(super) registry: OpRegistry,
    pub(super) meta_graph: Option<MetaGraphDef>,
    /// The training step as a graph of its own, where it is a function.
    pub(super) flat: Option<Flat>,
    /// The file with the calls at its top level made flat, where the step is there and calls anything.
    pub(super) lowered: Option<File>,
    /// Why not, where they cannot be made flat. They matter only where a step runs them.
    pub(super) not_lowered: Option<String>,
    /// Whether the file is such a graph: nobody fetches a part of it.
    pub(super) is_function: bool,
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

    pub(super) fn new(file: File, options: &OpenOptions) -> Result<Model, Error> {
        let meta_graph = file.meta_graph()?;
        let mut extra = options.op_defs.clone();
        let info = meta_graph.as_ref().and_then(|meta_graph| meta_graph.meta_info_def.as_ref());
        extra.op.extend(info.and_then(|info| info.stripped_op_list.clone()).unwrap_or_default().op);
        extra.op.extend(file.functions()?.into_iter().map(|function| function.signature));
        let registry = OpRegistry::with_extra(&extra);
        let function = match &options.step {
            StepFunction::TopLevel => None,
            StepFunction::Automatic => find_entry(&file, Entry::Training).of(file.name())?,
            StepFunction::Signature(name) => find_entry(&file, Entry::Signature(name)).of(file.name())?,
            StepFunction::Function(name) => find_entry(&file, Entry::Function(name)).of(file.name())?,
        };
        let flat = function.map(|function| flatten(&file, &registry, &function)).transpose();
        let flat = flat.of(file.name())?;
        let (read_options, op_defs) = (options.format(), options.op_defs.clone());
        let is_function = options.is_function;
        // Whoever loads a SavedModel of TensorFlow 2 runs its functions, not its top level.
        let has_objects = meta_graph.as_ref().is_some_and(|meta_graph| meta_graph.object_graph_def.is_some());
        let may_call = flat.is_none() && !has_objects && !is_function;
        let (lowered, not_lowered) = match may_call.then(|| lowered(&file, &registry)) {
            Some(Ok(edits)) => (edits, None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        let lowered = lowered.map(|edits| -> Result<File, Error> {
            let content = file.edited(&edits, file.encoding())?.to_vec();
            Ok(File::from_bytes(file.name(), content, &read_options)?)
        });
        let lowered = lowered.transpose()?;
        Ok(Model {
            source: None,
            file,
            read_options,
            op_defs,
            registry,
            meta_graph,
            flat,
            lowered,
            not_lowered,
            is_function,
        })
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

    /// The training step where it is a function, as a graph of its own.
    pub fn step_function(&self) -> Option<&Flat> {
        self.flat.as_ref()
    }

    /// Whether calls at the top level of the file were made flat for the graph that is analysed.
    pub fn is_lowered(&self) -> bool {
        self.lowered.is_some()
    }

    /// The graph that is analysed and rewritten: the function's, or the file's.
    pub(super) fn analysed(&self) -> &File {
        self.flat.as_ref().map_or_else(|| self.top_level(), |flat| &flat.model)
    }

    /// The file with a top level that calls nothing that can be made flat.
    pub(super) fn top_level(&self) -> &File {
        self.lowered.as_ref().unwrap_or(&self.file)
    }

    /// The names of the variables that the file says are trainable.
    pub fn trainable_variables(&self) -> Vec<String> {
        if self.flat.is_some() {
            let objects =
                self.meta_graph.as_ref().and_then(|meta_graph| meta_graph.object_graph_def.as_ref());
            let kinds = objects.into_iter().flat_map(|objects| &objects.nodes).map(|object| &object.kind);
            let names = kinds.filter_map(|kind| match kind {
                Some(Kind::Variable(variable)) if variable.trainable => Some(variable.name.clone()),
                _ => None,
            });
            return names.collect();
        }
        let names = |meta_graph| collected_variables(meta_graph, "trainable_variables");
        self.meta_graph.as_ref().map(names).unwrap_or_default()
    }

    /// The graph: that of the training step where it is a function.
    ///
    /// # Errors
    ///
    /// If the model's nodes are none.
    pub fn graph(&self) -> Result<Graph<'_>, Error> {
        Ok(Graph::of_model(self.analysed(), &self.registry).of(self.name())?)
    }

    /// The graph at the file's top level, also where the training step is a function.
    ///
    /// # Errors
    ///
    /// If the model's nodes are none.
    pub fn file_graph(&self) -> Result<Graph<'_>, Error> {
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
    /// If an op that a step is to be run for is not there, or what a loop makes longer in each iteration gets larger than any memory.
    pub fn analyse_sized<'a>(
        &self,
        graph: &'a Graph<'a>,
        options: &AnalysisOptions,
        (shapes, sizes): (Shapes, Sizes),
    ) -> Result<Analysis<'a>, Error> {
        let step = self.step(graph, &options.train_ops)?;
        let is_function = self.is_function || self.flat.is_some();
        let analyse = if is_function { Analysis::of_function } else { Analysis::with_step };
        let mut analysis = analyse(graph, step, shapes, sizes).with_iterations(options.iterations.clone());
        // What calls a function by its name has no attribute that says so.
        let functions: HashSet<String> =
            self.file.functions()?.into_iter().map(|function| function.signature.name).collect();
        let by_name =
            |node: &NodeId| analysis.step.contains(*node) && functions.contains(graph.op(*node).name());
        let called: Vec<NodeId> = graph.node_ids().filter(by_name).collect();
        analysis.calls.extend(called);
        // Data sets run their functions on the host, and when they want to; but one may have the whole step in it.
        let training = updating_functions(&self.file).of(self.name())?;
        if !training.is_empty() {
            let nodes = self.analysed().nodes();
            let known: HashSet<NodeId> = analysis.calls.iter().copied().collect();
            let trains = |node: &NodeId| {
                let mut attrs = nodes.attrs(node.index());
                attrs.any(|(_, value)| functions_in(value).iter().any(|function| training.contains(function)))
            };
            let all = graph.node_ids().filter(|&node| analysis.step.contains(node) && !known.contains(&node));
            let found: Vec<NodeId> = all.filter(|node| node.index() < nodes.len() && trains(node)).collect();
            analysis.calls.extend(found);
        }
        analysis.function = self.flat.as_ref().map(|flat| flat.function.clone());
        analysis.is_lowered = self.lowered.is_some();
        analysis.why_calls_stay.clone_from(&self.not_lowered);
        if !analysis.sizes.unknown().is_empty() {
            let iterated = iterated(&analysis);
            if !iterated.is_empty() {
                analysis.sizes = Sizes::with_iterated(graph, &analysis.shapes, &iterated).of(self.name())?;
            }
        }
        Ok(analysis)
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
        // What a function saves for its gradient is declared nowhere.
        let undeclared = |node: &NodeId| {
            let mut outputs = graph.outputs(*node);
            graph.attrs(*node).raw("_output_shapes").is_none()
                && outputs.any(|tensor| {
                    declared.rank(tensor).is_none()
                        && graph.output_type(tensor).dtype.size_in_bytes().is_some()
                })
        };
        let is_made = self.flat.is_some() || self.lowered.is_some();
        let lacks_some = is_made && graph.node_ids().any(|node| undeclared(&node));
        let why = match () {
            () if !has_shapes => "the file holds no shapes",
            () if !options.shapes.is_empty() => "the given shapes must be carried through the graph",
            () if lacks_some => "the file holds no shapes of what functions save for their gradients",
            () => return Ok(declared),
        };
        self.infer(graph, options, why)
    }

    #[cfg(feature = "tensorflow")]
    fn infer(&self, graph: &Graph, options: &AnalysisOptions, why: &'static str) -> Result<Shapes, Error> {
        let tensorflow = TensorFlow::open(options.tensorflow.as_deref())
            .map_err(|source| Error::TensorFlow { name: self.name().to_string(), why, source })?;
        Ok(infer_shapes(tensorflow, self.analysed(), graph, &options.shapes).of(self.name())?)
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
        let collected = match &self.flat {
            Some(flat) => Some(vec![flat.train_step.clone()]),
            None => self.meta_graph.as_ref().map(|meta_graph| collected_ops(meta_graph, "train_op")),
        };
        let collected = collected.unwrap_or_default();
        let alone = run_alone(graph, collected.iter().filter_map(find));
        let mut runs: Vec<Vec<NodeId>> = alone.into_iter().map(|node| vec![node]).collect();
        if together.is_empty() {
            let all = 0..runs.len();
            return Ok(Step::of_runs(graph, &runs, all));
        }
        // What others of the file's train ops run must stay as it is all the same.
        runs.insert(0, together);
        Ok(Step::of_runs(graph, &runs, 0..1))
    }

    /// Whether this model was made to train on several workers.
    pub fn is_parallel(&self) -> bool {
        let nodes = self.file.nodes();
        (0..nodes.len()).any(|node| nodes.name(node) == WORKERS)
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
        let rewritten = rewrite::rewrite(self.analysed(), graph, plan).of(self.name())?;
        let content = match &self.flat {
            Some(_) if rewritten.edits.is_empty() => self.file.edited(&rewritten.edits, encoding)?.to_vec(),
            Some(flat) => {
                let body = flat.model.edited(&rewritten.edits, Encoding::Binary)?.to_vec();
                let body = File::from_bytes(self.name(), body, &format::ReadOptions::default())?;
                // Of a function for several workers the file has the original already.
                let write = if self.is_parallel() { write_over } else { write_back };
                let edits = write(&self.file, flat, &body, &self.registry).of(self.name())?;
                self.file.edited(&edits, encoding)?.to_vec()
            }
            None => self.top_level().edited(&rewritten.edits, encoding)?.to_vec(),
        };
        let file = File::from_bytes(self.name(), content, &self.read_options)?;
        Ok(Rewritten { original: self, file, control_edges: rewritten.control_edges })
    }

    /// The file's graph, with the training step as it is predicted and planned for where it is a function: without what nobody reads, as
    /// Grappler has it for whoever calls the function from Python.
    ///
    /// # Errors
    ///
    /// If the function cannot be written back.
    pub fn graph_def_as_run(&self) -> Result<Vec<u8>, Error> {
        let Some(flat) = self.flat.as_ref().filter(|flat| flat.is_trimmed) else {
            return Ok(self.file.graph_def().to_vec());
        };
        let edits = write_over(&self.file, flat, &flat.model, &self.registry).of(self.name())?;
        let content = self.file.edited(&edits, Encoding::Binary)?.to_vec();
        Ok(File::from_bytes(self.name(), content, &self.read_options)?.graph_def().to_vec())
    }

    /// What takes all that was added to a rewritten model out again: see [`File::edited`].
    ///
    /// # Errors
    ///
    /// If nothing was added, or what was does not look like it.
    pub fn strip(&self) -> Result<Edits, Error> {
        let Some(functions) = restored(&self.file).of(self.name())? else {
            return Ok(rewrite::strip(&self.file).of(self.name())?);
        };
        if functions.nodes.is_some() {
            return Ok(functions);
        }
        match rewrite::strip(&self.file) {
            Ok(edits) => Ok(Edits { functions: functions.functions, ..edits }),
            Err(RewriteError::NothingToStrip) => Ok(functions),
            Err(error) => Err(error).of(self.name())?,
        }
    }

    /// How many ops a rewrite has added, at the top level and in functions.
    ///
    /// # Errors
    ///
    /// If the function library is damaged.
    pub fn added_ops(&self) -> Result<usize, Error> {
        let count = |nodes: format::Nodes<'_>| {
            (0..nodes.len()).filter(|&node| rewrite::is_added(nodes.name(node))).count()
        };
        let functions = self.file.functions()?;
        let in_functions = functions.iter().map(|function| count(self.file.function_nodes(function)));
        Ok(count(self.file.nodes()) + in_functions.sum::<usize>())
    }
}

impl OpenOptions {
    fn format(&self) -> format::ReadOptions {
        format::ReadOptions { tags: self.tags.clone() }
    }
}
