//! Images that are resized, summed up, and whose places become channels or examples.

use super::{Bounds, Most};
use crate::graph::NodeId;

/// An image of the size that the second input says, for each example and channel.
pub(super) fn resized(bounds: &mut Bounds, node: NodeId) -> Option<Most> {
    let &[examples, _, _, channels] = &*bounds.input(node, 0)? else { return None };
    let &[height, width] = &*bounds.most_values(node, 1)? else { return None };
    Some(vec![examples, height, width, channels])
}

/// Blocks of places as channels, or channels as blocks of places.
pub(super) fn blocks(bounds: &Bounds, node: NodeId, into_channels: bool) -> Option<Most> {
    let mut most = bounds.input(node, 0).filter(|most| most.len() == 4)?;
    let block = Some(bounds.number(node, "block_size")).filter(|&block| block > 0)?;
    let (channels, places) = match bounds.graph.attrs(node).string("data_format") {
        Some(b"NHWC") | None => (3, [1, 2]),
        Some(b"NCHW") => (1, [2, 3]),
        Some(_) => return None,
    };
    let block_places = block.checked_mul(block)?;
    most[channels] = match into_channels {
        true => most[channels].checked_mul(block_places)?,
        false => most[channels] / block_places,
    };
    for place in places {
        most[place] = if into_channels { most[place] / block } else { most[place].checked_mul(block)? };
    }
    Some(most)
}

/// Every so many places as an example of its own, with a margin around the image.
pub(super) fn space_to_batch(bounds: &mut Bounds, node: NodeId) -> Option<Most> {
    let (mut most, block) = (bounds.input(node, 0)?, bounds.exact_values(node, 1)?);
    let margins = bounds.exact_values(node, 2).filter(|margins| margins.len() == 2 * block.len())?;
    for (place, (&block, margin)) in block.iter().zip(margins.chunks_exact(2)).enumerate() {
        let size = most.get_mut(place + 1)?;
        *size = size.checked_add(margin[0])?.checked_add(margin[1])?.checked_div(block.max(1))?;
        most[0] = most[0].checked_mul(block)?;
    }
    Some(most)
}

/// The way back; what is cropped is not looked at.
pub(super) fn batch_to_space(bounds: &mut Bounds, node: NodeId) -> Option<Most> {
    let (mut most, block) = (bounds.input(node, 0)?, bounds.exact_values(node, 1)?);
    for (place, &block) in block.iter().enumerate() {
        let size = most.get_mut(place + 1)?;
        *size = size.checked_mul(block)?;
        most[0] /= block.max(1);
    }
    Some(most)
}

/// The sum over all but the channels.
pub(super) fn of_channels(bounds: &Bounds, node: NodeId) -> Option<Most> {
    let most = bounds.input(node, 0)?;
    let is_first = bounds.graph.attrs(node).string("data_format") == Some(b"NCHW");
    Some(vec![*if is_first { most.get(1) } else { most.last() }?])
}
