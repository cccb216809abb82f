//! Plans: what leaves the GPU, what comes back for whom, and what waits for whom.
//!
//! A [`Plan`] is plain data with names in it, not numbers, so it can be read, kept, compared, and carried to
//! another machine. Strategies make plans; the rewrite carries them out and knows nothing else.

mod accumulators;
mod analysis;
mod data_parallel;
mod digest;
mod draft;
mod eligible;
mod filters;
mod idle;
mod joined;
mod recomputable;
mod ref_variables;
pub mod tflms;
mod traffic;
mod weights;
mod without;

use serde::{Deserialize, Serialize};

pub use accumulators::{Accumulator, accumulators, begins_accumulator, keeps_elements};
pub use analysis::{Analysis, Iterations};
pub use data_parallel::{
    BARRIER, BROADCAST, COUNT, Collective, DataParallel, Gathered, MEAN_LOSS, RANK, ReduceOn, Reduced,
    SET_COUNT, WORKERS,
};
pub use digest::graph_digest;
pub use draft::{Draft, NodeOrder, OpRecomputation, TensorSwap, TensorUse, UnknownName};
pub use eligible::{NotSwappable, movable, returnable, swappable};
pub use filters::{Filters, NameOrType, Refusal};
pub use idle::{idle_ops, without_idle};
pub use joined::joined;
pub use recomputable::{NotRecomputable, recomputable};
pub use ref_variables::guard as guard_ref_variables;
pub use traffic::{Traffic, traffic};
pub use weights::{Weight, computes_nothing, weights};
pub use without::{without_tensor, without_tensors};

/// The version of the plan format that this library writes and reads.
pub const PLAN_SCHEMA: u32 = 5;

/// The version of plans for one worker.
const SCHEMA_FOR_ONE: u32 = 4;

/// The first version, which knew no recomputation, as the second knew no initial values, the third no ops on the host, and the fourth no
/// several workers; all of it still means the same.
const FIRST_SCHEMA: u32 = 1;

/// What to change in a graph so that it needs less memory on its GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The version of the format: [`PLAN_SCHEMA`], or the one before for a single worker.
    pub schema: u32,
    /// Which graph the plan is for.
    pub graph: GraphIdentity,
    /// Which strategy made the plan.
    pub strategy: String,
    /// The strategy's parameters.
    pub parameters: serde_json::Value,
    /// Where tensors go when they leave: a CPU device. Parts that it does not name are those of the tensor's producer.
    pub host_device: String,
    /// The tensors that leave, and those of the host that come when they are needed.
    pub swaps: Vec<Swap>,
    /// Ops that must run one after the other.
    pub orders: Vec<Order>,
    /// Ops that run a second time. One may read another that stands before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recomputations: Vec<Recomputation>,
    /// Values that variables begin with, which go by way of the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initial_values: Vec<InitialValue>,
    /// Ops that go to the host, device and all: what keeps weights, with what assigns and reads these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_ops: Vec<String>,
    /// What has the graph train on several workers. All else is then for the graph in which that has been carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_parallel: Option<DataParallel>,
}

/// Which graph a plan is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphIdentity {
    /// How many nodes it has.
    pub nodes: usize,
    /// [`graph_digest`] of it.
    pub digest: String,
    /// The function that it is the body of, made flat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
}

/// A constant, or a value that several variables begin with, that goes to a variable by way of the host.
///
/// Otherwise the variable shares the value's memory until its first update, which then takes memory of its own for it: for good, and
/// in the midst of the first step's tensors. However small, it splits the pool there. A copy is the variable's own
/// before the first step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitialValue {
    /// The value, `node:output`.
    pub tensor: String,
    /// The op that gives it to the variable, and reads the copy instead.
    pub assign: String,
}

/// A tensor that leaves, or one of the host's that comes when it is needed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Swap {
    /// The tensor, `node:output`.
    pub tensor: String,
    /// Its size, if it is known.
    pub bytes: Option<u64>,
    /// Ops that wait until the copy to the host is complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
    /// The times that it comes back.
    pub swap_ins: Vec<SwapIn>,
}

