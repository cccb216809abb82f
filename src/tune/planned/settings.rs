//! What a user may decide.

use std::num::NonZero;

use serde::{Deserialize, Serialize};

/// What a user may decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Whether ops may run a second time.
    pub recompute: bool,
    /// Whether weights may go to the host, to be copied to the GPU in each step.
    pub swap_weights: bool,
    /// For how long, on an ordinary core, plans are improved. It is counted in simulated ops, so that the same is found again.
    pub effort_seconds: f64,
    /// On how many threads plans are tried; on as many as the machine has cores if that is not said. It changes no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<NonZero<usize>>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { recompute: true, swap_weights: false, effort_seconds: 1.0, threads: None }
    }
}
