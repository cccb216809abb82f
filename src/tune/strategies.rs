//! The strategies that a command line or a [`crate::Budget`] can name.

use serde_json::{Map, Value};

use super::{Description, Progress, Strategy, StrategyError, planned, tflms, tflms_v1};
use crate::plan::tflms::Parameters;

/// A strategy that can be chosen by its name.
#[derive(Debug)]
pub struct Entry {
    /// What there is to know of it.
    pub description: &'static Description,
    /// Makes it.
    pub make: fn(Setup) -> Result<Box<dyn Strategy>, StrategyError>,
}

/// All there are. Where nobody chooses, the first counts that can what is asked for: see [`automatic`].
pub static STRATEGIES: [Entry; 3] = [
    Entry { description: &planned::DESCRIPTION, make: planned::make },
    Entry { description: &tflms::DESCRIPTION, make: tflms::make },
    Entry { description: &tflms_v1::DESCRIPTION, make: tflms_v1::make },
];

/// What a strategy is made of: all that a user may have said. Each takes what it knows.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// What the user decided on recomputation, weights and effort.
    pub settings: planned::Settings,
    /// Filters, devices and the mode, which count for every strategy, and the thresholds of TFLMSv2.
    pub fixed: Parameters,
    /// The strategy's own parameters ([`Description::parameters`]) that were given, by name.
    pub own: Map<String, Value>,
    /// How far the search has come.
    pub progress: Progress,
}

/// The strategy of this name; none if there is none.
pub fn entry(name: &str) -> Option<&'static Entry> {
    STRATEGIES.iter().find(|entry| entry.description.name == name)
}

/// The first strategy that can do what is asked for; where none can, the first one, which says why.
pub fn automatic(is_able: impl Fn(&Description) -> bool) -> &'static Entry {
    STRATEGIES.iter().find(|entry| is_able(entry.description)).unwrap_or(&STRATEGIES[0])
}

/// The names of the strategies that can do something: `planned`, or `planned and mine`.
pub fn able(is_able: impl Fn(&Description) -> bool) -> String {
    let able = STRATEGIES.iter().map(|entry| entry.description).filter(|description| is_able(description));
    able.map(|description| description.name).collect::<Vec<_>>().join(" and ")
}
