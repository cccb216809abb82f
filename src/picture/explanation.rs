//! The life of a tensor in a step, with and without a plan.

use serde::Serialize;

/// From when to when something happens, in seconds since the step began.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// When it begins.
    pub start_seconds: f64,
    /// When it ends.
    pub end_seconds: f64,
}

/// A memory, and the processor that works on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Residence {
    /// The host.
    Host,
    /// A GPU.
    Gpu {
        /// Its number among those of the graph.
        number: u16,
        /// Its name in the graph.
        device: String,
    },
}

/// Whose memory a tensor is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferKind {
    /// Its own.
    Own,
    /// That of another tensor, which its producer passes on.
    PassedOn {
        /// The tensor that the buffer was made for.
        of: String,
    },
    /// That of an input of its producer, which nobody else was to read any more.
    TakenOver {
        /// The tensor that the buffer was made for.
        of: String,
    },
    /// A buffer that is there in each step anyway, such as a variable's.
    Persistent,
    /// None: no step makes the tensor, or it has no bytes.
    Nothing,
}

/// An op that reads the tensor in the step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Consumer {
    /// Its name.
    pub name: String,
    /// What it does.
    pub op: String,
    /// Where it runs.
    pub place: Residence,
    /// How many levels it is behind the producer.
    pub levels_away: u32,
    /// When it runs without the plan.
    pub runs_before: Option<Interval>,
    /// When it runs with the plan.
    pub runs_after: Option<Interval>,
    /// The return whose copy it reads, counted from 0; none if it reads the original.
    pub reads_return: Option<usize>,
}

/// An op that a return waits for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trigger {
    /// Its name.
    pub name: String,
    /// When it runs.
    pub runs: Option<Interval>,
}

/// One return of a swapped tensor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Return {
    /// For whom.
    pub consumers: Vec<String>,
    /// What must have run before.
    pub triggers: Vec<Trigger>,
    /// The copy to the GPU; none if no consumer runs in the step.
    pub copy: Option<Interval>,
    /// From the end of the copy to the host until the start of this one.
    pub away_seconds: Option<f64>,
}

/// When a swapped tensor leaves and comes back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SwapLife {
    /// Whether the host has it anyway, and it only comes from there.
    pub is_on_host: bool,
    /// The copy to the host; none if the step has nothing to copy.
    pub leaves: Option<Interval>,
    /// The ops that wait until that copy is complete.
    pub waiting: Vec<String>,
    /// The returns, in the order of the plan.
    pub returns: Vec<Return>,
}

/// A second run of the op that makes the tensor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SecondRun {
    /// Who reads what it makes; nobody if only other second runs do.
    pub consumers: Vec<String>,
    /// The ops that start it.
    pub triggers: Vec<Trigger>,
    /// When it runs.
    pub runs: Option<Interval>,
}

/// What a plan does with the tensor.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It leaves the GPU and comes back.
    Swapped(SwapLife),
    /// It is given up after its first readers, and made again for the others.
    Recomputed,
    /// It stays where it is.
    Stays(StayReason),
}

/// Why a tensor is not swapped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StayReason {
    /// No step runs its producer.
    NotInStep,
    /// It is in a branch that no training step takes.
    DeadBranch,
    /// It is on the host, and copied from there when the step begins.
    OnHost,
    /// TensorFlow computes it before the first step.
    ComputedBeforehand,
    /// No strategy may swap it.
    NotSwappable {
        /// What [`crate::plan::swappable`] says.
        because: String,
    },
    /// It is not on a GPU.
    NotOnGpu,
    /// It has no bytes.
    Empty,
    /// Nobody reads it in the step.
    NotRead,
    /// It has less than two dimensions, and so is small, or its shape is unknown.
    FewDimensions {
        /// How many, if that is known.
        dimensions: Option<usize>,
    },
    /// There is no plan, or an empty one.
    NothingSwapped,
    /// All its consumers are nearer to the producer than those that the plan swaps other tensors for.
    ConsumersNear {
        /// How many levels the farthest is away.
        levels_away: u32,
        /// From how many levels on the plan swaps.
        swapped_from_levels: u32,
    },
    /// A filter keeps it.
    Filtered {
        /// The filter's flag, with what it chooses the op by.
        filter: String,
        /// Whose names and types the filter is about.
        ops: FilteredOps,
    },
    /// The strategy `planned` keeps within the budget without it.
    NotNeeded,
    /// The strategy leaves it out for its rules about the producer and the consumers.
    NotChosen,
}

/// Whom a filter is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FilteredOps {
    /// The op that makes the tensor.
    Producer,
    /// The ops that would read what came back.
    Consumers,
}

/// The life of a tensor in a step, without a plan (before) and with it (after).
///
/// Shown, it is a few lines of text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// Its name, `node:output`.
    pub tensor: String,
    /// The name of the op that makes it.
    pub producer: String,
    /// What that op does.
    pub op: String,
    /// Where that op runs.
    pub producer_place: Residence,
    /// When that op runs without the plan.
    pub made_before: Option<Interval>,
    /// When that op runs with the plan.
    pub made_after: Option<Interval>,
    /// The type of its values.
    pub data_type: String,
    /// Its dimensions, -1 for each unknown one; none if even their number is unknown.
    pub shape: Option<Vec<i64>>,
    /// Its bytes, if they are known.
    pub bytes: Option<u64>,
    /// Where it lies when its producer has made it.
    pub place: Residence,
    /// Whose memory it is in.
    pub buffer: BufferKind,
    /// From when it is in its buffer until that is given back, without the plan; none if the buffer is passed on to it.
    pub held_before: Option<Interval>,
    /// The same with the plan.
    pub held_after: Option<Interval>,
    /// Who reads it in the step, in the order in which they run with the plan.
    pub consumers: Vec<Consumer>,
    /// How many more ops read it that no step runs.
    pub consumers_outside_step: usize,
    /// What the plan does with it.
    pub fate: Fate,
    /// The second runs of its op.
    pub second_runs: Vec<SecondRun>,
}
