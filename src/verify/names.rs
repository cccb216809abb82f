//! Names: of nodes, of inputs, of tasks.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Nodes by name.
pub(super) type NameMap<'a, V> = HashMap<&'a str, V, BuildHasherDefault<NameHasher>>;

/// Hashes a string at one go.
#[derive(Debug, Default)]
pub(super) struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, self.0);
    }

    /// The mark that strings end with in a hash; names are hashed alone, so it tells nothing.
    fn write_u8(&mut self, _: u8) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// An input as a node gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input<'a> {
    /// `name` or `name:output`.
    Data(&'a str, u32),
    /// `^name`.
    Control(&'a str),
}

impl<'a> Input<'a> {
    /// Reads an input as TensorFlow does: digits after the last colon are the output, `name` alone is output 0.
    pub fn parse(input: &'a str) -> Option<Input<'a>> {
        if let Some(name) = input.strip_prefix('^') {
            return (!name.is_empty() && !name.contains([':', '^'])).then_some(Input::Control(name));
        }
        let (name, output) = match input.rsplit_once(':') {
            Some((name, digits)) => (name, number(digits)?),
            None => (input, 0),
        };
        (!name.is_empty() && !name.contains(':')).then_some(Input::Data(name, output))
    }
}

/// A number of digits alone, as in names.
pub(super) fn number(digits: &str) -> Option<u32> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // TensorFlow counts outputs in an `int`.
    if plain { digits.parse().ok().filter(|&number| number <= i32::MAX as u32) } else { None }
}

/// The process that a device belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Task<'a> {
    pub job: &'a str,
    pub replica: u32,
    pub task: u32,
}

impl Default for Task<'_> {
    /// What TensorFlow calls the only process of a session that is not distributed.
    fn default() -> Self {
        Task { job: "localhost", replica: 0, task: 0 }
    }
}

