//! The model that a tool was given, on its way to an analysed graph.

use std::collections::HashMap;
use std::fs;

use anyhow::Context;
use prost::Message;
use prost_reflect::DynamicMessage;

use super::{GraphArgs, ModelArgs};
use crate::format::{Encoding, Model, Source, collected_ops, collected_variables};
use crate::graph::{Graph, NodeId};
use crate::ops::OpRegistry;
use crate::order::Step;
use crate::plan::{Analysis, Plan};
use crate::proto::descriptor_pool;
use crate::proto::tensorflow::{MetaGraphDef, OpList};
use crate::rewrite::rewrite;
use crate::runtime::{TensorFlow, infer_shapes};
use crate::shape::{Shapes, Sizes};
use crate::verify::{self, CheckOptions};

/// A model with what its file and the flags say about it.
#[derive(Debug)]
pub struct Subject {
    /// Where it came from.
    pub source: Source,
    /// The model.
    pub model: Model,
    /// The ops that its nodes may have.
    pub registry: OpRegistry,
    /// What is around the graph, if anything is.
    pub meta_graph: Option<MetaGraphDef>,
}

impl Subject {
    /// Reads the model and the definitions of its ops.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be read.
    pub fn read(model: &ModelArgs, graph: &GraphArgs) -> anyhow::Result<Subject> {
        let source = model.source();
        let model = source.read(&model.options())?;
        let meta_graph = model.meta_graph()?;
        let mut extra = OpList::default();
        if let Some(path) = &graph.op_defs {
            let content = fs::read(path).with_context(|| path.display().to_string())?;
            extra = read_op_list(&content).with_context(|| format!("{}: is no OpList", path.display()))?;
        }
        let info = meta_graph.as_ref().and_then(|meta_graph| meta_graph.meta_info_def.as_ref());
        extra.op.extend(info.and_then(|info| info.stripped_op_list.clone()).unwrap_or_default().op);
        extra.op.extend(model.functions()?.into_iter().map(|function| function.signature));
        Ok(Subject { source, registry: OpRegistry::with_extra(&extra), model, meta_graph })
    }

    /// The graph.
    ///
    /// # Errors
    ///
    /// If the model's nodes are none.
    pub fn graph(&self) -> anyhow::Result<Graph<'_>> {
        Graph::of_model(&self.model, &self.registry).with_context(|| self.model.name().to_string())
    }

    /// What a step runs: what the given ops need, which are run together; else what the ops need that the file names, each of which is
    /// run for a step of its own.
    ///
    /// # Errors
    ///
    /// If an op that was given is not there.
    pub fn step(&self, graph: &Graph, given: &GraphArgs) -> anyhow::Result<Step> {
        let by_name: HashMap<&str, NodeId> = graph.node_ids().map(|node| (graph.name(node), node)).collect();
        let find = |name: &String| by_name.get(crate::format::op_name(name)).copied();
        let mut together = Vec::new();
        for name in &given.train_ops {
            let node = find(name).with_context(|| {
                format!("{}: has no op {name:?} (given as --train-op)", self.model.name())
            })?;
            together.push(node);
        }
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

    /// All that is known of the graph once its tensors have these shapes.
    ///
    /// # Errors
    ///
    /// If a tensor's size cannot be computed, or an op that a step is to be run for is not there.
    pub fn analysis<'a>(
        &self,
        graph: &'a Graph<'a>,
        args: &GraphArgs,
        shapes: Shapes,
    ) -> anyhow::Result<Analysis<'a>> {
        let sizes = Sizes::of(graph, &shapes).with_context(|| self.model.name().to_string())?;
        Ok(Analysis::with_step(graph, self.step(graph, args)?, shapes, sizes))
    }

    /// The model with a plan carried out, checked.
    ///
    /// # Errors
    ///
    /// If the plan cannot be carried out, or the result does not compute what the model does.
    pub fn carried_out(
        &self,
        graph: &Graph,
        plan: &Plan,
        model: &ModelArgs,
        args: &GraphArgs,
    ) -> anyhow::Result<Model> {
        let name = || self.model.name().to_string();
        let edits = rewrite(&self.model, graph, plan).with_context(name)?.edits;
        let content = self.model.edited(&edits, Encoding::Binary)?.to_vec();
        let result = Model::from_bytes(self.model.name(), content, &model.options())?;
        let options = CheckOptions { train_ops: args.train_ops.clone() };
        verify::check_with(&self.model, &result, &self.registry, &options)
            .with_context(|| format!("{}: the rewrite failed its check, nothing was run", name()))?;
        Ok(result)
    }

    /// The names of the variables that the file says are trainable.
    pub fn trainable_variables(&self) -> Vec<String> {
        let names = |meta_graph| collected_variables(meta_graph, "trainable_variables");
        self.meta_graph.as_ref().map(names).unwrap_or_default()
    }

    /// The shapes of all tensors: those in the file, and, where something was given or the file has none at all, what
    /// TensorFlow infers.
    ///
    /// # Errors
    ///
    /// If TensorFlow is needed and not found, or what was given contradicts the graph.
    pub fn shapes(&self, graph: &Graph, args: &GraphArgs) -> anyhow::Result<Shapes> {
        let given = args.given_shapes();
        let declared = Shapes::declared(graph);
        let has_shapes = graph.tensor_ids().any(|tensor| declared.rank(tensor).is_some());
        if given.is_empty() && has_shapes {
            return Ok(declared);
        }
        let why = if has_shapes {
            "the given shapes must be carried through the graph"
        } else {
            "the file holds no shapes"
        };
        let tensorflow = TensorFlow::open(args.tensorflow.as_deref())
            .with_context(|| format!("{}: {why}, which takes TensorFlow", self.model.name()))?;
        infer_shapes(tensorflow, &self.model, graph, &given).with_context(|| self.model.name().to_string())
    }
}

fn read_op_list(content: &[u8]) -> anyhow::Result<OpList> {
    match OpList::decode(content) {
        Ok(list) => Ok(list),
        Err(error) => {
            let Ok(text) = std::str::from_utf8(content) else { return Err(error.into()) };
            let message = descriptor_pool().get_message_by_name("tensorflow.OpList");
            let message = message.context("the definitions in proto/ lack OpList")?;
            Ok(DynamicMessage::parse_text_format(message, text)?.transcode_to()?)
        }
    }
}
