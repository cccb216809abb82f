//! Who can be reached from whom, for many questions at once.

use super::NodeId;

/// Answers for each of some nodes which others reach them, with 64 of them in one walk over the graph.
///
/// `order` has all nodes, each after its predecessors; `edges` lists the successors of a node. `ask` gets, for each
/// batch of targets, the targets and for each node (by its index) the set of those that can be reached from it, as bits. A node reaches itself.
pub fn for_each_batch<I>(
    order: &[NodeId],
    successors: impl Fn(NodeId) -> I,
    targets: &[NodeId],
    mut ask: impl FnMut(&[NodeId], &[u64]),
) where
    I: Iterator<Item = NodeId>,
{
    let mut reached = vec![0u64; order.len()];
    for batch in targets.chunks(64) {
        reached.fill(0);
        for (bit, target) in batch.iter().enumerate() {
            reached[target.index()] |= 1 << bit;
        }
        for &node in order.iter().rev() {
            let mut bits = reached[node.index()];
            for successor in successors(node) {
                bits |= reached[successor.index()];
            }
            reached[node.index()] = bits;
        }
        ask(batch, &reached);
    }
}
