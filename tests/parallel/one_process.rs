//! What one process makes of all workers' data.

use std::collections::HashMap;
use std::ops::{Add, Div};
use std::path::{Path, PathBuf};

use prost::Message;
use tf_lms::AnalysisOptions;
use tf_lms::parallel::ParallelOptions;
use tf_lms::plan::{DataParallel, Gathered, graph_digest};
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::proto::tensorflow::{ConfigProto, GraphDef, GraphOptions, RewriterConfig};
use tf_lms::runtime::{Element, Session, Tensor};
use tf_lms::shape::PlaceholderShapes;
use tf_lms::train::{Asked, CalledStep, Feeds, Recipe, digest};

use crate::wide;

/// A training that workers do, and how.
pub struct Training {
    /// What sessions are made of.
    graph_def: Vec<u8>,
    /// What the names of the step's ops begin with there.
    scope: &'static str,
    /// The values that variables begin with, where no op of the graph makes them.
    checkpoint: Option<PathBuf>,
    recipe: Recipe,
    parallel: DataParallel,
    /// What a step draws.
    random: Vec<String>,
    /// What each worker is fed.
    feeds: Vec<Feeds>,
    /// Whether the graph computes in 64 bits.
    is_wide: bool,
}

/// The variables that all workers share, by their names, after some steps.
pub struct Variables(pub Vec<(String, Tensor)>);

/// What training with the mean of all workers' gradients leads to.
pub struct OfMeans {
    pub variables: Variables,
    /// What each worker drew in each step, in the order of the step's ops that draw.
    drawn: Vec<Vec<Vec<Tensor>>>,
}

impl OfMeans {
    pub fn digest(&self) -> String {
        let values: Vec<Tensor> = self.variables.0.iter().map(|(_, value)| value.clone()).collect();
        digest(&values)
    }
}

impl Variables {
    /// The largest difference to others, as part of the larger one's largest value; and whose it is.
    pub fn difference(&self, other: &Variables) -> (f64, String) {
        let mut largest = (0.0, String::new());
        for ((name, one), (_, two)) in self.0.iter().zip(&other.0) {
            let (one, two) = (one.to_f64().unwrap(), two.to_f64().unwrap());
            let scale = one.iter().chain(&two).fold(1e-3, |most: f64, value| most.max(value.abs()));
            let apart = one.iter().zip(&two).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / scale;
            if apart > largest.0 {
                largest = (apart, name.clone());
            }
        }
        largest
    }
}

/// What gradients are of: `f32`, or `f64` where a graph was made to compute in 64 bits.
trait Number: Element + Add<Output = Self> + Div<Output = Self> + From<u16> {}

impl<T: Element + Add<Output = T> + Div<Output = T> + From<u16>> Number for T {}

/// The mean of each number, added up as workers in a ring do: in as many parts as there are workers, each of which begins with the
/// worker of its own number and goes round from there. The last bits depend on it as soon as there are three.
fn mean_of_ring<T: Number>(all: &[Vec<T>]) -> Vec<T> {
    // Parts end where a cache line does, and are a bit longer than they had to be.
    const LINE: usize = 16;
    let part = (all[0].len().div_ceil(all.len()) / LINE + 1) * LINE;
    let count = T::from(all.len() as u16);
    let mean = |at: usize| {
        let first = at / part;
        let others = (1..all.len()).map(|next| all[(first + next) % all.len()][at]);
        others.fold(all[first][at], |sum, other| sum + other) / count
    };
    (0..all[0].len()).map(mean).collect()
}

/// What the names of a function's ops begin with beside those of its file.
const FLAT: &str = "flat/";

/// The graph of a file with the function that is its step beside it, of which each op can be fetched. Both work on the same variables,
/// which have the same names to be shared by.
fn beside(called: &CalledStep, file: &[u8], flat: &[u8]) -> Vec<u8> {
    let file = called.configured(file, &ConfigProto::default(), false).unwrap();
    let mut graph = GraphDef::decode(&*file).unwrap();
    let mut flat = GraphDef::decode(flat).unwrap();
    let scoped = |name: &str| match name.strip_prefix('^') {
        Some(control) => format!("^{FLAT}{control}"),
        None => format!("{FLAT}{name}"),
    };
    for node in &mut flat.node {
        if node.op == "VarHandleOp" {
            let own = Value::S(node.name.clone().into_bytes());
            let shared = node.attr.entry("shared_name".to_string()).or_default();
            if !matches!(&shared.value, Some(Value::S(name)) if !name.is_empty()) {
                shared.value = Some(own);
            }
        }
        node.name = scoped(&node.name);
        node.input.iter_mut().for_each(|input| *input = scoped(input));
        node.attr.remove("_class");
    }
    graph.node.append(&mut flat.node);
    graph.encode_to_vec()
}

