//! What to run: the ops of a step, of initialization and of checkpoints.

use std::collections::{BTreeMap, HashMap, HashSet};

use prost::Message;

use super::{TrainError, unlisted};
use crate::format::{collected_ops, op_name};
use crate::graph::{Graph, NodeId, output_shapes};
use crate::order::{Step, run_alone};
use crate::proto::tensorflow::collection_def::Kind;
use crate::proto::tensorflow::tensor_info::Encoding;
use crate::proto::tensorflow::{MetaGraphDef, VariableDef};

/// What the user says of it.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// `--init-op`.
    pub init_ops: Vec<String>,
    /// `--train-op`.
    pub train_ops: Vec<String>,
    /// `--loss`.
    pub loss: Option<String>,
    /// Whether a checkpoint gives the variables their values.
    pub restore: bool,
}

/// A variable, by the names of what reads and sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its op.
    pub name: String,
    /// How it gets its first value; none if only a checkpoint has it.
    pub initial: Option<Initial>,
    /// The tensor that reads it.
    pub snapshot: String,
}

/// How a variable gets its first value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initial {
    /// The tensor that is assigned.
    pub value: String,
    /// The op that assigns it.
    pub initializer: String,
}

/// The ops by which a graph writes and reads checkpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saver {
    /// The tensor that takes the name of the checkpoint.
    pub filename: String,
    /// The tensor to fetch to save.
    pub save: String,
    /// The op to run to restore.
    pub restore: String,
}

/// The ops that move values between variables and the copies of them that a file saves and restores; empty where it saves the variables
/// themselves. Those of a list are run together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopyOps {
    /// To be run once the copies are restored: they go to the variables.
    pub restored: Vec<String>,
    /// To be run before the copies are saved: they come from the variables.
    pub saved: Vec<String>,
    /// To be run after either: the copies give back their memory.
    pub dropped: Vec<String>,
}

/// One run of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainRun {
    /// Ops that are run together.
    pub train_ops: Vec<String>,
    /// Whether the loss is fetched with them: it is with the first that need it.
    pub fetches_loss: bool,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recipe {
    /// Ops that initialize the variables.
    pub init_ops: Vec<String>,
    /// Further ones, to be run behind these, one after the other: what they make on a GPU need not be there all at once.
    pub late_init_ops: Vec<String>,
    /// What moves values between the variables and the copies that the file saves of them.
    pub copies: CopyOps,
    /// Ops that fill tables.
    pub table_init_ops: Vec<String>,
    /// Ops that a step is run for.
    pub train_ops: Vec<String>,
    /// The runs of a step, one after the other: one for all train ops that were asked for, or for each of those that the file names.
    pub runs: Vec<TrainRun>,
    /// The tensor that is the loss.
    pub loss: Option<String>,
    /// The placeholders that a step reads.
    pub placeholders: Vec<String>,
    /// The shape of the largest tensor that a step takes from an iterator, if there is one and the file tells.
    pub iterated: Option<Vec<i64>>,
    /// The iterators that a step takes data from, and how often.
    pub iterators: BTreeMap<String, u64>,
    /// The variables: those that the file lists, or else those of the graph that can be read.
    pub variables: Vec<Variable>,
    /// How to save and restore.
    pub saver: Option<Saver>,
}

impl Recipe {
    /// Finds out what to run from flags, collections, signatures and, at last, names.
    ///
    /// # Errors
    ///
    /// If something that is named is not there, or if nothing says how to train.
    pub fn find(
        graph: &Graph,
        meta_graph: Option<&MetaGraphDef>,
        asked: &Asked,
    ) -> Result<Recipe, TrainError> {
        let names = Names(graph.node_ids().map(|node| (graph.name(node), node)).collect());
        let collected =
            |collection: &str| meta_graph.map(|meta| collected_ops(meta, collection)).unwrap_or_default();
        let mut recipe = Recipe {
            variables: meta_graph.map(variables).unwrap_or_default(),
            saver: meta_graph.and_then(saver),
            table_init_ops: collected("table_initializer"),
            ..Recipe::default()
        };
        let mut train_ops = collected("train_op");
        let alone = run_alone(graph, train_ops.iter().filter_map(|name| names.0.get(&**name)).copied());
        // An optimizer that updates within a branch leaves the name of an op there, which is in a function.
        let is_one_there = !alone.is_empty();
        train_ops.retain(|name| match names.0.get(&**name) {
            Some(node) => alone.contains(node),
            None => !is_one_there,
        });
        recipe.train_ops = names.choose("--train-op", &asked.train_ops, "train_op", train_ops)?;
        recipe.loss = match &asked.loss {
            Some(loss) => Some(names.check("tensor", loss, "--loss").map(|()| with_output(loss))?),
            None => collected("losses")
                .first()
                .map(|loss| with_output(loss))
                .or_else(|| signature_loss(meta_graph?)),
        };
        if recipe.train_ops.is_empty() && recipe.loss.is_none() {
            return Err(TrainError::NoTrainOp);
        }
        let loss = recipe.loss.as_deref().map(|loss| ("tensor", loss.to_string(), "the collection `losses`"));
        loss.map_or(Ok(()), |(what, name, by)| names.check(what, &name, by))?;
        recipe.init_ops = match collected("init_op") {
            found if !asked.init_ops.is_empty() || !found.is_empty() => {
                names.choose("--init-op", &asked.init_ops, "init_op", found)?
            }
            _ => recipe.initializers(graph, &names),
        };
        recipe.check_init(graph, asked)?;
        if recipe.variables.is_empty() {
            recipe.variables = unlisted::variables(graph);
        }
        recipe.find_input(graph, &names);
        recipe.runs = recipe.runs(graph, &names, !asked.train_ops.is_empty());
        recipe.count_takings(graph, &names);
        Ok(recipe)
    }

