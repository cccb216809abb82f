//! The scratch memory of kernels: what a GPU's kernel takes beside its outputs, and gives back.
//!
//! `docs/cost-model.md` has where the rules come from, and how they were held against what TensorFlow takes on a GPU.

use super::convolution::Convolution;
use super::operands::Operands;
use super::profile::DeviceProfile;
use super::work::{Arithmetic, Work};
use crate::dtype::DataType;
use crate::ops::{Attr, AttrLookup, Pass, ScratchRule};

/// cuDNN's matrix units read channels in fours.
const CHANNELS_TOGETHER: f64 = 4.0;
/// The most that the gradient of a filter takes for sums over parts of the positions.
const PARTIAL_SUMS_BYTES: f64 = (12 << 20) as f64;

/// How many pieces a kernel takes at most.
const MOST_PIECES: usize = 5;

/// The scratch memory of one run of an op: pieces, each of which the allocator has to find a place for. They are taken one after the other,
/// and given back together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Workspace {
    pieces: [u64; MOST_PIECES],
}

impl Workspace {
    /// None at all.
    pub const NONE: Workspace = Workspace { pieces: [0; MOST_PIECES] };

    /// Pieces of so many bytes, in the order in which they are taken.
    pub fn in_pieces<const COUNT: usize>(bytes: [u64; COUNT]) -> Workspace {
        const { assert!(COUNT <= MOST_PIECES) }
        let mut workspace = Workspace::NONE;
        workspace.pieces[..COUNT].copy_from_slice(&bytes);
        workspace
    }

    /// The bytes of each piece.
    pub fn pieces(&self) -> impl Iterator<Item = u64> + use<> {
        self.pieces.into_iter().filter(|&bytes| bytes > 0)
    }

    /// All together, in bytes.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// So many bytes all together: what is more than was thought makes the last piece larger.
    pub(super) fn together(self, bytes: u64) -> Workspace {
        let mut workspace = self.at_most(bytes);
        let more = bytes - workspace.bytes();
        let last = workspace.pieces.iter().rposition(|&piece| piece > 0).unwrap_or(0);
        workspace.pieces[last] += more;
        workspace
    }

    /// No more than so many bytes: the last pieces are cut off. These depend on the algorithm that a kernel takes, the first ones on its
    /// operands alone.
    pub(super) fn at_most(mut self, bytes: u64) -> Workspace {
        let mut left = bytes;
        for piece in &mut self.pieces {
            *piece = (*piece).min(left);
            left -= *piece;
        }
        self
    }
}

/// The scratch that work takes on a device.
pub(super) fn of(work: &Work, operands: &Operands, profile: &DeviceProfile) -> Workspace {
    if profile.workspace_bytes == 0 {
        return Workspace::NONE;
    }
    if let Arithmetic::Convolution(convolution) = work.arithmetic {
        return of_convolution(&convolution, profile);
    }
    let rule = operands.graph.op(operands.node).facts().scratch();
    rule.and_then(|rule| by_rule(rule, operands)).unwrap_or_default()
}

/// None where it takes none, or a size is unknown.
fn by_rule(rule: ScratchRule, operands: &Operands) -> Option<Workspace> {
    match rule {
        ScratchRule::InOtherOrder { copies } if trains_with_channels_last(operands) => {
            let image = operands.bytes(operands.input(0))? as u64;
            let mut workspace = Workspace::NONE;
            workspace.pieces.iter_mut().take(copies as usize).for_each(|piece| *piece = image);
            Some(workspace)
        }
        ScratchRule::InOtherOrder { .. } => None,
        ScratchRule::OfRows => {
            let value_bytes = operands.dtype().size_in_bytes()? as f64;
            let values = operands.bytes(operands.output(0))? / value_bytes;
            Some(Workspace::in_pieces(
                [value_bytes, value_bytes.max(4.0)].map(|bytes| (values * bytes) as u64),
            ))
        }
        ScratchRule::LikeOutputs => {
            let outputs = operands.graph.outputs(operands.node);
            let bytes = outputs.map(|output| operands.bytes(Some(output))).sum::<Option<f64>>()?;
            Some(Workspace::in_pieces([bytes as u64]))
        }
    }
}

