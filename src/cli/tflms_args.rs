//! The parameters of TFLMS as flags.

use anyhow::Context;
use clap::Args;

use super::parse_size;
use crate::graph::Device;
use crate::pipeline;
use crate::plan::tflms::{LevelSlice, Mode, Parameters, SyncMode};
use crate::plan::{Filters, NameOrType};

/// The parameters of TFLMS.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "TFLMS parameters")]
pub struct TflmsArgs {
    /// Swap a tensor for consumers more than this many levels after its producer [default: 1]
    #[arg(long, value_name = "LEVELS")]
    pub swapout_threshold: Option<u32>,

    /// Start a swap-in at least this many levels before its first consumer [default: 1]
    #[arg(long, value_name = "LEVELS")]
    pub swapin_ahead: Option<u32>,

    /// Let consumers at most this many levels apart share a swap-in; 0: none share [default: 0]
    #[arg(long, value_name = "LEVELS")]
    pub swapin_groupby: Option<u32>,

    /// Synchronize with compute: 0 nothing, 1 swap-outs, 2 swap-ins, 3 both [default: 0]
    #[arg(long, value_name = "MODE", value_parser = parse_sync_mode)]
    pub sync_mode: Option<SyncMode>,

    /// Run the ops of these levels one after the other: indices or slices as in Python (3, 3:5, :7)
    #[arg(long, value_name = "LEVELS", value_delimiter = ',', allow_hyphen_values = true)]
    pub serialization: Vec<LevelSlice>,

    /// Run the ops of each level one after the other that together touch more than this
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub serialization_by_size: Option<u64>,

    /// Edit only ops on this GPU; may be given several times [default: all GPUs]
    #[arg(long = "gpu-device", value_name = "DEVICE")]
    pub gpu_devices: Vec<String>,

    /// Where swapped tensors go [default: /cpu:0, in the task of the tensor's producer]
    #[arg(long, value_name = "DEVICE")]
    pub host_device: Option<String>,

    /// The graph is run to predict, not to train
    #[arg(long)]
    pub inference: bool,

    #[command(flatten)]
    filters: FilterArgs,
}

/// The eight filters. Each takes a list, by commas.
#[derive(Debug, Clone, Default, Args)]
struct FilterArgs {
    /// Keep outputs of ops whose names begin so
    #[arg(long, value_name = "SCOPE,…", value_delimiter = ',')]
    excl_output_by_scopes: Vec<String>,
    /// Swap only outputs of ops whose names begin so
    #[arg(long, value_name = "SCOPE,…", value_delimiter = ',')]
    incl_output_by_scopes: Vec<String>,
    /// Keep outputs of ops of these types
    #[arg(long, value_name = "OP,…", value_delimiter = ',')]
    excl_output_by_types: Vec<String>,
    /// Swap only outputs of ops of these types
    #[arg(long, value_name = "OP,…", value_delimiter = ',')]
    incl_output_by_types: Vec<String>,
    /// Swap nothing in for ops whose names begin so
    #[arg(long, value_name = "SCOPE,…", value_delimiter = ',')]
    excl_input_by_scopes: Vec<String>,
    /// Swap in only for ops whose names begin so
    #[arg(long, value_name = "SCOPE,…", value_delimiter = ',')]
    incl_input_by_scopes: Vec<String>,
    /// Swap nothing in for ops of these types
    #[arg(long, value_name = "OP,…", value_delimiter = ',')]
    excl_input_by_types: Vec<String>,
    /// Swap in only for ops of these types
    #[arg(long, value_name = "OP,…", value_delimiter = ',')]
    incl_input_by_types: Vec<String>,
}

fn parse_sync_mode(text: &str) -> Result<SyncMode, String> {
    let mode: u8 = text.parse().map_err(|_| "expected 0, 1, 2 or 3".to_string())?;
    SyncMode::try_from(mode).map_err(|error| error.to_string())
}

impl TflmsArgs {
    /// Where tensors go when they leave.
    ///
    /// # Errors
    ///
    /// If that is no device's name.
    pub fn host(&self) -> anyhow::Result<Device> {
        pipeline::host_device(self.host_device.as_deref()).context("--host-device")
    }

    /// Whether none of the four main parameters was given.
    pub fn is_default(&self) -> bool {
        let given = [self.swapout_threshold, self.swapin_ahead, self.swapin_groupby];
        given.iter().all(Option::is_none) && self.sync_mode.is_none()
    }

    /// The parameters.
    pub fn parameters(&self) -> Parameters {
        let default = Parameters::default();
        let filters = &self.filters;
        let by = |scopes: &[String], types: &[String]| NameOrType {
            scopes: scopes.to_vec(),
            types: types.to_vec(),
        };
        Parameters {
            swapout_threshold: self.swapout_threshold.unwrap_or(default.swapout_threshold),
            swapin_ahead: self.swapin_ahead.unwrap_or(default.swapin_ahead),
            swapin_groupby: self.swapin_groupby.unwrap_or(default.swapin_groupby),
            sync_mode: self.sync_mode.unwrap_or(default.sync_mode),
            serialization: self.serialization.clone(),
            serialization_by_size: self.serialization_by_size,
            gpu_devices: self.gpu_devices.clone(),
            mode: if self.inference { Mode::Inference } else { Mode::Training },
            filters: Filters {
                exclude_output_by: by(&filters.excl_output_by_scopes, &filters.excl_output_by_types),
                include_output_by: by(&filters.incl_output_by_scopes, &filters.incl_output_by_types),
                exclude_input_by: by(&filters.excl_input_by_scopes, &filters.excl_input_by_types),
                include_input_by: by(&filters.incl_input_by_scopes, &filters.incl_input_by_types),
            },
        }
    }
}
