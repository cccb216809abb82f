//! Checkpoints, written and read by the graph's own saver.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tf_lms::format::write_file;
use tf_lms::runtime::{Session, Tensor};
use tf_lms::train::{Recipe, Saver, TrainError};

/// Gives the variables the values of a checkpoint.
pub fn restore(session: &Session, recipe: &Recipe, prefix: &Path) -> anyhow::Result<()> {
    let saver = recipe.saver.as_ref().ok_or(TrainError::NoSaver)?;
    let index = with_suffix(prefix, ".index");
    if !index.is_file() {
        bail!("{}: is no checkpoint (there is no {})", prefix.display(), index.display());
    }
    let (filename, prefix_tensor) = name_tensor(saver, prefix);
    session
        .run(&[(filename, &prefix_tensor)], &[], &[&saver.restore])
        .with_context(|| format!("{}: cannot be restored", prefix.display()))?;
    run(session, &recipe.copies.restored)?;
    run(session, &recipe.copies.dropped)?;
    Ok(())
}

/// Writes `PREFIX-STEP`, a new name each time, so that an interrupted write spoils no earlier one; then has TensorFlow's
/// file `checkpoint` name it.
pub fn save(session: &Session, recipe: &Recipe, prefix: &Path, step: u64) -> anyhow::Result<PathBuf> {
    let saver = recipe.saver.as_ref().ok_or(TrainError::NoSaver)?;
    if let Some(directory) = prefix.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    let path = with_suffix(prefix, &format!("-{step}"));
    let (filename, path_tensor) = name_tensor(saver, &path);
    run(session, &recipe.copies.saved)?;
    session
        .run(&[(filename, &path_tensor)], &[&saver.save], &[])
        .with_context(|| format!("{}: cannot be saved", path.display()))?;
    run(session, &recipe.copies.dropped)?;
    let name =
        path.file_name().unwrap_or_default().to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    let state = format!("model_checkpoint_path: \"{name}\"\nall_model_checkpoint_paths: \"{name}\"\n");
    write_file(&path.with_file_name("checkpoint"), state.as_bytes())?;
    Ok(path)
}

fn run(session: &Session, ops: &[String]) -> anyhow::Result<()> {
    let ops: Vec<&str> = ops.iter().map(String::as_str).collect();
    if !ops.is_empty() {
        session.run(&[], &[], &ops).context("moving values between variables and their copies")?;
    }
    Ok(())
}

fn name_tensor<'s>(saver: &'s Saver, prefix: &Path) -> (&'s str, Tensor) {
    (&saver.filename, Tensor::string(prefix.to_string_lossy().into_owned()))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