/// A tensor's return, for some of its consumers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SwapIn {
    /// The ops that read the copy that comes back in place of the tensor, in all inputs that read it.
    pub consumers: Vec<String>,
    /// The ops that must have run before the copy to the GPU starts.
    pub triggers: Vec<String>,
}

/// An op that runs a second time, so that what it made need not be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recomputation {
    /// The op.
    pub op: String,
    /// The ops that must have run before it runs again.
    pub triggers: Vec<String>,
    /// Those of its inputs that it reads from elsewhere the second time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<RecomputationInput>,
    /// Who reads what it makes the second time.
    pub outputs: Vec<RecomputationOutput>,
}

/// An input of an op that runs a second time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecomputationInput {
    /// What the op read the first time, `node:output`.
    pub tensor: String,
    /// Where it gets the same from the second time.
    pub from: Substitute,
}

/// An output of an op that runs a second time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecomputationOutput {
    /// The output, `node:output`.
    pub tensor: String,
    /// The ops of the graph that read it in place of what was made the first time, in all inputs that read that.
    pub consumers: Vec<String>,
}

/// What holds the same as a tensor of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Substitute {
    /// A return of the tensor, counted from 0 among its swap's.
    SwapIn(u32),
    /// A second run of the op that made it, counted from 0 among the plan's.
    Recomputation(u32),
}

/// An op that must run after another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The op that runs first.
    pub before: String,
    /// The op that runs second.
    pub after: String,
    /// What for.
    pub reason: OrderReason,
}

/// Why two ops run in a certain order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderReason {
    /// The ops of one level, one after the other.
    Serialization,
    /// A ref variable is read before it is updated, although the reader now waits for a swap-in.
    RefVariable,
    /// In the other order the step would need more memory than it has.
    Budget,
}

/// A plan that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Not a plan.
    #[error("{name}: is no plan")]
    Syntax {
        /// The file.
        name: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A plan of another version.
    #[error(
        "{name}: the plan has schema {found}, but this version reads schema {FIRST_SCHEMA} to {PLAN_SCHEMA}"
    )]
    Schema {
        /// The file.
        name: String,
        /// The plan's.
        found: u32,
    },
}

impl Plan {
    /// A plan that changes nothing.
    pub fn new(analysis: &Analysis, strategy: &str, host_device: &str) -> Plan {
        Plan {
            schema: SCHEMA_FOR_ONE,
            graph: GraphIdentity {
                nodes: analysis.graph.len(),
                digest: graph_digest(analysis.graph),
                function: analysis.function.clone(),
            },
            strategy: strategy.to_string(),
            parameters: serde_json::Value::Null,
            host_device: host_device.to_string(),
            swaps: Vec::new(),
            orders: Vec::new(),
            recomputations: Vec::new(),
            initial_values: Vec::new(),
            host_ops: Vec::new(),
            data_parallel: None,
        }
    }

    /// The same plan for a graph in which this was carried out first.
    #[must_use]
    pub fn with_data_parallel(self, data_parallel: DataParallel) -> Plan {
        Plan { schema: PLAN_SCHEMA, data_parallel: Some(data_parallel), ..self }
    }

    /// Reads a plan from JSON. `name` is what messages call the file.
    ///
    /// # Errors
    ///
    /// If it is no plan, or one of another version.
    pub fn from_json(name: &str, json: &[u8]) -> Result<Plan, PlanError> {
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        let syntax = |source| PlanError::Syntax { name: name.to_string(), source };
        let version: Version = serde_json::from_slice(json).map_err(syntax)?;
        if !(FIRST_SCHEMA..=PLAN_SCHEMA).contains(&version.schema) {
            return Err(PlanError::Schema { name: name.to_string(), found: version.schema });
        }
        serde_json::from_slice(json).map_err(syntax)
    }

    /// The plan as JSON, with a line break at the end.
    pub fn to_json(&self) -> String {
        // Maps with keys that are no strings are all that could fail, and there are none.
        let mut json = serde_json::to_string_pretty(self).unwrap_or_default();
        json.push('\n');
        json
    }
}