/// Whether a batch norm trains, on images whose channels are last. Both are the ops' defaults.
pub(super) fn trains_with_channels_last(operands: &Operands) -> bool {
    operands.attrs().attr("is_training") != Some(Attr::Bool(false)) && operands.has_channels_last()
}

fn of_convolution(convolution: &Convolution, profile: &DeviceProfile) -> Workspace {
    let value_bytes = convolution.dtype.size_in_bytes().unwrap_or(0) as f64;
    if convolution.has_channels_last {
        // A window of one place that moves by one is a product of matrices.
        if convolution.is_product() {
            return Workspace::NONE;
        }
        if profile.has_matrix_units_for(convolution.dtype) {
            return on_matrix_units(convolution, value_bytes);
        }
    }
    // The filter is brought into cuDNN's order by a copy.
    let filter = convolution.weights();
    let scratch = values(convolution, profile);
    let limited = Workspace::in_pieces([filter, scratch].map(|values| (values * value_bytes) as u64))
        .at_most(profile.workspace_bytes);
    let [filter, scratch, ..] = limited.pieces;
    let [image, map] = turned(convolution).map(|values| (values * value_bytes) as u64);
    // As `LaunchConv2DOp` and its gradients take them.
    Workspace::in_pieces(match convolution.pass {
        Pass::Forward => [image, filter, map, scratch],
        Pass::InputGradient | Pass::FilterGradient => [filter, map, image, scratch],
    })
}

/// The values of an image and of a feature map that are copied into the other order of channels: without matrix units TensorFlow computes
/// with channels first. An image of one channel is the same in both.
fn turned(convolution: &Convolution) -> [f64; 2] {
    let image = if convolution.channels_in * convolution.groups > 1.0 { convolution.image } else { 0.0 };
    if convolution.has_channels_last { [image, convolution.feature_map] } else { [0.0; 2] }
}

/// Where matrix units multiply, TensorFlow keeps the order of the image. The filter is copied into cuDNN's order, the gradient of an image
/// is made in a copy, and channels that are not so many that units can read them are filled up.
fn on_matrix_units(convolution: &Convolution, value_bytes: f64) -> Workspace {
    let [image, map, filter] = [convolution.image, convolution.feature_map, convolution.weights()];
    let channels = convolution.channels_in * convolution.groups;
    let filled_up = image / channels * (channels / CHANNELS_TOGETHER).ceil() * CHANNELS_TOGETHER;
    let [filled_up, other_map] = if filled_up > image { [filled_up, map] } else { [0.0; 2] };
    let values = match convolution.pass {
        Pass::Forward => [filled_up, filter, 0.0, 0.0, 0.0],
        Pass::InputGradient => [filter, filled_up, other_map, image, 0.0],
        Pass::FilterGradient => {
            // Never more than what is summed.
            let partial_sums = (PARTIAL_SUMS_BYTES / value_bytes).min(image + map);
            [filter, filled_up, other_map, filter, partial_sums]
        }
    };
    Workspace::in_pieces(values.map(|values| (values * value_bytes) as u64))
}

/// TensorFlow times all algorithms that cuDNN offers within a limit and takes the fastest; which one that is, is not known beforehand. This
/// is what the usual winner takes without matrix units.
fn values(convolution: &Convolution, profile: &DeviceProfile) -> f64 {
    if convolution.window <= 1.0 {
        return 0.0;
    }
    let takes_winograd =
        convolution.suits_winograd && convolution.dtype == DataType::FLOAT && profile.winograd_gain > 1.0;
    if takes_winograd {
        // Tiles of 6x6 for each 4x4 of the image and of the feature map, and for each window of 3x3.
        36.0 / 16.0 * (convolution.image + convolution.feature_map) + 4.0 * convolution.weights()
    } else {
        // One example's windows as the rows of a matrix.
        let positions = convolution.feature_map
            / (convolution.examples * convolution.channels_out * convolution.groups).max(1.0);
        positions * convolution.window * convolution.channels_in * convolution.groups
    }
}
