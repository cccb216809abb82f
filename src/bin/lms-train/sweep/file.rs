//! The file that keeps a sweep's finished points, so that one that was broken off goes on from there.
//!
//! JSON, a document a line: first whose points they are, then a row each. A row is there or not: what was being written as the
//! program ended is dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tf_lms::cli::Failure;

use super::rows::Row;

/// The version of the file.
const SCHEMA: u32 = 1;

/// Whose points they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whose {
    schema: u32,
    /// The command line but for where its output goes.
    command: Vec<String>,
    /// Of the model, which may have changed under its name.
    graph_digest: String,
    gpu_mem_bytes: Vec<u64>,
}

impl Whose {
    pub fn new(command: Vec<String>, graph_digest: String, gpu_mem_bytes: Vec<u64>) -> Whose {
        Whose { schema: SCHEMA, command, graph_digest, gpu_mem_bytes }
    }
}

/// The file, to add rows to.
pub struct SweepFile {
    path: PathBuf,
    file: File,
}

impl SweepFile {
    /// Opens the file, or begins it. Returns the rows that it has.
    ///
    /// # Errors
    ///
    /// If it keeps another sweep, is no such file, or the operating system refuses.
    pub fn open(path: &Path, whose: &Whose) -> anyhow::Result<(SweepFile, Vec<Row>)> {
        let name = || path.display().to_string();
        let content = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            content => content.with_context(name)?,
        };
        // A line without an end was broken off.
        let whole = content.rfind('\n').map_or(0, |end| end + 1);
        let rows = match content[..whole].split_once('\n') {
            None if content.is_empty() || is_begun(&content) => Vec::new(),
            None => return Err(is_none(path)),
            Some((first, rows)) => {
                check(path, first, whose)?;
                let rows = rows.lines().enumerate().map(|(number, line)| {
                    serde_json::from_str(line).with_context(|| format!("{}: line {}", name(), number + 2))
                });
                rows.collect::<Result<_, _>>()?
            }
        };
        let file = OpenOptions::new().create(true).append(true).open(path).with_context(name)?;
        file.set_len(whole as u64).with_context(name)?;
        let mut file = SweepFile { path: path.to_path_buf(), file };
        if whole == 0 {
            file.add_line(whose)?;
        }
        Ok((file, rows))
    }

    /// Keeps a row.
    ///
    /// # Errors
    ///
    /// If the operating system refuses.
    pub fn add(&mut self, row: &Row) -> anyhow::Result<()> {
        self.add_line(row)
    }

    fn add_line(&mut self, document: &impl Serialize) -> anyhow::Result<()> {
        let line = serde_json::to_string(document)? + "\n";
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.with_context(|| self.path.display().to_string())
    }
}

/// Whether a text without a whole line is the beginning of a first line.
fn is_begun(content: &str) -> bool {
    let start = format!("{{\"schema\":{SCHEMA},\"command\":");
    start.starts_with(content) || content.starts_with(&start)
}

/// Nothing of somebody else's is written over.
fn is_none(path: &Path) -> anyhow::Error {
    Failure::Usage.error(format!("{}: is no file of a sweep; give another --sweep-file", path.display()))
}

fn check(path: &Path, first: &str, whose: &Whose) -> anyhow::Result<()> {
    let found: Whose = serde_json::from_str(first).map_err(|_| is_none(path))?;
    let differs = if found.schema != whose.schema {
        format!("is of version {}, not {}", found.schema, whose.schema)
    } else if found.command != whose.command {
        format!("keeps the points of another command: lms-train {}", found.command.join(" "))
    } else if found.graph_digest != whose.graph_digest {
        "keeps the points of another graph: the model has changed since".to_string()
    } else if found.gpu_mem_bytes != whose.gpu_mem_bytes {
        "keeps the points of a GPU with another memory".to_string()
    } else {
        return Ok(());
    };
    Err(Failure::Usage.error(format!(
        "{}: {differs}; give another --sweep-file, or remove this one to begin anew",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::super::rows::{Ending, Figures, Mode, Source};
    use super::*;

    fn whose(command: &str) -> Whose {
        Whose::new(vec![command.to_string()], "0".to_string(), vec![1 << 30])
    }

    fn row(size: u64) -> Row {
        // A number that a careless reader reads as its neighbour.
        let figures = Figures { step_seconds: 0.1 + 0.2 * size as f64, ..Figures::default() };
        let ending = Ending::trained(figures);
        Row { size, mode: Mode::WithoutLms, source: Source::Predicted, ending }
    }

    #[test]
    fn rows_are_there_again_and_broken_ones_are_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sweep.jsonl");
        let (mut file, rows) = SweepFile::open(&path, &whose("a")).unwrap();
        assert_eq!(rows, []);
        (1..=3).for_each(|size| file.add(&row(size)).unwrap());
        let whole = fs::read(&path).unwrap();
        let lines: Vec<usize> = (0..whole.len()).filter(|&at| whole[at] == b'\n').collect();
        for length in 0..=whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let (mut file, rows) = SweepFile::open(&path, &whose("a")).unwrap();
            let ended = lines.iter().filter(|&&at| at < length).count();
            assert_eq!(rows, (1..=3).map(row).take(ended.saturating_sub(1)).collect::<Vec<_>>());
            (rows.len() as u64 + 1..=3).for_each(|size| file.add(&row(size)).unwrap());
            assert!(fs::read(&path).unwrap() == whole, "broken off after {length} bytes");
        }
    }

    #[test]
    fn what_is_anothers_is_refused_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sweep.jsonl");
        let refused = |content: &str, whose: &Whose, says: &str| {
            fs::write(&path, content).unwrap();
            let error = SweepFile::open(&path, whose).err().unwrap();
            assert!(format!("{error:#}").contains(says), "{error:#}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        };
        let first = serde_json::to_string(&whose("a")).unwrap() + "\n";
        refused(&first, &whose("b"), "another command: lms-train a");
        refused(&first, &Whose { graph_digest: "1".to_string(), ..whose("a") }, "the model has changed");
        refused(&first, &Whose { gpu_mem_bytes: Vec::new(), ..whose("a") }, "another memory");
        refused(&first, &Whose { schema: 2, ..whose("a") }, "is of version 1, not 2");
        refused(&(first.clone() + "{}\n"), &whose("a"), "line 2");
        refused("a thesis", &whose("a"), "is no file of a sweep");
        refused("a thesis\nof two lines\n", &whose("a"), "is no file of a sweep");
    }
}
