//! Finding the checkpoint to go on from.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A checkpoint of which all files are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// `PREFIX-STEP`, as TensorFlow names it.
    pub prefix: PathBuf,
    /// After how many steps it was written.
    pub step: u64,
    /// When its index was, if the file system says.
    pub written: Option<SystemTime>,
}

/// The step in a checkpoint's name, `PREFIX-STEP`.
fn checkpoint_step(prefix: &Path) -> Option<u64> {
    prefix.file_name()?.to_str()?.rsplit_once('-')?.1.parse().ok()
}

/// The whole checkpoint `PREFIX-STEP` of the latest step in a folder; none if there is none.
///
/// TensorFlow writes the data first and the index last, so one with an index and all of its data files is whole.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn newest(folder: &Path) -> io::Result<Option<Checkpoint>> {
    Ok(whole(folder)?.pop())
}

/// The whole checkpoint of this prefix, `PREFIX-STEP`; none if there is none.
///
/// # Errors
///
/// If its folder is there and cannot be read.
pub fn checkpoint_at(prefix: &Path) -> io::Result<Option<Checkpoint>> {
    let folder = prefix.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    match whole(folder) {
        Ok(all) => Ok(all.into_iter().find(|found| found.prefix.file_name() == prefix.file_name())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// All whole checkpoints `PREFIX-STEP` in a folder, by their steps.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn whole(folder: &Path) -> io::Result<Vec<Checkpoint>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    let prefixes = names.iter().filter_map(|name| name.strip_suffix(".index"));
    let mut found: Vec<Checkpoint> = prefixes
        .filter(|prefix| is_whole(folder, prefix, &names))
        .filter_map(|prefix| {
            let index = fs::metadata(folder.join(format!("{prefix}.index")));
            let written = index.and_then(|index| index.modified()).ok();
            let prefix = folder.join(prefix);
            Some(Checkpoint { step: checkpoint_step(&prefix)?, prefix, written })
        })
        .collect();
    found.sort_unstable_by(|a, b| (a.step, &a.prefix).cmp(&(b.step, &b.prefix)));
    Ok(found)
}

/// Whether all data files of a checkpoint are there, and none of them is empty, nor its index.
fn is_whole(folder: &Path, prefix: &str, names: &[String]) -> bool {
    let has_content = |name: &str| fs::metadata(folder.join(name)).is_ok_and(|metadata| metadata.len() > 0);
    let parts = names.iter().filter_map(|name| {
        let (_, number) = name.strip_prefix(prefix)?.strip_prefix(".data-")?.split_once("-of-")?;
        Some((name, number.parse::<usize>().ok()?))
    });
    let parts: Vec<(&String, usize)> = parts.collect();
    has_content(&format!("{prefix}.index"))
        && parts.first().is_some_and(|&(_, count)| parts.len() == count)
        && parts.iter().all(|(name, _)| has_content(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_whole_one_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| fs::write(folder.path().join(name), content).unwrap();
        assert_eq!(newest(folder.path()).unwrap(), None);
        for step in [9, 10] {
            write(&format!("m-{step}.index"), "x");
            write(&format!("m-{step}.data-00000-of-00001"), "x");
        }
        // The next were not written to their ends.
        write("m-11.data-00000-of-00001", "x");
        write("m-12.index", "x");
        write("m-13.index", "x");
        write("m-13.data-00000-of-00002", "x");
        write("m-14.index", "");
        write("m-14.data-00000-of-00001", "x");
        let found = newest(folder.path()).unwrap().unwrap();
        assert_eq!((found.prefix, found.step), (folder.path().join("m-10"), 10));
        let steps: Vec<u64> = whole(folder.path()).unwrap().iter().map(|one| one.step).collect();
        assert_eq!(steps, [9, 10]);
        assert!(newest(&folder.path().join("none")).is_err());
        let step_at = |name: &str| checkpoint_at(&folder.path().join(name)).unwrap().map(|found| found.step);
        // One whose data are not whole is none, nor one in a folder that is not there.
        assert_eq!((step_at("m-9"), step_at("m-13"), step_at("none/m-9")), (Some(9), None, None));
    }
}
