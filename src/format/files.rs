//! Where models come from and go to: files, SavedModel directories, standard input and output.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{FormatError, Kind, Model, ReadOptions, Rope};

/// The graph's file in a SavedModel directory, binary and text.
const SAVED_MODEL_FILES: [&str; 2] = ["saved_model.pb", "saved_model.pbtxt"];

/// TensorFlow's digest of `saved_model.pb`, which a rewritten graph no longer has.
const FINGERPRINT: &str = "fingerprint.pb";

/// Where a model is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Standard input, given as `-`.
    Stdin,
    /// A file or a SavedModel directory.
    Path(PathBuf),
}

impl From<&OsStr> for Source {
    fn from(argument: &OsStr) -> Source {
        if argument == "-" { Source::Stdin } else { Source::Path(PathBuf::from(argument)) }
    }
}

impl Source {
    /// What messages call it.
    pub fn name(&self) -> String {
        match self {
            Source::Stdin => "standard input".to_string(),
            Source::Path(path) => path.display().to_string(),
        }
    }

    /// Reads the model.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not one of the formats.
    pub fn read(&self, options: &ReadOptions) -> Result<Model, FormatError> {
        let name = self.name();
        let failed = |source| FormatError::Read { name: name.clone(), source };
        let content = match self {
            Source::Stdin => {
                let mut content = Vec::new();
                io::stdin().lock().read_to_end(&mut content).map_err(failed)?;
                content
            }
            Source::Path(path) if path.is_dir() => {
                let file =
                    graph_file(path).ok_or_else(|| FormatError::NoSavedModel { name: name.clone() })?;
                fs::read(file).map_err(failed)?
            }
            Source::Path(path) => fs::read(path).map_err(failed)?,
        };
        let model = Model::from_bytes(&name, content, options)?;
        if self.directory().is_some() && model.kind() != Kind::SavedModel {
            return Err(FormatError::Unrecognized {
                name,
                why: format!("its saved_model file holds a {}", model.kind()),
            });
        }
        Ok(model)
    }

    /// The SavedModel directory, if it is one.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Source::Path(path) if path.is_dir() => Some(path),
            _ => None,
        }
    }
}

fn graph_file(directory: &Path) -> Option<PathBuf> {
    SAVED_MODEL_FILES.iter().map(|file| directory.join(file)).find(|file| file.is_file())
}

/// Where a model is written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Standard output, given as `-`.
    Stdout,
    /// A file, or a directory if the model came from a SavedModel directory.
    Path(PathBuf),
}

impl From<&OsStr> for Destination {
    fn from(argument: &OsStr) -> Destination {
        if argument == "-" { Destination::Stdout } else { Destination::Path(PathBuf::from(argument)) }
    }
}

/// What writing did besides writing the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Whether a `fingerprint.pb` that no longer matches was left out.
    pub dropped_fingerprint: bool,
}

impl Destination {
    /// What messages and reports call it.
    pub fn name(&self) -> String {
        match self {
            Destination::Stdout => "-".to_string(),
            Destination::Path(path) => path.display().to_string(),
        }
    }

    /// Writes a model that was made from `source`: the whole file or, on an error, nothing.
    ///
    /// From a SavedModel directory comes a directory with everything else copied.
    ///
    /// # Errors
    ///
    /// If the operating system refuses.
    pub fn write(&self, content: &Rope, source: &Source) -> Result<Written, FormatError> {
        match self {
            Destination::Stdout => {
                let mut out = io::stdout().lock();
                content.write_to(&mut out).and_then(|()| out.flush()).map_err(write_error(Path::new("-")))?;
                Ok(Written::default())
            }
            Destination::Path(path) => match source.directory() {
                Some(directory) => write_directory(path, content, directory),
                None => put_file(path, |file| content.write_to(file)).map(|()| Written::default()),
            },
        }
    }
}

fn write_error(path: &Path) -> impl Fn(io::Error) -> FormatError + use<> {
    let path = path.to_path_buf();
    move |source| FormatError::Write { path: path.clone(), source }
}

/// The folder that a path is in.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes a file: puts it in its place by renaming, so that nobody ever sees half of it.
///
/// # Errors
///
/// If the operating system refuses.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), FormatError> {
    put_file(path, |file| file.write_all(content))
}

fn put_file(path: &Path, write: impl Fn(&mut dyn Write) -> io::Result<()>) -> Result<(), FormatError> {
    let failed = write_error(path);
    // A link is followed; a device or pipe cannot be replaced and is written to.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if let Ok(existing) = fs::metadata(path)
        && !existing.is_file()
    {
        let mut file = fs::OpenOptions::new().write(true).open(path).map_err(&failed)?;
        return write(&mut file).map_err(&failed);
    }
    let permissions = fs::metadata(path).map_or(fs::Permissions::from_mode(0o666), |m| m.permissions());
    let mut file = tempfile::Builder::new()
        .prefix(".tf-lms-")
        .permissions(permissions)
        .tempfile_in(parent(path))
        .map_err(&failed)?;
    write(&mut file).map_err(&failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

fn write_directory(path: &Path, content: &Rope, source: &Path) -> Result<Written, FormatError> {
    let failed = write_error(path);
    let graph_file =
        graph_file(source).ok_or_else(|| FormatError::NoSavedModel { name: source.display().to_string() })?;
    let is_changed = || !is_content(&graph_file, content);
    let dropped_fingerprint = source.join(FINGERPRINT).is_file() && is_changed();
    let written = Written { dropped_fingerprint };
    if path.exists() && fs::canonicalize(path).ok() == fs::canonicalize(source).ok() {
        put_file(&graph_file, |file| content.write_to(file))?;
        if dropped_fingerprint {
            fs::remove_file(source.join(FINGERPRINT)).map_err(&failed)?;
        }
        return Ok(written);
    }
    let replaces = match fs::read_dir(path) {
        Err(_) if !path.exists() => false,
        Err(error) => return Err(failed(error)),
        Ok(_) if self::graph_file(path).is_some() => true,
        Ok(mut entries) => match entries.next() {
            None => true,
            Some(_) => {
                return Err(failed(io::Error::other("the directory is not empty and holds no SavedModel")));
            }
        },
    };
    let staged = tempfile::Builder::new()
        .prefix(".tf-lms-")
        .permissions(fs::Permissions::from_mode(0o777))
        .tempdir_in(parent(path))
        .map_err(&failed)?;
    let mut skipped = vec![graph_file.clone()];
    skipped.extend(dropped_fingerprint.then(|| source.join(FINGERPRINT)));
    copy_directory(source, staged.path(), &skipped).map_err(&failed)?;
    let file_name = graph_file.file_name().unwrap_or_default();
    let mut file = fs::File::create(staged.path().join(file_name)).map_err(&failed)?;
    content.write_to(&mut file).map_err(&failed)?;
    if replaces {
        let old = tempfile::Builder::new().prefix(".tf-lms-").tempdir_in(parent(path)).map_err(&failed)?;
        fs::rename(path, old.path().join("old")).map_err(&failed)?;
    }
    fs::rename(staged.keep(), path).map_err(&failed)?;
    Ok(written)
}

/// Whether a file has this content.
fn is_content(path: &Path, content: &Rope) -> bool {
    let is_as_long = fs::metadata(path).is_ok_and(|known| known.len() == content.len());
    is_as_long && fs::read(path).is_ok_and(|known| known == content.to_vec())
}

fn copy_directory(from: &Path, to: &Path, skipped: &[PathBuf]) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            fs::create_dir(&target)?;
            copy_directory(&path, &target, skipped)?;
        } else if !skipped.contains(&path) {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}
