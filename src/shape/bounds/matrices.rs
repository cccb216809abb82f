//! Products of matrices and sums along named dimensions, and the diagonals of matrices.

use std::collections::HashMap;

use super::{Bounds, Most, broadcast};
use crate::graph::NodeId;

/// The product of two matrices, or of two batches of them, either of which may be transposed.
pub(super) fn product(bounds: &Bounds, node: NodeId, transposes: [&str; 2]) -> Option<Most> {
    let (one, other) = (bounds.input(node, 0)?, bounds.input(node, 1)?);
    let (one_batch, other_batch) = (one.len().checked_sub(2)?, other.len().checked_sub(2)?);
    let rows = one[one_batch + usize::from(bounds.flag(node, transposes[0]))];
    let columns = other[other_batch + usize::from(!bounds.flag(node, transposes[1]))];
    let mut most = broadcast(&[one[..one_batch].to_vec(), other[..other_batch].to_vec()]);
    most.extend([rows, columns]);
    Some(most)
}

/// The sum of products that an equation says. Dimensions that it does not name are not followed.
pub(super) fn einsum(bounds: &Bounds, node: NodeId) -> Option<Most> {
    let equation = std::str::from_utf8(bounds.graph.attrs(node).string("equation")?).ok()?;
    let (inputs, output) = equation.split_once("->")?;
    let mut sizes: HashMap<char, i64> = HashMap::new();
    for (slot, names) in inputs.split(',').enumerate() {
        let most = bounds.input(node, slot)?;
        if !names.chars().all(char::is_alphabetic) || names.chars().count() != most.len() {
            return None;
        }
        for (name, size) in names.chars().zip(most) {
            // A dimension has one size wherever it is named, so the least bound of it holds.
            sizes.entry(name).and_modify(|known| *known = size.min(*known)).or_insert(size);
        }
    }
    output.chars().map(|name| sizes.get(&name).copied()).collect()
}

/// A sparse matrix, of which the shape is given, by a dense one.
pub(super) fn sparse_by_dense(bounds: &mut Bounds, node: NodeId) -> Option<Most> {
    let &[rows, columns] = &*bounds.most_values(node, 2)? else { return None };
    let &[dense_rows, dense_columns] = &*bounds.input(node, 3)? else { return None };
    let [first_turned, second_turned] = ["adjoint_a", "adjoint_b"].map(|name| bounds.flag(node, name));
    Some(vec![
        if first_turned { columns } else { rows },
        if second_turned { dense_rows } else { dense_columns },
    ])
}

/// Square matrices with these vectors on their diagonals.
pub(super) fn of_diagonals(bounds: &mut Bounds, node: NodeId) -> Option<Most> {
    let mut most = bounds.input(node, 0)?;
    // Later versions name another diagonal, and other sizes than those that it asks for.
    let is_plain = bounds.graph.data_inputs(node).len() == 1
        || (1..4)
            .zip([0, -1, -1])
            .all(|(slot, usual)| bounds.exact_values(node, slot).as_deref() == Some(&[usual]));
    most.push(*most.last()?);
    is_plain.then_some(most)
}

/// The main diagonals of matrices.
pub(super) fn diagonals(bounds: &mut Bounds, node: NodeId) -> Option<Most> {
    let mut most = bounds.input(node, 0).filter(|most| most.len() >= 2)?;
    let is_main =
        bounds.graph.data_inputs(node).len() == 1 || bounds.exact_values(node, 1).as_deref() == Some(&[0]);
    let columns = most.pop()?;
    let rows = most.last_mut()?;
    *rows = columns.min(*rows);
    is_main.then_some(most)
}
