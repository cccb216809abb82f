//! The names of added ops.

use crate::format::Nodes;
use crate::proto::tensorflow::attr_value::Value;

/// Where swap-ins are.
const SWAP_IN: &str = "lms/swap_in/";
/// Where swap-outs are.
const SWAP_OUT: &str = "lms/swap_out/";
/// Where orders are.
const ORDER: &str = "lms/order/";

/// Where second runs of ops are.
const RECOMPUTE: &str = "lms/recompute/";

/// Where copies of initial values are.
const INITIAL: &str = "lms/initial/";

/// Where what serves several workers is.
pub(super) const PARALLEL: &str = "lms/parallel/";

/// The attribute of a node that went to the host with the device that it had.
pub(super) const DEVICE_BEFORE: &str = "_lms_device";

/// The attribute with the ops that a node must be in the same place as.
pub(super) const CLASS: &str = "_class";

/// What it is called in a node that stayed where it was when these went to the host.
pub(super) const CLASS_BEFORE: &str = "_lms_class";

/// Whether a node stayed where it was when what it had to be with went to the host.
pub(super) fn is_freed(nodes: Nodes<'_>, node: usize) -> bool {
    nodes.attrs(node).any(|(name, _)| name == CLASS_BEFORE.as_bytes())
}

/// Whether a node of this name was added by a rewrite.
pub fn is_added(name: &str) -> bool {
    [SWAP_IN, SWAP_OUT, ORDER, RECOMPUTE, INITIAL, PARALLEL].iter().any(|scope| name.starts_with(scope))
}

/// Whether a node of this name serves several workers.
pub fn is_parallel(name: &str) -> bool {
    name.starts_with(PARALLEL)
}

/// The first added node of a graph.
pub(super) fn first_added(nodes: Nodes<'_>) -> Option<&str> {
    (0..nodes.len()).map(|node| nodes.name(node)).find(|name| is_added(name))
}

/// The first node that swaps, orders or computes again: what serves several workers may be there before.
pub(super) fn first_swapping(nodes: Nodes<'_>) -> Option<&str> {
    let mut names = (0..nodes.len()).map(|node| nodes.name(node));
    names.find(|name| is_added(name) && !is_parallel(name))
}

/// The node that reads what a node that serves several workers gives out as all workers'; none if it gives out something else.
pub(super) fn reads_own(name: &str) -> Option<String> {
    let rest = name.strip_prefix(PARALLEL)?;
    let (scope, what) = rest.split_once('/')?;
    if scope.is_empty() || !scope.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match what.split_once('/') {
        None if what == "mean" || what == "indices" => Some(name.to_string()),
        None if what == "rows" => Some(format!("{PARALLEL}{scope}/part")),
        None if what == "back" => Some(format!("{PARALLEL}{scope}/mean")),
        Some(("out" | "back", number)) => Some(format!("{PARALLEL}{scope}/in/{number}")),
        _ => None,
    }
}

/// The device that a node had before it went to the host; none if it did not go.
pub(super) fn device_before(nodes: Nodes<'_>, node: usize) -> Option<String> {
    match nodes.attr(node, DEVICE_BEFORE)?.value {
        Some(Value::S(device)) => String::from_utf8(device).ok(),
        _ => None,
    }
}

pub(super) fn swap_in(node: &str, output: u32, number: usize) -> String {
    format!("{SWAP_IN}{node}/{output}_{number}")
}

pub(super) fn swap_out(node: &str, output: u32) -> String {
    format!("{SWAP_OUT}{node}/{output}")
}

pub(super) fn initial(node: &str, output: u32, number: usize) -> String {
    format!("{INITIAL}{node}/{output}_{number}")
}

pub(super) fn order(number: usize) -> String {
    format!("{ORDER}{number}")
}

pub(super) fn recompute(node: &str, number: usize) -> String {
    format!("{RECOMPUTE}{node}/{number}")
}

/// The op that a second run of this name is one of.
pub(super) fn recomputed(name: &str) -> Option<&str> {
    let (node, _) = name.strip_prefix(RECOMPUTE)?.rsplit_once('/')?;
    Some(node)
}

/// How an input is written that reads an output, or `^node` for a control input.
pub(super) fn input(node: &str, output: u32) -> String {
    if output == 0 { node.to_string() } else { format!("{node}:{output}") }
}

/// An input that is written like `old` (with or without `:0`) but reads the first output of another node.
pub(super) fn like(old: &str, node: &str) -> String {
    if old.ends_with(":0") { format!("{node}:0") } else { node.to_string() }
}

/// An input that is written like `old` but reads the same output of another node.
pub(super) fn same_output(old: &str, node: &str) -> String {
    match old.rsplit_once(':') {
        Some((_, output)) => format!("{node}:{output}"),
        None => node.to_string(),
    }
}
