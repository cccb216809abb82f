//! How long work takes on a device.

use super::convolution::Convolution;
use super::operands::{Operands, volume};
use super::profile::DeviceProfile;
use super::work::{Arithmetic, Sides, Work};
use super::workspace;
use crate::dtype::DataType;
use crate::ops::{Pass, ScratchRule, ShapeRule};

/// The part of the compute rate that convolutions in three dimensions reach, of what they reach in two. Chosen so that a
/// published training of a 3D U-Net comes out.
const VOLUME_EFFICIENCY: f64 = 0.65;

/// The seconds that work takes: whatever is slowest of arithmetic, memory, and launching.
pub(super) fn seconds(work: &Work, operands: &Operands, profile: &DeviceProfile) -> f64 {
    let kernel = KernelRates::of(operands, profile);
    let rate = profile.memory_bytes_per_second * profile.memory_efficiency;
    let memory = work.bytes / kernel.bytes_per_second.map_or(rate, |measured| measured.min(rate));
    let arithmetic = match (work.arithmetic, kernel.flops_per_second) {
        (_, Some(measured)) => work.flops / measured,
        (Arithmetic::None, None) => 0.0,
        (Arithmetic::Matrix { dtype, sides }, None) => work.flops / matrix_rate(dtype, sides, profile),
        (Arithmetic::Convolution(convolution), None) => work.flops / convolution_rate(&convolution, profile),
        // Whose bytes were timed, arithmetic and all.
        (Arithmetic::Depthwise(_), None) if kernel.bytes_per_second.is_some() => 0.0,
        (Arithmetic::Depthwise(pass), None) => work.flops / depthwise_rate(pass, profile),
    };
    memory.max(arithmetic).max(work.kernels * profile.launch_seconds)
}

/// What was measured of an op's kernel.
struct KernelRates {
    bytes_per_second: Option<f64>,
    flops_per_second: Option<f64>,
}

impl KernelRates {
    fn of(operands: &Operands, profile: &DeviceProfile) -> KernelRates {
        let op = operands.graph.op(operands.node);
        let is_as_measured = match op.facts().scratch() {
            Some(ScratchRule::InOtherOrder { .. }) => workspace::trains_with_channels_last(operands),
            _ => true,
        };
        let measured = profile.kernel_bytes_per_second.get(op.name()).copied().filter(|_| is_as_measured);
        let broadcast = || profile.broadcast_bytes_per_second.filter(|_| broadcasts(operands));
        KernelRates {
            bytes_per_second: measured.or_else(broadcast),
            flops_per_second: profile.kernel_flops_per_second.get(op.name()).copied(),
        }
    }
}

/// Whether values of an input are each paired with several of another. One value alone is not: it goes to the kernel as a number.
fn broadcasts(operands: &Operands) -> bool {
    if operands.graph.op(operands.node).facts().shape() != Some(ShapeRule::Broadcast) {
        return false;
    }
    let Some(output) = operands.shape(operands.output(0)) else { return false };
    let inputs =
        operands.graph.data_inputs(operands.node).iter().filter_map(|&input| operands.shape(Some(input)));
    inputs.map(volume).any(|values| values > 1.0 && values < volume(output))
}

fn matrix_rate(dtype: DataType, sides: Sides, profile: &DeviceProfile) -> f64 {
    let sides = [sides.rows, sides.columns, sides.depth];
    let busy: f64 = sides.into_iter().map(|side| busy(side, dtype, profile)).product();
    profile.flops_per_second(dtype) * profile.compute_efficiency * busy
}

fn convolution_rate(convolution: &Convolution, profile: &DeviceProfile) -> f64 {
    let dtype = convolution.dtype;
    // Short sides of the two other products are channels too; along the third side lie all positions of a batch.
    let channels =
        busy(convolution.channels_in, dtype, profile) * busy(convolution.channels_out, dtype, profile);
    let algorithm = match convolution.spatial {
        2 if convolution.suits_winograd && dtype == DataType::FLOAT => profile.winograd_gain,
        2 => 1.0,
        _ => VOLUME_EFFICIENCY,
    };
    profile.flops_per_second(dtype) * profile.compute_efficiency * channels * algorithm
}

/// The part of the units that a side of so many values keeps busy.
///
/// A value that was loaded is used once for each value along the side. To be busy, a device must use each loaded byte for as many
/// operations as it makes in the time of loading one; a side that is as long as half of that leaves half of the units idle.
fn busy(side: f64, dtype: DataType, profile: &DeviceProfile) -> f64 {
    let balance = profile.flops_per_second(dtype) / profile.memory_bytes_per_second;
    let side = side.max(1.0);
    side / (side + 0.5 * balance)
}

/// The rate of a convolution without reuse across channels. Its operands come from the caches, whose rates are multiples
/// of the memory's, so it does not profit from matrix units. The gradient of the filter is a sum over all positions that
/// threads must agree on.
fn depthwise_rate(pass: Pass, profile: &DeviceProfile) -> f64 {
    let flops_per_byte = match pass {
        Pass::Forward | Pass::InputGradient => 2.0,
        Pass::FilterGradient => 0.75,
    };
    profile.memory_bytes_per_second * profile.memory_efficiency * flops_per_byte
}