    /// Counts how often a step takes from each iterator. Each run of it takes anew.
    fn count_takings(&mut self, graph: &Graph, names: &Names) {
        for run in &self.runs {
            let loss = self.loss.iter().filter(|_| run.fetches_loss);
            let targets =
                run.train_ops.iter().chain(loss).filter_map(|name| names.0.get(op_name(name)).copied());
            let step = Step::of(graph, &targets.collect::<Vec<_>>());
            for node in graph.node_ids().filter(|&node| step.contains(node)) {
                if matches!(
                    graph.op(node).name(),
                    "IteratorGetNext" | "IteratorGetNextSync" | "IteratorGetNextAsOptional"
                ) && let Some(&iterator) = graph.data_inputs(node).first()
                {
                    let iterator = graph.name(graph.producer(iterator)).to_string();
                    *self.iterators.entry(iterator).or_default() += 1;
                }
            }
        }
    }

    /// The runs of a step. What was asked for is run together; what a file names in a collection is run in turn.
    fn runs(&self, graph: &Graph, names: &Names, together: bool) -> Vec<TrainRun> {
        let run = |train_ops: &[String]| TrainRun { train_ops: train_ops.to_vec(), fetches_loss: false };
        let mut runs: Vec<TrainRun> = match together || self.train_ops.len() < 2 {
            true => vec![run(&self.train_ops)],
            false => self.train_ops.chunks(1).map(run).collect(),
        };
        let find = |name: &String| names.0.get(op_name(name)).copied();
        let needs_loss = |run: &TrainRun| {
            let Some(loss) = self.loss.as_ref().and_then(find) else { return false };
            Step::of(graph, &run.train_ops.iter().filter_map(find).collect::<Vec<_>>()).contains(loss)
        };
        let with_loss = if runs.len() == 1 { 0 } else { runs.iter().position(needs_loss).unwrap_or(0) };
        if let Some(run) = runs.get_mut(with_loss) {
            run.fetches_loss = true;
        }
        runs
    }

    /// Without an op that initializes all: those of the listed variables, or else those called as TensorFlow calls them.
    fn initializers(&self, graph: &Graph, names: &Names) -> Vec<String> {
        if !self.variables.is_empty() {
            let initial = self.variables.iter().filter_map(|variable| variable.initial.as_ref());
            return initial.map(|initial| initial.initializer.clone()).collect();
        }
        let is_no_op = |name: &&str| names.0.get(name).is_some_and(|&node| graph.op(node).name() == "NoOp");
        if let Some(init) = ["init", "global_variables_initializer"].into_iter().find(is_no_op) {
            return vec![init.to_string()];
        }
        let assigns = variable_nodes(graph).map(|node| format!("{}/Assign", graph.name(node)));
        assigns.filter(|assign| names.0.contains_key(assign.as_str())).collect()
    }

    /// Whether anything initializes variables.
    pub fn initializes(&self) -> bool {
        !self.init_ops.is_empty() || !self.late_init_ops.is_empty()
    }

    /// Lets the initialization of these ops' weights run behind that of all others. Ops that do nothing themselves are taken apart for
    /// that.
    pub fn initialize_last(&mut self, graph: &Graph, ops: &[String]) {
        let by_name: HashMap<&str, NodeId> = graph.node_ids().map(|node| (graph.name(node), node)).collect();
        let find = |names: &[String]| -> Vec<NodeId> {
            names.iter().filter_map(|name| by_name.get(&**name)).copied().collect()
        };
        let last: HashSet<NodeId> = find(ops).into_iter().collect();
        let mut open = find(&self.init_ops);
        open.reverse();
        let mut seen = HashSet::new();
        self.init_ops.clear();
        while let Some(node) = open.pop() {
            if !seen.insert(node) {
                continue;
            }
            let name = || graph.name(node).to_string();
            match graph.op(node).name() {
                "NoOp" => open.extend(graph.control_inputs(node).iter().rev()),
                _ if last.contains(&node) => self.late_init_ops.push(name()),
                _ => self.init_ops.push(name()),
            }
        }
    }

    fn check_init(&self, graph: &Graph, asked: &Asked) -> Result<(), TrainError> {
        let variables: Vec<NodeId> = variable_nodes(graph).collect();
        match variables.first() {
            Some(&first) if self.init_ops.is_empty() && !asked.restore => {
                Err(TrainError::NoInit { variables: variables.len(), example: graph.name(first).to_string() })
            }
            _ => Ok(()),
        }
    }

