//! Where TensorFlow may be.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::LookedAt;

/// The variable by which a user names a TensorFlow.
pub(super) const VARIABLE: &str = "LMS_TENSORFLOW";

/// The files that have the C API: first that of a Python package, then that of a C archive.
#[cfg(not(target_os = "macos"))]
const LIBRARIES: [&str; 3] = ["libtensorflow_cc.so.2", "libtensorflow.so.2", "libtensorflow.so"];
#[cfg(target_os = "macos")]
const LIBRARIES: [&str; 3] = ["libtensorflow_cc.2.dylib", "libtensorflow.2.dylib", "libtensorflow.dylib"];

/// Prints where Python would import TensorFlow from, without the time that importing it takes.
const ASK_PYTHON: &str = "\
import importlib.util, sys
sys.path = [path for path in sys.path if path]
spec = importlib.util.find_spec('tensorflow')
for path in spec.submodule_search_locations if spec else []:
    print(path)
";

/// A place to look at: what to call it, and the directories or files that it stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub name: String,
    pub paths: Result<Vec<PathBuf>, String>,
}

impl Place {
    fn new(name: impl Into<String>, paths: Result<Vec<PathBuf>, String>) -> Place {
        Place { name: name.into(), paths }
    }

    /// The place that an environment variable names.
    fn of_variable(variable: &str, value: Option<OsString>) -> Place {
        match value.filter(|value| !value.is_empty()) {
            Some(value) => {
                let path = PathBuf::from(value);
                Place::new(format!("${variable} ({})", path.display()), Ok(vec![path]))
            }
            None => Place::new(format!("${variable}"), Err("not set".to_string())),
        }
    }

    /// The library at this place.
    pub fn library(&self) -> Result<PathBuf, LookedAt> {
        let found = match &self.paths {
            Err(reason) => reason.clone(),
            Ok(paths) => match paths.iter().find_map(|path| library_at(path)) {
                Some(library) => return Ok(library),
                None => self.explain(paths),
            },
        };
        Err(LookedAt { place: self.name.clone(), found })
    }

    fn explain(&self, paths: &[PathBuf]) -> String {
        paths.iter().map(|path| what_is_at(path)).next().unwrap_or_else(|| "no such directory".to_string())
    }
}

/// Why there is no library at a path.
pub(super) fn what_is_at(path: &Path) -> String {
    if !path.exists() {
        return "does not exist".to_string();
    }
    match packages_at(path).into_iter().find(|package| package.join("__init__.py").is_file()) {
        Some(package) => format!(
            "{} is a Python package without {}, so it is too old or not the official one",
            package.display(),
            LIBRARIES[0]
        ),
        None => format!("no {}", LIBRARIES.join(", ")),
    }
}

/// The library that a file is or a directory holds.
pub(super) fn library_at(path: &Path) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path.to_path_buf());
    }
    let mut directories = vec![path.to_path_buf(), path.join("lib")];
    directories.extend(packages_at(path));
    let mut files = directories.iter().flat_map(|directory| LIBRARIES.map(|name| directory.join(name)));
    files.find(|file| file.is_file())
}

/// Where the Python package is if `path` is the package, a directory of packages or a Python environment.
fn packages_at(path: &Path) -> Vec<PathBuf> {
    let mut packages = vec![path.to_path_buf(), path.join("tensorflow")];
    for lib in ["lib", "lib64"] {
        let Ok(entries) = path.join(lib).read_dir() else { continue };
        let names = entries.flatten().map(|entry| entry.path());
        let pythons = names.filter(|name| {
            name.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("python"))
        });
        let mut pythons: Vec<_> = pythons.collect();
        pythons.sort();
        packages.extend(pythons.iter().rev().map(|python| python.join("site-packages/tensorflow")));
    }
    packages
}

