//! `StridedSlice`, whose masks say what its numbers mean.

use super::values::Value;
use super::{Bounds, Most, linear};
use crate::graph::NodeId;

/// What becomes of one dimension.
enum Part {
    /// It is taken in part.
    Kept(usize),
    /// One element of it is taken, and the dimension goes.
    Shrunk,
    /// One that was not there.
    New,
}

/// Which dimension each number is about, for an input of this rank; and the dimensions behind what is named.
fn parts(bounds: &Bounds, node: NodeId, rank: usize, numbers: usize) -> Option<Vec<(Option<usize>, Part)>> {
    let [ellipsis, new, shrink] =
        ["ellipsis_mask", "new_axis_mask", "shrink_axis_mask"].map(|name| bounds.number(node, name));
    let has = |mask: i64, place: usize| place < 63 && mask >> place & 1 == 1;
    let named = (0..numbers).filter(|&place| !has(ellipsis, place) && !has(new, place)).count();
    let unnamed = rank.checked_sub(named)?;
    let (mut parts, mut dimension, mut spread) = (Vec::new(), 0, false);
    for place in 0..numbers {
        if has(ellipsis, place) && !spread {
            parts.extend((dimension..dimension + unnamed).map(|dimension| (None, Part::Kept(dimension))));
            (dimension, spread) = (dimension + unnamed, true);
        } else if has(new, place) {
            parts.push((None, Part::New));
        } else {
            let part = if has(shrink, place) { Part::Shrunk } else { Part::Kept(dimension) };
            parts.push((Some(place), part));
            dimension += 1;
        }
    }
    parts.extend((dimension..rank).map(|dimension| (None, Part::Kept(dimension))));
    Some(parts)
}

/// Dimensions that the slice does not exceed.
pub(super) fn at_most(bounds: &mut Bounds, node: NodeId) -> Option<Most> {
    let sizes = bounds.input(node, 0)?;
    let numbers = bounds.length(node, 1)?;
    let (begins, ends) = (bounds.exact_values(node, 1), bounds.exact_values(node, 2));
    let (begin_mask, end_mask) = (bounds.number(node, "begin_mask"), bounds.number(node, "end_mask"));
    let strides = bounds.exact_values(node, 3);
    let mut most = Vec::new();
    for (place, part) in parts(bounds, node, sizes.len(), numbers)? {
        most.push(match part {
            Part::Shrunk => continue,
            Part::New => 1,
            Part::Kept(dimension) => {
                let size = *sizes.get(dimension)?;
                let Some(place) = place else {
                    most.push(size);
                    continue;
                };
                let is_open = |mask: i64| place < 63 && mask >> place & 1 == 1;
                let at = |values: &Option<Vec<i64>>, mask: i64| {
                    values.as_ref().filter(|_| !is_open(mask)).and_then(|values| values.get(place).copied())
                };
                let is_plain = strides.as_ref().is_some_and(|strides| strides.get(place) == Some(&1));
                let has_both = is_plain && !is_open(begin_mask) && !is_open(end_mask);
                // Counted from the end it may be shorter, but not longer.
                let length = has_both.then(|| linear::difference(bounds, node, [1, 2], place)).flatten();
                // From where to where, if both are counted from the beginning.
                let from = at(&begins, begin_mask).filter(|&begin| begin >= 0).unwrap_or(0);
                let to = at(&ends, end_mask).filter(|&end| end >= 0 && is_plain);
                match (length.filter(|&length| length > 0), to) {
                    (Some(length), _) => size.min(length),
                    (None, Some(to)) => size.min((to - from).max(0)),
                    (None, None) => size,
                }
            }
        });
    }
    Some(most)
}

/// What a slice takes that takes all of each dimension but the first.
pub(super) struct Rows {
    /// Whether it takes all of the first one too.
    pub is_whole: bool,
    /// From where, and up to where, if that is known.
    pub begin: Option<i64>,
    pub end: Option<i64>,
}

/// What a slice of an input of one shape, whose output has another, takes of the first dimension; none if it takes less of another one, or
/// turns it around.
pub(super) fn rows(bounds: &mut Bounds, node: NodeId, (from, to): (&[i64], &[i64])) -> Option<Rows> {
    let numbers = bounds.length(node, 1)?;
    let strides = bounds.exact_values(node, 3)?;
    let begin_of_first = bounds.exact_values(node, 1);
    let begin_mask = bounds.number(node, "begin_mask");
    let mut found = Rows { is_whole: true, begin: Some(0), end: from.first().copied() };
    let (mut dimension, mut made) = (0, to.iter());
    for (place, part) in parts(bounds, node, from.len(), numbers)? {
        let taken = match part {
            Part::New => {
                made.next()?;
                continue;
            }
            Part::Kept(_) => *made.next()?,
            Part::Shrunk => 1,
        };
        let size = *from.get(dimension)?;
        if place.is_some_and(|place| strides.get(place) != Some(&1)) || (dimension > 0 && taken != size) {
            return None;
        }
        if dimension == 0 && taken != size {
            let begins = place.filter(|&place| place >= 63 || begin_mask >> place & 1 == 0);
            let begin = match begins {
                Some(place) => begin_of_first.as_ref().and_then(|begins| begins.get(place).copied()),
                None => Some(0),
            };
            let begin = begin.map(|begin| if begin < 0 { begin + size } else { begin });
            found = Rows { is_whole: false, begin, end: begin.map(|begin| begin + taken) };
        }
        dimension += 1;
    }
    Some(found)
}

/// The elements of a slice of a vector.
pub(super) fn of_values(bounds: &mut Bounds, node: NodeId) -> Option<Vec<Value>> {
    let values = bounds.values(node, 0)?;
    let (begins, ends) = (bounds.exact_values(node, 1)?, bounds.exact_values(node, 2)?);
    let strides = bounds.exact_values(node, 3)?;
    let (&[begin], &[end], &[1]) = (&*begins, &*ends, &*strides) else { return None };
    if bounds.number(node, "ellipsis_mask") != 0 || bounds.number(node, "new_axis_mask") != 0 {
        return None;
    }
    let count = values.len() as i64;
    let place = |place: i64| if place < 0 { (place + count).max(0) } else { place.min(count) };
    let from = if bounds.number(node, "begin_mask") & 1 == 1 { 0 } else { place(begin) };
    if bounds.number(node, "shrink_axis_mask") & 1 == 1 {
        return values.get(from as usize).map(|&value| vec![value]);
    }
    let to = if bounds.number(node, "end_mask") & 1 == 1 { count } else { place(end) };
    values.get(from as usize..to.max(from) as usize).map(<[Value]>::to_vec)
}
