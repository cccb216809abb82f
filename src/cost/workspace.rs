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

/// The bytes of scratch that work takes on a device.
pub(super) fn bytes(work: &Work, operands: &Operands, profile: &DeviceProfile) -> u64 {
    if profile.workspace_bytes == 0 {
        return 0;
    }
    if let Arithmetic::Convolution(convolution) = work.arithmetic {
        return of_convolution(&convolution, profile);
    }
    let rule = operands.graph.op(operands.node).facts().scratch();
    let bytes = rule.and_then(|rule| by_rule(rule, operands));
    bytes.unwrap_or(0.0) as u64
}

/// None where it takes none, or a size is unknown.
fn by_rule(rule: ScratchRule, operands: &Operands) -> Option<f64> {
    let outputs = || operands.graph.outputs(operands.node);
    match rule {
        ScratchRule::InOtherOrder { copies } if trains_with_channels_last(operands) => {
            Some(f64::from(copies) * operands.bytes(operands.input(0))?)
        }
        ScratchRule::InOtherOrder { .. } => None,
        ScratchRule::OfRows => {
            let value_bytes = operands.dtype().size_in_bytes()? as f64;
            let of_a_maximum_and_a_sum = value_bytes + value_bytes.max(4.0);
            Some(operands.bytes(operands.output(0))? / value_bytes * of_a_maximum_and_a_sum)
        }
        ScratchRule::LikeOutputs => outputs().map(|output| operands.bytes(Some(output))).sum(),
    }
}

/// Whether a batch norm trains, on images whose channels are last. Both are the ops' defaults.
pub(super) fn trains_with_channels_last(operands: &Operands) -> bool {
    operands.attrs().attr("is_training") != Some(Attr::Bool(false)) && operands.has_channels_last()
}

fn of_convolution(convolution: &Convolution, profile: &DeviceProfile) -> u64 {
    let value_bytes = convolution.dtype.size_in_bytes().unwrap_or(0) as f64;
    if convolution.has_channels_last {
        // A window of one place that moves by one is a product of matrices.
        if convolution.is_product() {
            return 0;
        }
        if profile.has_matrix_units_for(convolution.dtype) {
            return on_matrix_units(convolution, value_bytes) as u64;
        }
    }
    let scratch = values(convolution, profile) * value_bytes;
    // The filter is brought into cuDNN's order by a copy.
    let filter = convolution.weights() * value_bytes;
    let turned = turned(convolution) * value_bytes;
    turned as u64 + ((scratch + filter) as u64).min(profile.workspace_bytes)
}

/// The values of images that are copied into the other order of channels: without matrix units TensorFlow computes with channels first.
/// An image of one channel is the same in both.
fn turned(convolution: &Convolution) -> f64 {
    let image = if convolution.channels_in * convolution.groups > 1.0 { convolution.image } else { 0.0 };
    if convolution.has_channels_last { image + convolution.feature_map } else { 0.0 }
}

/// Where matrix units multiply, TensorFlow keeps the order of the image. The filter is copied into cuDNN's order, the gradient of an image
/// is made in a copy, and channels that are not so many that units can read them are filled up.
fn on_matrix_units(convolution: &Convolution, value_bytes: f64) -> f64 {
    let [image, map, filter] = [convolution.image, convolution.feature_map, convolution.weights()];
    let channels = convolution.channels_in * convolution.groups;
    let filled_up = image / channels * (channels / CHANNELS_TOGETHER).ceil() * CHANNELS_TOGETHER;
    let is_filled_up = filled_up > image;
    let copies = if is_filled_up { filled_up + map } else { 0.0 };
    match convolution.pass {
        Pass::Forward => (filter + if is_filled_up { filled_up } else { 0.0 }) * value_bytes,
        Pass::InputGradient => (image + filter + copies) * value_bytes,
        Pass::FilterGradient => {
            // Never more than what is summed.
            let partial_sums = PARTIAL_SUMS_BYTES.min((image + map) * value_bytes);
            (2.0 * filter + copies) * value_bytes + partial_sums
        }
    }
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