/// All places where an installed TensorFlow may be, best first.
///
/// They come one by one, because asking Python takes time.
pub(super) fn places() -> impl Iterator<Item = Place> {
    let cheap = [
        || Place::of_variable("VIRTUAL_ENV", std::env::var_os("VIRTUAL_ENV")),
        || Place::new(".venv in the working directory", Ok(vec![PathBuf::from(".venv")])),
        || python("python3"),
        || python("python"),
        || Place::new("$LD_LIBRARY_PATH", library_path()),
        system,
    ];
    cheap.into_iter().map(|place| place())
}

/// The directories in which the dynamic linker would look.
fn library_path() -> Result<Vec<PathBuf>, String> {
    let value = std::env::var_os("LD_LIBRARY_PATH").ok_or("not set")?;
    Ok(std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect())
}

/// The directories in which a C archive is usually unpacked.
fn system() -> Place {
    const DIRECTORIES: [&str; 4] =
        ["/usr/local/lib", "/usr/local/lib/libtensorflow", "/usr/lib", "/usr/lib/x86_64-linux-gnu"];
    let paths = DIRECTORIES.iter().map(PathBuf::from).filter(|path| path.is_dir()).collect();
    Place::new("the libraries of the system (/usr/local/lib, /usr/lib)", Ok(paths))
}

/// Where a Python finds TensorFlow.
fn python(command: &str) -> Place {
    Place::new(format!("the packages of `{command}`"), ask_python(command))
}

fn ask_python(command: &str) -> Result<Vec<PathBuf>, String> {
    let output = Command::new(command)
        .args(["-c", ASK_PYTHON])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot be run: {error}"))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        let last = message.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
        return Err(format!("{}: {}", output.status, last.trim()));
    }
    let paths: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect();
    if paths.is_empty() { Err("no package called tensorflow".to_string()) } else { Ok(paths) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn put(path: &Path) -> PathBuf {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        path.to_path_buf()
    }

    #[test]
    fn a_library_is_found_in_every_kind_of_directory() {
        let root = tempfile::tempdir().unwrap();
        let environment = root.path().join("environment");
        let packages = environment.join("lib/python3.11/site-packages");
        let wheel = put(&packages.join("tensorflow").join(LIBRARIES[0]));
        for path in [&wheel, &packages.join("tensorflow"), &packages, &environment] {
            assert_eq!(library_at(path).as_ref(), Some(&wheel), "{}", path.display());
        }
        let archive = root.path().join("archive");
        let library = put(&archive.join("lib").join(LIBRARIES[1]));
        for path in [&library, &archive.join("lib"), &archive] {
            assert_eq!(library_at(path).as_ref(), Some(&library), "{}", path.display());
        }
    }

    #[test]
    fn the_newest_python_of_an_environment_comes_first() {
        let root = tempfile::tempdir().unwrap();
        let library = |python: &str| {
            put(&root.path().join(format!("lib/{python}/site-packages/tensorflow")).join(LIBRARIES[0]))
        };
        library("python3.10");
        let newest = library("python3.12");
        assert_eq!(library_at(root.path()), Some(newest));
    }

    #[test]
    fn what_is_missing_is_said() {
        let root = tempfile::tempdir().unwrap();
        let missing = root.path().join("missing");
        let look =
            |path: &Path| Place::new("here", Ok(vec![path.to_path_buf()])).library().unwrap_err().to_string();
        assert_eq!(look(&missing), "here: does not exist");
        assert!(look(root.path()).starts_with("here: no libtensorflow"), "{}", look(root.path()));
        put(&root.path().join("tensorflow/__init__.py"));
        assert!(look(root.path()).contains("is a Python package without"), "{}", look(root.path()));
        assert_eq!(Place::of_variable("LMS_X", None).library().unwrap_err().to_string(), "$LMS_X: not set");
    }

    #[test]
    fn a_python_that_is_not_there_is_no_panic() {
        assert!(ask_python("no-such-python").unwrap_err().starts_with("cannot be run"));
        assert!(ask_python("false").unwrap_err().contains("no message"));
    }
}