impl Training {
    /// `feeds` as flags give them; what depends on a batch of open size gets `batch`.
    pub fn of(
        path: &Path,
        feeds: &[&str],
        workers: usize,
        batch: Option<i64>,
        reduce: &ParallelOptions,
    ) -> Training {
        let model = tf_lms::read(path).unwrap();
        let graph = model.graph().unwrap();
        let called = model.step_function().map(|flat| {
            let asked = Asked { restore: true, ..Asked::default() };
            CalledStep::find(&model.file_graph().unwrap(), model.meta_graph(), flat, &asked).unwrap()
        });
        let recipe = match &called {
            Some(called) => called.recipe.clone(),
            None => Recipe::find(&graph, model.meta_graph(), &Asked::default()).unwrap(),
        };
        let analysis = model.analyse(&graph, &AnalysisOptions::default()).unwrap();
        let parallel = model.data_parallel(&analysis, reduce).unwrap();
        assert_eq!(parallel.graph.digest, graph_digest(&graph));
        let mut shapes = PlaceholderShapes::default();
        if let Some(batch) = batch {
            let given = tf_lms::shape::GivenShapes { batch_size: Some(batch as u64), ..Default::default() };
            shapes = given.resolve(&graph).unwrap();
        }
        let specs: Vec<_> = feeds.iter().map(|feed| feed.parse().unwrap()).collect();
        let make = |seed| Feeds::make(&graph, &recipe, &specs, &shapes, seed).unwrap();
        let common = make(1);
        let of_rank = |rank: u64| {
            let mut feeds = make(1 + rank);
            for (own, common) in feeds.0.iter_mut().zip(&common.0) {
                if own.tensor.shape().is_empty() {
                    own.tensor = common.tensor.clone();
                }
            }
            feeds
        };
        let feeds = (0..workers as u64).map(of_rank).collect();
        let draws = |node: &tf_lms::graph::NodeId| {
            analysis.step.contains(*node) && graph.op(*node).name().starts_with("Random")
        };
        let random = graph.node_ids().filter(draws).map(|node| format!("{}:0", graph.name(node))).collect();
        let mut training = Training {
            graph_def: model.file().graph_def().to_vec(),
            scope: "",
            checkpoint: None,
            recipe,
            parallel,
            random,
            feeds,
            is_wide: false,
        };
        if let (Some(called), Some(flat)) = (called, model.step_function()) {
            training.graph_def = beside(&called, &training.graph_def, flat.model.graph_def());
            training.scope = FLAT;
            training.checkpoint = Some(path.join("variables/variables"));
            training.recipe.runs[0].train_ops = vec![format!("{FLAT}{}", flat.train_step)];
        }
        training
    }

    /// The same in 64 bits: what is left of a difference is not rounding.
    pub fn in_64_bits(mut self) -> Training {
        assert!(self.checkpoint.is_none(), "values of a checkpoint have their own type");
        self.graph_def = wide::graph(&self.graph_def);
        for fed in self.feeds.iter_mut().flat_map(|feeds| &mut feeds.0) {
            fed.tensor = wide::tensor(&fed.tensor);
        }
        self.is_wide = true;
        self
    }

    /// An op or tensor of the step, as sessions call it.
    fn scoped(&self, name: &str) -> String {
        format!("{}{name}", self.scope)
    }

    fn session(&self) -> Session {
        let mut config = ConfigProto {
            inter_op_parallelism_threads: 1,
            intra_op_parallelism_threads: 1,
            ..ConfigProto::default()
        };
        config.device_count.insert("GPU".to_string(), 0);
        config.allow_soft_placement = true;
        let rewrite = RewriterConfig { disable_meta_optimizer: true, ..RewriterConfig::default() };
        config.graph_options = Some(GraphOptions {
            place_pruned_graph: true,
            rewrite_options: Some(rewrite),
            ..GraphOptions::default()
        });
        Session::new(lms_testing::tensorflow().unwrap(), &self.graph_def, &config).unwrap()
    }

    fn initialized(&self) -> Session {
        let session = self.session();
        let run = |ops: &[String]| {
            let ops: Vec<&str> = ops.iter().map(String::as_str).collect();
            if !ops.is_empty() {
                session.run(&[], &[], &ops).unwrap();
            }
        };
        run(&self.recipe.init_ops);
        if let Some((prefix, saver)) = self.checkpoint.as_ref().zip(self.recipe.saver.as_ref()) {
            let prefix = Tensor::string(prefix.to_string_lossy().into_owned());
            session.run(&[(&*saver.filename, &prefix)], &[], &[&*saver.restore]).unwrap();
            run(&self.recipe.copies.restored);
        }
        session
    }

