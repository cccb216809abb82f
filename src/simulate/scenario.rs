//! What may be otherwise in a run than a machine is predicted to be.

use std::borrow::Cow;

use super::Machine;

/// One way in which a run may go. No profile knows a link to the byte, nobody knows TensorFlow's order, nor where an initializer has left
/// holes; what lies where in memory depends on all of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// How many times as long as predicted copies take.
    pub copy_slowness: f64,
    /// What decides of each copy by how much it takes longer or shorter than that, up to four times; none if none does.
    pub copy_seed: Option<u64>,
    /// What decides in which order ops run that become ready together, where TensorFlow has none; none if they run as in the file.
    pub order_seed: Option<u64>,
    /// Whether the parts of the graph begin in the other order in which they may (`Parts`).
    pub parts_otherwise: bool,
    /// Where an initializer has left holes between the variables.
    pub holes: Holes,
    /// A GPU that does nothing as long as anything else can be done. What the others send it is in its memory by then.
    pub stalled_gpu: Option<u16>,
    /// How many threads of the host run ops. One is predicted.
    pub threads: u16,
    /// Whether the host never runs ahead of the GPUs, and expects what comes from them only when it has time.
    pub slow_host: bool,
    /// The part that there is of what GPUs have beyond what a plan may count on.
    pub rest_part: f64,
    /// The part of the memory that is missing where a plan may count on all of it.
    pub missing_part: f64,
}

/// Where there is room between variables. An initializer runs in no certain order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holes {
    /// Where the initializer gave back what it had taken.
    OfInitializer,
    /// Nowhere.
    None,
    /// Behind each of the first variables, for what is as small as can be: gradients of biases, and losses. Where such a thing finds no
    /// hole, it lies among what is large.
    Small,
}

/// How many times longer or shorter an uneven copy takes, at most.
const UNEVENNESS: f64 = 4.0;

/// How long a thread of the host takes to notice that a GPU is free, where chance plays. Another one may have taken it again by then.
const WAKE_SECONDS: f64 = 2e-4;

/// Of more than so many ops that become ready by the end of one nobody knows the order: TensorFlow keeps a node's edges in an array of
/// eight, and more in a table by address, which is another one in each process (`EdgeSet`). So it is with what a step begins
/// with, all of which hangs on one node: of six processes with the same plan for a `DeepLabv3+`, four copied the labels before the images,
/// and ran out of memory.
const MOST_IN_ORDER: usize = 8;

impl Scenario {
    /// All as predicted.
    pub const PREDICTED: Scenario = Scenario {
        copy_slowness: 1.0,
        copy_seed: None,
        order_seed: None,
        parts_otherwise: false,
        holes: Holes::OfInitializer,
        stalled_gpu: None,
        threads: 1,
        slow_host: false,
        rest_part: 0.0,
        missing_part: 0.0,
    };

    /// All that chance decides: copies, the order, whose part begins, holes, and which of so many GPUs is stalled, if any is. The same for the
    /// same seed.
    pub fn by_chance(seed: u64, gpus: usize) -> Scenario {
        let stalled = seed % (gpus as u64 + 1);
        Scenario {
            copy_seed: Some(seed),
            order_seed: Some(seed),
            parts_otherwise: mixed(seed, u32::MAX, u32::MAX) & 1 == 1,
            holes: match seed % 3 {
                0 => Holes::OfInitializer,
                1 => Holes::None,
                _ => Holes::Small,
            },
            stalled_gpu: (gpus > 1 && stalled < gpus as u64).then_some(stalled as u16),
            ..Scenario::PREDICTED
        }
    }

    /// The same with copies that take so many times as long as predicted.
    pub fn with_copies(self, copy_slowness: f64) -> Scenario {
        Scenario { copy_slowness, ..self }
    }

    /// Whether chance decides anything.
    pub fn is_by_chance(&self) -> bool {
        self.copy_seed.is_some() || self.order_seed.is_some()
    }

    /// What the machine is like then.
    pub(super) fn machine(&self, machine: &Machine) -> Machine {
        let missing_part = if machine.counts_on_all() { self.missing_part } else { 0.0 };
        let memory_of = |(&memory, &whole): (&u64, &u64)| {
            let memory = memory + (whole.saturating_sub(memory) as f64 * self.rest_part) as u64;
            memory - (memory as f64 * missing_part) as u64
        };
        let memory: Vec<u64> = machine.memory.iter().zip(&machine.whole_memory).map(memory_of).collect();
        Machine {
            whole_memory: memory.clone(),
            memory,
            allocator: machine.allocator,
            host_op_seconds: machine.host_op_seconds,
            out_bytes_per_second: machine.out_bytes_per_second / self.copy_slowness,
            in_bytes_per_second: machine.in_bytes_per_second / self.copy_slowness,
            link_latency_seconds: machine.link_latency_seconds * self.copy_slowness,
            notice_seconds: machine.notice_seconds * self.copy_slowness,
            one_thread: self.threads == 1 && (machine.one_thread || self.slow_host),
            synchronous: machine.synchronous || self.slow_host,
        }
    }

    /// How many times as long as it should a copy takes.
    pub(super) fn unevenness(&self, copy: u32) -> f64 {
        let Some(seed) = self.copy_seed else { return 1.0 };
        let part = mixed(seed, copy, 0) as f64 / u64::MAX as f64;
        UNEVENNESS.powf(2.0 * part - 1.0)
    }

    /// How long a thread takes to go on when the GPU is free that it waited for.
    pub(super) fn wake_seconds(&self, op: u32) -> f64 {
        if self.copy_seed.is_some() { WAKE_SECONDS * self.unevenness(op) } else { 0.0 }
    }

    /// In the queue of which of many threads an op is put.
    pub(super) fn thread_of(&self, op: u32) -> u64 {
        mixed(self.order_seed.unwrap_or(0), op, u32::MAX)
    }

    /// What a step begins with, in the order in which it does.
    pub(super) fn shuffled<T: Copy>(&self, begin: Vec<T>) -> Vec<T> {
        match self.order_seed {
            Some(seed) => in_another_order(seed, u32::MAX, &begin),
            None => begin,
        }
    }

    /// What becomes ready by the end of an op, in the order in which it does.
    pub(super) fn in_order<'a>(&self, op: u32, ready: &'a [u32]) -> Cow<'a, [u32]> {
        match self.order_seed {
            Some(seed) if ready.len() > MOST_IN_ORDER => Cow::Owned(in_another_order(seed, op, ready)),
            _ => Cow::Borrowed(ready),
        }
    }
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario::PREDICTED
    }
}

/// Things in another order.
fn in_another_order<T: Copy>(seed: u64, what: u32, things: &[T]) -> Vec<T> {
    let keyed = (0u32..).zip(things).map(|(place, _)| (mixed(seed, what, place + 1), place));
    let mut places: Vec<(u64, u32)> = keyed.collect();
    places.sort_unstable();
    places.iter().map(|&(_, place)| things[place as usize]).collect()
}

/// Bits that look like chance, the same for the same arguments: a round of SplitMix64 (Steele, Lea and Flood, 2014).
fn mixed(seed: u64, what: u32, place: u32) -> u64 {
    let mut bits =
        (seed << 32 ^ u64::from(place) << 16 ^ u64::from(what)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
