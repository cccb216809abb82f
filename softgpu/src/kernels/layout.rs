//! Ops on channels-first images: which of their inputs, outputs and attributes change when the op runs channels last.

use crate::proto::AttrValue;
use crate::status::Fault;
use prost::Message;
use std::collections::BTreeMap;

use super::tensor::Tensor;
use super::transpose;

/// The places of an op where the order of the dimensions shows. What is not listed, filters for one, is the same in
/// both orders.
pub struct Layout {
    op: &'static str,
    /// Inputs that are images.
    pub images: &'static [usize],
    /// Inputs that are vectors with a value for each dimension.
    pub vectors: &'static [usize],
    /// Outputs that are images.
    pub outputs: &'static [usize],
}

const fn op(
    op: &'static str,
    images: &'static [usize],
    vectors: &'static [usize],
    outputs: &'static [usize],
) -> Layout {
    Layout { op, images, vectors, outputs }
}

const LAYOUTS: [Layout; 34] = [
    op("Conv2D", &[0], &[], &[0]),
    op("Conv2DBackpropInput", &[2], &[0], &[0]),
    op("Conv2DBackpropFilter", &[0, 2], &[], &[]),
    op("DepthwiseConv2dNative", &[0], &[], &[0]),
    op("DepthwiseConv2dNativeBackpropInput", &[2], &[0], &[0]),
    op("DepthwiseConv2dNativeBackpropFilter", &[0, 2], &[], &[]),
    op("Conv3D", &[0], &[], &[0]),
    op("Conv3DBackpropInputV2", &[2], &[0], &[0]),
    op("Conv3DBackpropFilterV2", &[0, 2], &[], &[]),
    op("MaxPool", &[0], &[], &[0]),
    op("MaxPoolGrad", &[0, 1, 2], &[], &[0]),
    op("MaxPoolGradGrad", &[0, 1, 2], &[], &[0]),
    op("MaxPoolV2", &[0], &[1, 2], &[0]),
    op("MaxPoolGradV2", &[0, 1, 2], &[3, 4], &[0]),
    op("MaxPoolGradGradV2", &[0, 1, 2], &[3, 4], &[0]),
    op("MaxPool3D", &[0], &[], &[0]),
    op("MaxPool3DGrad", &[0, 1, 2], &[], &[0]),
    op("MaxPool3DGradGrad", &[0, 1, 2], &[], &[0]),
    op("AvgPool", &[0], &[], &[0]),
    op("AvgPoolGrad", &[1], &[0], &[0]),
    op("AvgPool3D", &[0], &[], &[0]),
    op("AvgPool3DGrad", &[1], &[0], &[0]),
    op("FusedBatchNorm", &[0], &[], &[0]),
    op("FusedBatchNormV2", &[0], &[], &[0]),
    op("FusedBatchNormV3", &[0], &[], &[0]),
    op("FusedBatchNormGrad", &[0, 1], &[], &[0]),
    op("FusedBatchNormGradV2", &[0, 1], &[], &[0]),
    op("FusedBatchNormGradV3", &[0, 1], &[], &[0]),
    op("BiasAdd", &[0], &[], &[0]),
    op("BiasAddGrad", &[0], &[], &[]),
    op("SpaceToDepth", &[0], &[], &[0]),
    op("DepthToSpace", &[0], &[], &[0]),
    op("_FusedConv2D", &[0], &[], &[0]),
    op("_FusedBatchNormEx", &[0, 5], &[], &[0]),
];

/// Makes the attributes of a channels-first node those of the channels-last one. `None` if the op or its format is none
/// that can be changed.
pub fn to_channels_last(
    op: &str,
    attrs: &mut BTreeMap<String, Vec<u8>>,
) -> Result<Option<&'static Layout>, Fault> {
    let Some(layout) = LAYOUTS.iter().find(|layout| layout.op == op) else { return Ok(None) };
    let Some(format) = attrs.get("data_format") else { return Ok(None) };
    let last: &[u8] = match decode(format)?.s.as_deref() {
        Some(b"NCHW") => b"NHWC",
        Some(b"NCDHW") => b"NDHWC",
        _ => return Ok(None),
    };
    let format = AttrValue { s: Some(last.to_vec()), list: None };
    attrs.insert("data_format".into(), format.encode_to_vec());
    for (name, values) in [("strides", 1), ("ksize", 1), ("dilations", 1), ("explicit_paddings", 2)] {
        let Some(bytes) = attrs.get_mut(name) else { continue };
        let mut value = decode(bytes)?;
        if let Some(list) = &mut value.list
            && list.i.len() == last.len() * values
        {
            list.i[values..].rotate_left(values);
            *bytes = value.encode_to_vec();
        }
    }
    Ok(Some(layout))
}

fn decode(bytes: &[u8]) -> Result<AttrValue, Fault> {
    AttrValue::decode(bytes).map_err(|e| Fault::new(format!("softgpu: attribute: {e}")))
}