    fn snapshots(&self) -> Vec<(String, String)> {
        let shared = |name: &String| self.parallel.variables.contains(name);
        let variables = self.recipe.variables.iter().filter(|variable| shared(&variable.name));
        variables.map(|variable| (variable.name.clone(), variable.snapshot.clone())).collect()
    }

    fn variables(&self, session: &Session) -> Variables {
        let snapshots = self.snapshots();
        let names: Vec<&str> = snapshots.iter().map(|(_, snapshot)| snapshot.as_str()).collect();
        let values = session.run(&[], &names, &[]).unwrap();
        Variables(snapshots.into_iter().map(|(name, _)| name).zip(values).collect())
    }

    /// The original graph in one session for each worker's data: each makes its gradients, and all apply their mean, which is made here.
    pub fn of_means(&self, steps: usize) -> OfMeans {
        let sessions: Vec<Session> = self.feeds.iter().map(|_| self.initialized()).collect();
        if self.checkpoint.is_none() {
            self.copy_first(&sessions);
        }
        let cuts: Vec<&str> = self
            .parallel
            .collectives
            .iter()
            .flat_map(|collective| collective.tensors().map(|reduced| reduced.tensor.as_str()))
            .filter(|tensor| self.parallel.loss.as_deref() != Some(*tensor))
            .collect();
        let train: Vec<Vec<&str>> =
            self.recipe.runs.iter().map(|run| run.train_ops.iter().map(String::as_str).collect()).collect();
        assert_eq!(train.len(), 1, "several train ops are not for this");
        let mut drawn = Vec::new();
        for _ in 0..steps {
            let made: Vec<Vec<Tensor>> = sessions
                .iter()
                .zip(&self.feeds)
                .map(|(session, feeds)| {
                    let feeds = feeds.0.iter().map(|fed| (self.scoped(&fed.name), &fed.tensor));
                    let fetched = cuts.iter().copied().chain(self.random.iter().map(String::as_str));
                    self.run(session, &feeds.collect::<Vec<_>>(), &fetched.collect::<Vec<_>>(), &[])
                })
                .collect();
            let applied = match self.is_wide {
                true => self.together::<f64>(&cuts, &made),
                false => self.together::<f32>(&cuts, &made),
            };
            for ((session, feeds), made) in sessions.iter().zip(&self.feeds).zip(&made) {
                let is_cut = |name: &str| applied.contains_key(&*format!("{name}:0"));
                let own = feeds
                    .0
                    .iter()
                    .filter(|fed| !is_cut(&fed.name))
                    .map(|fed| (fed.name.as_str(), &fed.tensor));
                // The train op may wait for the loss, and so run the forward pass: that must draw nothing again.
                let drawn = self.random.iter().map(String::as_str).zip(&made[cuts.len()..]);
                let applied = applied.iter().map(|(name, value)| (*name, value));
                let feeds = own.chain(applied).chain(drawn).map(|(name, value)| (self.scoped(name), value));
                self.run(session, &feeds.collect::<Vec<_>>(), &[], &train[0]);
            }
            drawn.push(made.into_iter().map(|mut all| all.split_off(cuts.len())).collect());
        }
        OfMeans { variables: self.variables(&sessions[0]), drawn }
    }

    /// Runs ops of the step. What is fetched has the names that it has in the step, and what is fed and run those of the session.
    fn run(
        &self,
        session: &Session,
        feeds: &[(String, &Tensor)],
        fetched: &[&str],
        ops: &[&str],
    ) -> Vec<Tensor> {
        let feeds: Vec<(&str, &Tensor)> = feeds.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let fetched: Vec<String> = fetched.iter().map(|name| self.scoped(name)).collect();
        session.run(&feeds, &fetched.iter().map(String::as_str).collect::<Vec<_>>(), ops).unwrap()
    }

