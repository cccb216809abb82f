//! The arithmetic of convolutions.

use prost::Message;

use super::operands::{Operands, volume};
use crate::dtype::DataType;
use crate::ops::Pass;
use crate::proto::tensorflow::AttrValue;
use crate::proto::tensorflow::attr_value::Value;

/// A convolution in two or three dimensions, whichever of its three products an op computes.
///
/// All three pair each value of the feature map (what the forward convolution makes) with each weight of its channel,
/// so layout, strides, dilations and groups are in the shapes already.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Convolution {
    pub dtype: DataType,
    /// How many examples are in the batch.
    pub examples: f64,
    /// How many values the feature map has.
    pub feature_map: f64,
    /// How many values the image, the forward convolution's input, has.
    pub image: f64,
    /// How many places the window has: the product of the filter's spatial sizes.
    pub window: f64,
    /// How many dimensions the image has: 2, or 3.
    pub spatial: usize,
    /// The channels of the image that each channel of the feature map sees.
    pub channels_in: f64,
    /// The channels of the feature map that share their channels of the image.
    pub channels_out: f64,
    /// How many sets of channels are apart from one another.
    pub groups: f64,
    /// Whether the window is 3x3 without gaps and moves by one, so that Winograd's algorithm can take it.
    pub suits_winograd: bool,
    /// Which of the three products it is.
    pub pass: Pass,
    /// Whether the channels of images lie side by side.
    pub has_channels_last: bool,
}

impl Convolution {
    /// The convolution of a node; none if a size is unknown.
    pub fn of(pass: Pass, operands: &Operands) -> Option<Convolution> {
        let (image, filter, feature_map) = match pass {
            Pass::Forward => (operands.input(0), operands.input(1), operands.output(0)),
            Pass::InputGradient => (operands.output(0), operands.input(1), operands.input(2)),
            Pass::FilterGradient => (operands.input(0), operands.output(0), operands.input(2)),
        };
        let (image, filter) = (operands.shape(image)?, operands.shape(filter)?);
        let feature_map = operands.shape(feature_map)?;
        let [window @ .., channels_in, all_channels_out] = filter else { return None };
        let has_channels_last = operands.has_channels_last();
        let image_channels = if has_channels_last { *image.last()? } else { *image.get(1)? } as f64;
        let channels_in = (*channels_in as f64).max(1.0);
        let groups = (image_channels / channels_in).max(1.0);
        Some(Convolution {
            dtype: operands.dtype(),
            examples: (*image.first()? as f64).max(1.0),
            feature_map: volume(feature_map),
            image: volume(image),
            window: volume(window),
            spatial: window.len(),
            channels_in,
            channels_out: (*all_channels_out as f64 / groups).max(1.0),
            groups,
            suits_winograd: *window == [3, 3]
                && all_ones(operands, "strides")
                && all_ones(operands, "dilations"),
            pass,
            has_channels_last,
        })
    }

    /// Multiplications and additions, two for each pair of a weight and a value of the feature map.
    pub fn flops(&self) -> f64 {
        2.0 * self.feature_map * self.window * self.channels_in
    }

    /// Whether it is a product of matrices: each position of the feature map sees one of the image, and each of the image is seen.
    pub fn is_product(&self) -> bool {
        let positions = self.image / (self.channels_in * self.groups);
        self.window <= 1.0 && positions == self.feature_map / (self.channels_out * self.groups)
    }

    /// The weights of the filter.
    pub fn weights(&self) -> f64 {
        self.window * self.channels_in * self.channels_out * self.groups
    }
}

/// Whether a list of integers has nothing but ones, as it has if the node leaves it out.
fn all_ones(operands: &Operands, attr: &str) -> bool {
    let Some(raw) = operands.attrs().raw(attr) else { return true };
    match AttrValue::decode(raw) {
        Ok(AttrValue { value: Some(Value::List(list)) }) => list.i.iter().all(|&value| value == 1),
        _ => false,
    }
}
