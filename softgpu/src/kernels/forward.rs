//! Which kernels write their result over an input that is not used again.

use std::collections::HashSet;
use std::sync::OnceLock;

/// Does the kernel of this op take over an input of the result's type and shape, whichever dies?
///
/// A test holds the list against what the analysis goes by.
pub fn takes_over(op: &str) -> bool {
    static OPS: OnceLock<HashSet<&str>> = OnceLock::new();
    OPS.get_or_init(|| include_str!("takes_over.txt").lines().collect()).contains(op)
}
