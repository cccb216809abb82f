//! How many entries a sparse tensor has: three tensors, of places, values, and its shape, of which ops make others.

use super::{Bounds, Most};
use crate::graph::NodeId;

/// What an op makes of the parts of sparse tensors has at most these dimensions.
pub(super) fn at_most(bounds: &mut Bounds, node: NodeId, output: u32) -> Option<Most> {
    match bounds.graph.op(node).name() {
        // Each entry stays, in another order; or values alone are made anew.
        "SparseReorder" => bounds.input(node, output as usize),
        "SparseSoftmax" | "SparseDenseCwiseMul" | "SparseDenseCwiseDiv" | "SparseDenseCwiseAdd" => {
            bounds.input(node, 1)
        }
        "SparseReshape" => {
            let (entries, rank) = (*bounds.input(node, 0)?.first()?, bounds.input(node, 2)?);
            Some(if output == 0 { [vec![entries], rank].concat() } else { rank })
        }
        // An entry more for each row that has none.
        "SparseFillEmptyRows" => {
            let rows = *bounds.most_values(node, 2)?.first()?;
            let &[entries, rank] = &*bounds.input(node, 0)? else { return None };
            let all = entries.checked_add(rows)?;
            Some(match output {
                0 => vec![all, rank],
                1 => vec![all],
                2 => vec![rows],
                _ => vec![entries],
            })
        }
        "SparseFillEmptyRowsGrad" => match output {
            0 => bounds.input(node, 0),
            _ => Some(Vec::new()),
        },
        // Places of each, values of each, and shapes.
        "SparseConcat" => {
            let parts = bounds.graph.data_inputs(node).len() / 3;
            together(bounds, node, 0..parts, output)
        }
        // Places, values and shape of one, and of the other. Those that both have are one.
        "SparseAdd" => together(bounds, node, [0, 3], output),
        "SparseAddGrad" => Some(vec![*bounds.input(node, 1 + output as usize)?.first()?]),
        _ => None,
    }
}

/// The entries of several sparse tensors, whose places are inputs of these numbers.
fn together(
    bounds: &Bounds,
    node: NodeId,
    places: impl IntoIterator<Item = usize>,
    output: u32,
) -> Option<Most> {
    let (mut all, mut rank) = (0i64, None);
    for slot in places {
        let &[entries, dimensions] = &*bounds.input(node, slot)? else { return None };
        all = all.checked_add(entries)?;
        rank = Some(dimensions);
    }
    Some(match output {
        0 => vec![all, rank?],
        1 => vec![all],
        _ => vec![rank?],
    })
}
