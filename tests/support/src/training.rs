//! Training in TensorFlow, to compare graphs by what they do.

use std::sync::{Mutex, PoisonError};

use tf_lms::format::{Kind, Model};
use tf_lms::proto::tensorflow::run_options::TraceLevel;
use tf_lms::proto::tensorflow::{ConfigProto, GraphDef, MetaGraphDef, NodeDef, RunMetadata, RunOptions};
use tf_lms::runtime::{Feed, Session, SessionError, Tensor, TensorFlow};

use super::feeds;
use super::manifest::Manifest;

/// One thread, so that steps add up in the same order. What names a GPU runs on the CPU.
pub fn one_thread() -> ConfigProto {
    ConfigProto {
        intra_op_parallelism_threads: 1,
        inter_op_parallelism_threads: 1,
        allow_soft_placement: true,
        ..ConfigProto::default()
    }
}

/// What training did.
#[derive(Debug, Clone)]
pub struct Trained {
    /// The loss of each step.
    pub losses: Vec<f64>,
    /// The loss of each step as the bits of its type: equal bits are equal losses.
    pub loss_bits: Vec<Vec<u8>>,
    /// What TensorFlow recorded of the first step.
    pub metadata: RunMetadata,
}

impl Trained {
    /// The nodes that TensorFlow ran, on all devices, after all its optimizations.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeDef> {
        self.metadata.partition_graphs.iter().flat_map(|graph: &GraphDef| &graph.node)
    }

    /// The losses as bits of single precision.
    pub fn single_bits(&self) -> Vec<u32> {
        let bits = self.loss_bits.iter().map(|bits| u32::from_ne_bytes(bits.as_slice().try_into().unwrap()));
        bits.collect()
    }
}

/// Trains a model, from its initial values, on the feeds of its manifest. Where several steps are run in turn, each step is the next
/// one's turn.
///
/// The model may be another than the manifest's, as long as the names are the same.
///
/// # Errors
///
/// If TensorFlow fails.
pub fn train(
    tensorflow: &'static TensorFlow,
    model: &Model,
    manifest: &Manifest,
    config: &ConfigProto,
    steps: usize,
) -> Result<Trained, SessionError> {
    let seed = manifest.reference.as_ref().map_or(1, |reference| reference.feed_seed);
    let session = Session::new(tensorflow, model.graph_def(), config)?;
    initialize(&session, model, manifest)?;

    let names: Vec<&str> = manifest.inputs.iter().map(|input| input.name.as_str()).collect();
    let turns = manifest.turns();
    let mut prepared = Vec::new();
    for turn in &turns {
        let targets: Vec<&str> = turn.train_op.as_deref().into_iter().collect();
        prepared.push(session.step(&names, &[&turn.loss], &targets)?);
    }
    let prepare = |number| -> Result<Vec<Feed>, SessionError> {
        feeds::feeds(manifest, seed, number).iter().map(|tensor| session.feed(tensor)).collect()
    };
    let mut trained = Trained { losses: Vec::new(), loss_bits: Vec::new(), metadata: RunMetadata::default() };
    let mut feeds = prepare(0)?;
    for number in 0..steps {
        if number > 0 && !feeds::are_constant(manifest) {
            feeds = prepare(number)?;
        }
        let feeds: Vec<&Feed> = feeds.iter().collect();
        let step = &prepared[number % prepared.len()];
        let fetched = if number == 0 {
            // TensorFlow records for one session at a time.
            static RECORDING: Mutex<()> = Mutex::new(());
            let _one_at_a_time = RECORDING.lock().unwrap_or_else(PoisonError::into_inner);
            let outcome = step.run_with(&feeds, &record_everything())?;
            trained.metadata = outcome.metadata;
            outcome.fetched
        } else {
            step.run(&feeds)?
        };
        trained.losses.push(fetched[0].to_f64().unwrap()[0]);
        trained.loss_bits.push(fetched[0].bytes().unwrap().to_vec());
    }
    Ok(trained)
}

fn record_everything() -> RunOptions {
    RunOptions {
        trace_level: TraceLevel::FullTrace.into(),
        output_partition_graphs: true,
        report_tensor_allocations_upon_oom: true,
        ..RunOptions::default()
    }
}

/// Gives the variables their initial values: by the init op, or else by restoring what a SavedModel holds.
fn initialize(session: &Session, model: &Model, manifest: &Manifest) -> Result<(), SessionError> {
    if let Some(init) = &manifest.init_op {
        return session.run(&[], &[], &[init]).map(drop);
    }
    if model.kind() != Kind::SavedModel {
        // Constants need no initialization.
        return Ok(());
    }
    let meta_graph: MetaGraphDef = model.meta_graph().unwrap().unwrap();
    let saver = meta_graph.saver_def.unwrap();
    let checkpoint = manifest.path().join("variables/variables");
    let checkpoint = Tensor::string(checkpoint.to_str().unwrap());
    session.run(&[(&saver.filename_tensor_name, &checkpoint)], &[], &[&saver.restore_op_name]).map(drop)
}