/// The channels-last copy of a channels-first image.
pub fn image(image: &Tensor) -> Result<Tensor, Fault> {
    let mut dims = image.dims();
    let matrix = Matrix::of(&dims, image.bytes());
    if dims.len() > 2 {
        dims[1..].rotate_left(1);
    }
    let mut out = Tensor::new(image.dtype(), &dims, image.bytes())?;
    let (from, to) = (image.content(), out.content_mut());
    transpose::batched(from, to, matrix.batch, matrix.channels, matrix.pixels, matrix.element);
    Ok(out)
}

/// The dimensions, channels first, of a channels-last image.
pub fn channels_first(dims: &[i64]) -> Vec<i64> {
    let mut dims = dims.to_vec();
    if dims.len() > 2 {
        dims[1..].rotate_right(1);
    }
    dims
}

/// Writes a channels-last image channels first; `dims` are the channels-first ones.
pub fn write(dims: &[i64], from: &[u8], to: &mut [u8]) {
    let matrix = Matrix::of(dims, from.len());
    transpose::batched(from, to, matrix.batch, matrix.pixels, matrix.channels, matrix.element);
}

/// The copy of a vector with a value for each dimension.
pub fn vector(vector: &Tensor) -> Result<Tensor, Fault> {
    let mut out = Tensor::new(vector.dtype(), &vector.dims(), vector.bytes())?;
    let to = out.content_mut();
    to.copy_from_slice(vector.content());
    let count = vector.dims().iter().product::<i64>().max(1) as usize;
    let element = to.len() / count;
    if count > 3 {
        to[element..].rotate_left(element);
    }
    Ok(out)
}

/// A channels-first image as matrices of channels by pixels.
struct Matrix {
    batch: usize,
    channels: usize,
    pixels: usize,
    element: usize,
}

impl Matrix {
    fn of(dims: &[i64], bytes: usize) -> Matrix {
        let size = |dims: &[i64]| dims.iter().product::<i64>().max(0) as usize;
        let (batch, channels, pixels) = match dims {
            [batch, channels, pixels @ ..] if !pixels.is_empty() => {
                (*batch as usize, *channels as usize, size(pixels))
            }
            _ => (1, 1, size(dims)),
        };
        let count = batch * channels * pixels;
        Matrix { batch, channels, pixels, element: bytes.checked_div(count).unwrap_or(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::ListValue;

    fn ints(values: &[i64]) -> Vec<u8> {
        let list = ListValue { i: values.to_vec(), types: vec![] };
        AttrValue { list: Some(list), s: None }.encode_to_vec()
    }

    fn text(value: &str) -> Vec<u8> {
        AttrValue { list: None, s: Some(value.into()) }.encode_to_vec()
    }

    #[test]
    fn attributes_change_their_order() {
        let mut attrs = BTreeMap::from([
            ("data_format".to_owned(), text("NCHW")),
            ("strides".to_owned(), ints(&[1, 10, 2, 3])),
            ("explicit_paddings".to_owned(), ints(&[0, 0, 7, 8, 1, 2, 3, 4])),
            ("dilations".to_owned(), ints(&[])),
        ]);
        let layout = to_channels_last("Conv2D", &mut attrs).unwrap().unwrap();
        assert_eq!(layout.images, [0]);
        assert_eq!(attrs["data_format"], text("NHWC"));
        assert_eq!(attrs["strides"], ints(&[1, 2, 3, 10]));
        assert_eq!(attrs["explicit_paddings"], ints(&[0, 0, 1, 2, 3, 4, 7, 8]));
        assert_eq!(attrs["dilations"], ints(&[]));
    }

    #[test]
    fn volumes_too() {
        let mut attrs = BTreeMap::from([
            ("data_format".to_owned(), text("NCDHW")),
            ("ksize".to_owned(), ints(&[1, 9, 2, 3, 4])),
        ]);
        assert!(to_channels_last("MaxPool3DGrad", &mut attrs).unwrap().is_some());
        assert_eq!(attrs["ksize"], ints(&[1, 2, 3, 4, 9]));
    }

    #[test]
    fn channels_last_and_other_ops_stay() {
        for (op, format) in [("Conv2D", "NHWC"), ("Conv2D", "NCHW_VECT_C"), ("MatMul", "NCHW")] {
            let mut attrs = BTreeMap::from([("data_format".to_owned(), text(format))]);
            let before = attrs.clone();
            assert!(to_channels_last(op, &mut attrs).unwrap().is_none());
            assert_eq!(attrs, before);
        }
    }

    #[test]
    fn an_image_comes_back() {
        assert_eq!(channels_first(&[2, 5, 6, 3]), [2, 3, 5, 6]);
        assert_eq!(channels_first(&[1, 4, 5, 6, 3]), [1, 3, 4, 5, 6]);
        let from = [0, 1, 2, 3, 4, 5]; // 3 pixels of 2 channels
        let mut to = [0; 6];
        write(&[1, 2, 3, 1], &from, &mut to);
        assert_eq!(to, [0, 2, 4, 1, 3, 5]);
    }
}
