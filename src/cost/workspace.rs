//! The scratch memory of convolutions.

use super::convolution::Convolution;
use super::profile::DeviceProfile;
use super::work::{Arithmetic, Work};
use crate::dtype::DataType;

/// The bytes of scratch that work takes on a device.
///
/// TensorFlow times all algorithms that cuDNN offers within a limit and takes the fastest; which one that is, is not known
/// beforehand. This is what the usual winner takes, never more than the profile's limit.
pub(super) fn bytes(work: &Work, profile: &DeviceProfile) -> u64 {
    let Arithmetic::Convolution(convolution) = work.arithmetic else { return 0 };
    let value_bytes = convolution.dtype.size_in_bytes().unwrap_or(0) as f64;
    let scratch = values(&convolution, profile) * value_bytes;
    // The filter is brought into cuDNN's order by a copy.
    let filter = convolution.weights() * value_bytes;
    ((scratch + filter) as u64).min(profile.workspace_bytes)
}

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
