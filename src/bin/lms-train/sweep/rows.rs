//! What is kept of a sweep: a row for each point.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

/// One point of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub size: u64,
    pub mode: Mode,
    pub source: Source,
    #[serde(flatten)]
    pub ending: Ending,
}

/// Which way of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The graph as it is.
    WithoutLms,
    /// As TensorFlow's own memory optimizer rewrites it.
    ByGrappler,
    /// With the plan that the tuner finds.
    WithLms,
}

/// Who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Measured,
    Predicted,
}

/// How a point ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    pub outcome: Outcome,
    /// What was said of an outcome other than `trained`.
    pub message: Option<String>,
    /// What `trained` came to.
    pub figures: Option<Figures>,
}

/// What came of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Trained,
    /// Memory ran out as it ran.
    OutOfMemory,
    /// No plan was found to run it with.
    DoesNotFit,
    /// Something else ended it.
    Crashed,
}

/// What a step took; empty where nobody knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub step_seconds: f64,
    pub out_bytes: Option<u64>,
    pub in_bytes: Option<u64>,
    /// How long bytes went over the link, both directions added.
    pub copy_seconds: Option<f64>,
    /// How long the busier direction of the link was busy; of a real GPU, how long either was.
    pub link_seconds: Option<f64>,
    pub compute_seconds: Option<f64>,
    pub peak_bytes: Option<u64>,
}

impl Ending {
    pub fn trained(figures: Figures) -> Ending {
        Ending { outcome: Outcome::Trained, message: None, figures: Some(figures) }
    }

    pub fn other(outcome: Outcome, message: impl Into<String>) -> Ending {
        Ending { outcome, message: Some(message.into()), figures: None }
    }

    /// Whether memory was what was lacking.
    pub fn lacks_memory(&self) -> bool {
        matches!(self.outcome, Outcome::OutOfMemory | Outcome::DoesNotFit)
    }
}

impl Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::WithoutLms => "without LMS",
            Mode::ByGrappler => "by Grappler",
            Mode::WithLms => "with LMS",
        })
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Trained => "trained",
            Outcome::OutOfMemory => "out of memory",
            Outcome::DoesNotFit => "does not fit",
            Outcome::Crashed => "crashed",
        })
    }
}