    /// What each reduced tensor is of all workers.
    fn together<'a, T: Number>(&'a self, cuts: &[&'a str], made: &[Vec<Tensor>]) -> HashMap<&'a str, Tensor> {
        let workers = T::from(made.len() as u16);
        let of = |name: &str| -> Vec<&Tensor> {
            let at = cuts.iter().position(|cut| *cut == name).unwrap();
            made.iter().map(|one| &one[at]).collect()
        };
        let mut applied = HashMap::new();
        for collective in &self.parallel.collectives {
            match &collective.what {
                Gathered::Mean(tensors) => {
                    let is_cut = |name: &str| cuts.contains(&name);
                    // They travel one behind the other; the loss, which nobody applies, is one number.
                    let mut joined: Vec<Vec<T>> = vec![Vec::new(); made.len()];
                    for reduced in tensors {
                        match is_cut(&reduced.tensor) {
                            true => joined
                                .iter_mut()
                                .zip(of(&reduced.tensor))
                                .for_each(|(joined, part)| joined.extend(part.to_vec::<T>().unwrap())),
                            false => joined.iter_mut().for_each(|joined| joined.push(T::from(0))),
                        }
                    }
                    let mean = mean_of_ring(&joined);
                    let mut start = 0;
                    for reduced in tensors {
                        if !is_cut(&reduced.tensor) {
                            start += 1;
                            continue;
                        }
                        let shape = of(&reduced.tensor)[0].shape();
                        let end = start + shape.iter().product::<i64>() as usize;
                        applied
                            .insert(reduced.tensor.as_str(), Tensor::of(shape, &mean[start..end]).unwrap());
                        start = end;
                    }
                }
                Gathered::Rows { values, indices } => {
                    let rows = of(&values.tensor);
                    let all: Vec<T> = rows
                        .iter()
                        .flat_map(|one| one.to_vec::<T>().unwrap())
                        .map(|value| value / workers)
                        .collect();
                    let mut shape = rows[0].shape().to_vec();
                    shape[0] *= made.len() as i64;
                    applied.insert(values.tensor.as_str(), Tensor::of(&shape, &all).unwrap());
                    let places = of(&indices.tensor);
                    let count: i64 = places.iter().map(|one| one.shape()[0]).sum();
                    let bytes: Vec<u8> =
                        places.iter().flat_map(|one| one.bytes().unwrap().to_vec()).collect();
                    applied.insert(
                        indices.tensor.as_str(),
                        Tensor::new(places[0].dtype(), &[count], bytes).unwrap(),
                    );
                }
            }
        }
        applied
    }

    /// Gives all sessions the variables of the first.
    fn copy_first(&self, sessions: &[Session]) {
        let variables: Vec<_> = self.recipe.variables.iter().collect();
        let names: Vec<&str> = variables.iter().map(|variable| variable.snapshot.as_str()).collect();
        let values = sessions[0].run(&[], &names, &[]).unwrap();
        for session in &sessions[1..] {
            let initial = |at: usize| variables[at].initial.as_ref().unwrap();
            let feeds: Vec<(&str, &Tensor)> =
                values.iter().enumerate().map(|(at, value)| (initial(at).value.as_str(), value)).collect();
            let ops: Vec<&str> = (0..variables.len()).map(|at| initial(at).initializer.as_str()).collect();
            session.run(&feeds, &[], &ops).unwrap();
        }
    }

    /// The original graph with all workers' data as one batch, for which what the workers drew is drawn. How far its variables are from those
    /// that the mean of gradients led to, as [`Variables::difference`] says.
    pub fn beside_whole_batch(&self, of_means: &OfMeans) -> (f64, String) {
        let session = self.initialized();
        let of_all =
            |at: usize| joined(&self.feeds.iter().map(|feeds| &feeds.0[at].tensor).collect::<Vec<_>>());
        let inputs = self.feeds[0].0.iter().enumerate().map(|(at, fed)| (self.scoped(&fed.name), of_all(at)));
        let inputs: Vec<(String, Tensor)> = inputs.collect();
        for drawn in &of_means.drawn {
            let of_all = |at: usize| joined(&drawn.iter().map(|worker| &worker[at]).collect::<Vec<_>>());
            let drawn = self.random.iter().enumerate().map(|(at, name)| (self.scoped(name), of_all(at)));
            let drawn: Vec<(String, Tensor)> = drawn.collect();
            let feeds = inputs.iter().chain(&drawn).map(|(name, value)| (name.clone(), value));
            let feeds: Vec<(String, &Tensor)> = feeds.collect();
            for run in &self.recipe.runs {
                let ops: Vec<&str> = run.train_ops.iter().map(String::as_str).collect();
                self.run(&session, &feeds, &[], &ops);
            }
        }
        of_means.variables.difference(&self.variables(&session))
    }
}

/// Parts of a batch as one; a number that all have is one as it is.
fn joined(parts: &[&Tensor]) -> Tensor {
    let mut shape = parts[0].shape().to_vec();
    if shape.is_empty() {
        return parts[0].clone();
    }
    shape[0] = parts.iter().map(|part| part.shape()[0]).sum();
    let bytes = parts.iter().flat_map(|part| part.bytes().unwrap().to_vec()).collect();
    Tensor::new(parts[0].dtype(), &shape, bytes).unwrap()
}
