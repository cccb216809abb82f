//! What the script that exported a model wrote about it: `testdata/README.md` explains it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tf_lms::format::{Model, ReadOptions, Source};

/// What is known of an exported model.
#[derive(Debug, Clone, Deserialize)]
pub struct Manifest {
    #[serde(alias = "meta")]
    pub file: String,
    pub inputs: Vec<Input>,
    /// The op that trains; none where fetching the loss does.
    pub train_op: Option<String>,
    /// The op that initializes the variables; none where they are restored.
    pub init_op: Option<String>,
    pub loss: String,
    /// The steps that are run in turn, where there are several.
    #[serde(default)]
    turns: Vec<Turn>,
    pub reference: Option<Reference>,
    /// Where this manifest is, beside the model.
    #[serde(skip)]
    pub own_path: PathBuf,
}

/// One of the steps of a model.
#[derive(Debug, Clone, Deserialize)]
pub struct Turn {
    pub train_op: Option<String>,
    pub loss: String,
}

/// A placeholder, and what to feed it.
#[derive(Debug, Clone, Deserialize)]
pub struct Input {
    pub name: String,
    pub dtype: String,
    pub feed_shape: Vec<i64>,
    #[serde(flatten)]
    pub kind: Kind,
}

/// The values of a feed.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Kind {
    Normal,
    Int {
        #[serde(default)]
        lo: i64,
        hi: i64,
    },
    Const {
        value: f64,
    },
    Bool {
        cycle: Vec<bool>,
    },
    True,
    Onehot,
    Binary,
}

/// The losses of the first steps, as recorded when the model was exported.
#[derive(Debug, Clone, Deserialize)]
pub struct Reference {
    pub feed_seed: u64,
    pub environment: BTreeMap<String, String>,
    pub losses: Vec<f32>,
    pub loss_bits: Vec<String>,
}

impl Reference {
    /// The bits of the losses.
    pub fn bits(&self) -> Vec<u32> {
        self.loss_bits.iter().map(|bits| u32::from_str_radix(bits, 16).unwrap()).collect()
    }
}

fn testdata() -> PathBuf {
    crate::project().join("testdata")
}

impl Manifest {
    /// The names of all models in `testdata`.
    pub fn names() -> Vec<String> {
        let files = fs::read_dir(testdata()).unwrap().map(|entry| entry.unwrap().path());
        let manifests = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let mut names: Vec<_> =
            manifests.map(|path| path.file_stem().unwrap().to_str().unwrap().to_string()).collect();
        names.sort();
        names
    }

    /// The manifest of a model in `testdata`.
    pub fn of(name: &str) -> Manifest {
        Manifest::at(&testdata().join(format!("{name}.json")))
    }

    /// The manifest at a path.
    pub fn at(path: &Path) -> Manifest {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let manifest: Result<Manifest, _> = serde_json::from_str(&text);
        let mut manifest = manifest.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        manifest.own_path = path.to_path_buf();
        manifest
    }

    /// The steps that are run in turn: usually one.
    pub fn turns(&self) -> Vec<Turn> {
        let only = || vec![Turn { train_op: self.train_op.clone(), loss: self.loss.clone() }];
        if self.turns.is_empty() { only() } else { self.turns.clone() }
    }

    /// Where the model is.
    pub fn path(&self) -> PathBuf {
        self.own_path.with_file_name(&self.file)
    }

    /// The model.
    pub fn model(&self) -> Model {
        Source::Path(self.path()).read(&ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"))
    }
}