impl<'a> Task<'a> {
    /// The task that a device string names, with the defaults for what it leaves out.
    pub fn of(device: &'a str) -> Task<'a> {
        let mut found = Task::default();
        for part in device.split('/') {
            match part.split_once(':') {
                Some(("job", job)) => found.job = job,
                Some(("replica", replica)) => found.replica = number(replica).unwrap_or(0),
                Some(("task", task)) => found.task = number(task).unwrap_or(0),
                _ => {}
            }
        }
        found
    }

    /// The task of `/job:J/replica:R/task:K/device:CPU:N`; none if the string has another form.
    pub fn of_host_device(device: &'a str) -> Option<Task<'a>> {
        let mut parts = device.strip_prefix('/')?.split('/');
        let job = parts.next()?.strip_prefix("job:").filter(|job| !job.is_empty())?;
        let replica = number(parts.next()?.strip_prefix("replica:")?)?;
        let task = number(parts.next()?.strip_prefix("task:")?)?;
        number(parts.next()?.strip_prefix("device:CPU:")?)?;
        parts.next().is_none().then_some(Task { job, replica, task })
    }
}

/// Whether a device is a host of what another one names. A graph for any of several workers names no task.
pub(super) fn is_host_of(device: &str, owner: &str, names_no_task: bool) -> bool {
    let names_task =
        owner.split('/').any(|part| ["job:", "replica:", "task:"].iter().any(|key| part.starts_with(key)));
    match names_no_task && !names_task {
        true => device.strip_prefix("/device:CPU:").and_then(number).is_some(),
        false => Task::of_host_device(device) == Some(Task::of(owner)),
    }
}

/// What the name of an added op says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddedName<'a> {
    /// `lms/swap_in/<node>/<output>_<use>`.
    SwapIn(&'a str, u32),
    /// `lms/swap_out/<node>/<output>`.
    SwapOut(&'a str, u32),
    /// `lms/order/<number>`.
    Order,
    /// `lms/recompute/<node>/<number>`.
    Recomputed(&'a str, u32),
    /// `lms/initial/<node>/<output>_<number>`.
    Initial(&'a str, u32),
}

/// Where the names of all added ops begin.
pub(super) const ADDED_PREFIX: &str = "lms/";

/// What added ops there are, by the beginning of their names.
pub(super) const SWAP_IN_PREFIX: &str = "lms/swap_in/";
/// See [`SWAP_IN_PREFIX`].
pub(super) const SWAP_OUT_PREFIX: &str = "lms/swap_out/";
/// See [`SWAP_IN_PREFIX`].
pub(super) const ORDER_PREFIX: &str = "lms/order/";
/// See [`SWAP_IN_PREFIX`].
pub(super) const RECOMPUTED_PREFIX: &str = "lms/recompute/";
/// See [`SWAP_IN_PREFIX`].
pub(super) const INITIAL_PREFIX: &str = "lms/initial/";

impl<'a> AddedName<'a> {
    /// Reads the name of an added op.
    pub fn parse(name: &'a str) -> Option<AddedName<'a>> {
        let copy = |rest: &'a str| {
            let (node, tensor) = rest.rsplit_once('/')?;
            let (output, nth) = tensor.split_once('_')?;
            number(nth)?;
            Some((node, number(output)?))
        };
        if let Some(rest) = name.strip_prefix(SWAP_IN_PREFIX) {
            return copy(rest).map(|(node, output)| AddedName::SwapIn(node, output));
        }
        if let Some(rest) = name.strip_prefix(INITIAL_PREFIX) {
            return copy(rest).map(|(node, output)| AddedName::Initial(node, output));
        }
        if let Some(rest) = name.strip_prefix(SWAP_OUT_PREFIX) {
            let (node, output) = rest.rsplit_once('/')?;
            return Some(AddedName::SwapOut(node, number(output)?));
        }
        if let Some(rest) = name.strip_prefix(RECOMPUTED_PREFIX) {
            let (node, digits) = rest.rsplit_once('/')?;
            // `07` beside `7` would be two copies with one number.
            let plain = digits == "0" || !digits.starts_with('0');
            let number = number(digits).filter(|_| plain && !node.is_empty())?;
            return Some(AddedName::Recomputed(node, number));
        }
        number(name.strip_prefix(ORDER_PREFIX)?).map(|_| AddedName::Order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_read_as_tensorflow_reads_them() {
        assert_eq!(Input::parse("a/b"), Some(Input::Data("a/b", 0)));
        assert_eq!(Input::parse("a:0"), Some(Input::Data("a", 0)));
        assert_eq!(Input::parse("a:12"), Some(Input::Data("a", 12)));
        assert_eq!(Input::parse("^a"), Some(Input::Control("a")));
        for garbage in
            ["", "^", "^^a", "^a:0", ":0", ":", "a:", "a:b", "a:-1", "a:+1", "a:1:2", "a:2147483648"]
        {
            assert_eq!(Input::parse(garbage), None, "{garbage}");
        }
    }

    #[test]
    fn tasks_have_defaults_and_host_devices_are_written_in_full() {
        assert_eq!(Task::of(""), Task::of("/gpu:0"));
        assert_eq!(Task::of("/job:w/task:2/device:GPU:1"), Task { job: "w", replica: 0, task: 2 });
        let full = "/job:w/replica:0/task:2/device:CPU:0";
        assert_eq!(Task::of_host_device(full), Some(Task::of("/job:w/task:2")));
        for other in [
            "",
            "/cpu:0",
            "/device:CPU:0",
            "/job:w/replica:0/task:2/device:GPU:0",
            "/job:w/replica:0/task:2/device:CPU:*",
            "/job:w/replica:0/task:2/device:CPU:0/x",
        ] {
            assert_eq!(Task::of_host_device(other), None, "{other}");
        }
    }

    #[test]
    fn the_names_of_added_ops_say_what_they_are() {
        assert_eq!(AddedName::parse("lms/swap_in/a/b/1_2"), Some(AddedName::SwapIn("a/b", 1)));
        assert_eq!(AddedName::parse("lms/swap_out/a/b/1"), Some(AddedName::SwapOut("a/b", 1)));
        assert_eq!(AddedName::parse("lms/initial/a/b/1_2"), Some(AddedName::Initial("a/b", 1)));
        assert_eq!(AddedName::parse("lms/order/7"), Some(AddedName::Order));
        assert_eq!(AddedName::parse("lms/recompute/a/b/10"), Some(AddedName::Recomputed("a/b", 10)));
        assert_eq!(AddedName::parse("lms/recompute/a/0"), Some(AddedName::Recomputed("a", 0)));
        for other in [
            "lms/swap_in/a/0",
            "lms/swap_in/0_0",
            "lms/initial/0_0",
            "lms/initial/a/0",
            "lms/order/",
            "lms/order/x",
            "lms/",
            "a",
        ] {
            assert_eq!(AddedName::parse(other), None, "{other}");
        }
        for other in ["", "a", "a/", "a/x", "a/-1", "a/07", "/0", "0", "a/0:1"] {
            assert_eq!(AddedName::parse(&format!("lms/recompute/{other}")), None, "{other}");
        }
    }
}
