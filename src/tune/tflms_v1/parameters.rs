//! The parameters of TFLMS 1, under its names.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::graph::DeviceError;
use crate::plan::Filters;

/// What TFLMS 1 could be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// How many tensors leave, counted from where the walk begins; -1: all that it reaches.
    pub n_tensors: i64,
    /// At least so many ops ahead of its reader, in the order of the backward phase, a tensor starts to come back.
    pub lb: u32,
    /// At most so many.
    pub ub: u32,
    /// Beginnings of the names of backward ops; none: those in a scope that TensorFlow makes for gradients.
    pub optimizer_scopes: Vec<String>,
    /// Beginnings of the names of the ops where the walk begins; none: they are looked for.
    pub starting_scopes: Vec<String>,
    /// Whether tensors leave that only ops of the forward phase read late.
    pub swap_branches: bool,
    /// How much later than the first of them, in the order of the forward phase.
    pub branch_threshold: u32,
    /// Whether all readers share one copy back.
    pub fuse_swapins: bool,
    /// Whether a trigger is looked for in the order of ops alone, and not over the forward ops that come next.
    pub direct_order: bool,
    /// The only GPUs to edit; none means all.
    pub gpu_devices: Vec<String>,
    /// Which ops take part.
    pub filters: Filters,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            n_tensors: ALL,
            lb: 1,
            ub: 10_000,
            optimizer_scopes: Vec::new(),
            starting_scopes: Vec::new(),
            swap_branches: false,
            branch_threshold: 0,
            fuse_swapins: false,
            direct_order: false,
            gpu_devices: Vec::new(),
            filters: Filters::default(),
        }
    }
}

/// The number of tensors that stands for all.
pub(super) const ALL: i64 = -1;

/// Why the strategy of TFLMS 1 cannot plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TflmsV1Error {
    /// A parameter that is none, or has a value of another kind.
    #[error("a parameter of TFLMS 1: {0}")]
    Parameter(#[source] serde_json::Error),
    /// Less than no tensor.
    #[error("n-tensors is -1 for all tensors, or 0 or more, not {0}")]
    Tensors(i64),
    /// No op is so far ahead and so near.
    #[error("lb {lb} is above ub {ub}: no op is at least {lb} and at most {ub} ahead of a reader")]
    Bounds {
        /// The lower bound.
        lb: u32,
        /// The upper one.
        ub: u32,
    },
    /// A GPU that is none.
    #[error("a GPU to edit: {0}")]
    Device(#[from] DeviceError),
    /// It is not known which ops are those of the backward phase.
    #[error(
        "no op is in a scope of {}: name the backward ops' with --optimizer-scopes, as in --optimizer-scopes train/gradients",
        if scopes.is_empty() { "gradients".to_string() } else { scopes.join(" or ") }
    )]
    NoBackwardOps {
        /// The scopes that were given.
        scopes: Vec<String>,
    },
    /// The walk has nowhere to begin.
    #[error("no op is in a scope of {}, where the walk was to begin (--starting-scopes)", scopes.join(" or "))]
    NoStart {
        /// The scopes that were given.
        scopes: Vec<String>,
    },
}

impl Parameters {
    /// Those that were given, by name; the others as TFLMS 1 has them.
    ///
    /// # Errors
    ///
    /// If one is unknown, or cannot be, or two do not go together.
    pub fn given(given: Map<String, Value>) -> Result<Parameters, TflmsV1Error> {
        let parameters: Parameters =
            serde_json::from_value(Value::Object(given)).map_err(TflmsV1Error::Parameter)?;
        parameters.checked()
    }

    /// The same, if there can be such.
    pub(super) fn checked(self) -> Result<Parameters, TflmsV1Error> {
        let Parameters { n_tensors, lb, ub, .. } = self;
        if n_tensors < ALL {
            return Err(TflmsV1Error::Tensors(n_tensors));
        }
        if lb > ub {
            return Err(TflmsV1Error::Bounds { lb, ub });
        }
        Ok(self)
    }
}