    /// The placeholders without a default, and what comes from iterators, among all that a step runs.
    fn find_input(&mut self, graph: &Graph, names: &Names) {
        let targets = self.train_ops.iter().chain(&self.loss);
        let mut todo: Vec<NodeId> = targets.filter_map(|name| names.0.get(op_name(name)).copied()).collect();
        let mut seen: HashSet<NodeId> = todo.iter().copied().collect();
        let mut iterated = Vec::new();
        while let Some(node) = todo.pop() {
            match graph.op(node).name() {
                "Placeholder" | "PlaceholderV2" => self.placeholders.push(graph.name(node).to_string()),
                "IteratorGetNext" => {
                    iterated.extend(output_shapes(&graph.attrs(node)).into_iter().flatten().flatten());
                }
                _ => {}
            }
            todo.extend(graph.predecessors(node).filter(|&before| seen.insert(before)));
        }
        self.placeholders.sort();
        let known = |shape: &Vec<i64>| shape.iter().all(|&size| size >= 0);
        let count = |shape: &Vec<i64>| shape.iter().fold(1i64, |product, &size| product.saturating_mul(size));
        self.iterated = iterated.into_iter().filter(known).max_by_key(count);
    }
}

/// The nodes of a graph by name.
struct Names<'g>(HashMap<&'g str, NodeId>);

impl Names<'_> {
    /// The ops of a flag, or those of a collection; all must be there.
    fn choose(
        &self,
        flag: &str,
        asked: &[String],
        collection: &str,
        collected: Vec<String>,
    ) -> Result<Vec<String>, TrainError> {
        let (chosen, by) = match asked {
            [] => (collected, format!("the collection `{collection}`")),
            asked => (asked.to_vec(), flag.to_string()),
        };
        chosen.iter().try_for_each(|name| self.check("op", name, &by))?;
        Ok(chosen.iter().map(|name| op_name(name).to_string()).collect())
    }

    fn check(&self, what: &'static str, name: &str, by: &str) -> Result<(), TrainError> {
        if self.0.contains_key(op_name(name)) {
            return Ok(());
        }
        let near = self.near(op_name(name));
        Err(TrainError::NoSuchName { what, name: name.to_string(), given_by: by.to_string(), near })
    }

    /// Up to three names that contain this one or its last part.
    fn near(&self, name: &str) -> Vec<String> {
        let last = name.rsplit('/').next().unwrap_or(name);
        let mut near: Vec<_> = self
            .0
            .keys()
            .filter(|known| !last.is_empty() && known.contains(last))
            .map(|known| known.to_string())
            .collect();
        near.sort_by_key(|known| (known.len(), known.clone()));
        near.truncate(3);
        near
    }
}

pub(super) fn variable_nodes(graph: &Graph) -> impl Iterator<Item = NodeId> {
    let is_variable =
        |&node: &NodeId| matches!(graph.op(node).name(), "VariableV2" | "Variable" | "VarHandleOp");
    graph.node_ids().filter(is_variable)
}

/// A tensor's name with its output.
pub(super) fn with_output(name: &str) -> String {
    if name.contains(':') { name.to_string() } else { format!("{name}:0") }
}

fn variables(meta_graph: &MetaGraphDef) -> Vec<Variable> {
    let kind =
        |name: &str| meta_graph.collection_def.get(name).and_then(|collection| collection.kind.as_ref());
    // `variables` is the key of `tf.GraphKeys.GLOBAL_VARIABLES`.
    let lists = ["variables", "local_variables"].map(kind);
    let defs = lists.into_iter().flatten().filter_map(|kind| match kind {
        Kind::BytesList(list) => Some(&list.value),
        _ => None,
    });
    let decoded = defs.flatten().filter_map(|bytes| VariableDef::decode(bytes.as_slice()).ok());
    decoded
        .map(|def| Variable {
            name: op_name(&def.variable_name).to_string(),
            initial: Some(Initial {
                value: def.initial_value_name,
                initializer: op_name(&def.initializer_name).to_string(),
            }),
            snapshot: def.snapshot_name,
        })
        .collect()
}

pub(super) fn saver(meta_graph: &MetaGraphDef) -> Option<Saver> {
    let saver = meta_graph.saver_def.as_ref().filter(|saver| !saver.filename_tensor_name.is_empty())?;
    Some(Saver {
        filename: with_output(&saver.filename_tensor_name),
        save: with_output(&saver.save_tensor_name),
        restore: op_name(&saver.restore_op_name).to_string(),
    })
}

/// The output called `loss` of the signature called `train`, or of the only one that has such an output.
fn signature_loss(meta_graph: &MetaGraphDef) -> Option<String> {
    let loss = |name: &str| match &meta_graph.signature_def.get(name)?.outputs.get("loss")?.encoding {
        Some(Encoding::Name(name)) => Some(with_output(name)),
        _ => None,
    };
    let mut all = meta_graph.signature_def.keys().filter_map(|name| loss(name));
    loss("train").or_else(|| all.next().filter(|_| all.next().is_none()))
}
