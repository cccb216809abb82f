//! Finding the checkpoint to go on from.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The newest whole checkpoint `PREFIX-STEP` in a folder, and its step; none if there is none.
///
/// TensorFlow writes the data first and the index last, so one with an index and all of its data files is whole.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn newest(folder: &Path) -> io::Result<Option<(PathBuf, u64)>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    let step = |name: &str| name.strip_suffix(".index")?.rsplit_once('-')?.1.parse::<u64>().ok();
    let mut found: Vec<(u64, &str)> =
        names.iter().filter_map(|name| Some((step(name)?, name.strip_suffix(".index")?))).collect();
    found.sort_unstable();
    let whole = found.into_iter().rev().find(|(_, prefix)| is_whole(folder, prefix, &names));
    Ok(whole.map(|(step, prefix)| (folder.join(prefix), step)))
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
        assert_eq!(newest(folder.path()).unwrap(), Some((folder.path().join("m-10"), 10)));
        assert!(newest(&folder.path().join("none")).is_err());
    }
}
