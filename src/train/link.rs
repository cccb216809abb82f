//! How fast a GPU and the host copy to each other.
//!
//! A tensor goes the way that a swapped one goes: from the GPU into host memory that TensorFlow pins, through a
//! `PreventGradient`, and back. Steps that go no way, half the way and the whole way are timed in turn, so that what a step
//! costs beside the copies falls out of the differences.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use prost::Message;
use serde::Serialize;

use crate::dtype::DataType;
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::tensor_shape_proto::Dim;
use crate::proto::tensorflow::{
    AttrValue, ConfigProto, GraphDef, NodeDef, TensorProto, TensorShapeProto, VersionDef,
};
use crate::runtime::{Session, SessionError, Step, TensorFlow};

const GPU: &str = "/device:GPU:0";
const HOST: &str = "/device:CPU:0";

/// The sizes that are copied. The first is so small that its time is what a copy costs in any case.
const SIZES: [u64; 8] = [1 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 128 << 20, 256 << 20];
/// A tensor takes no more than this part of the GPU's memory: it is there twice.
const SHARE: u64 = 4;
/// A size is copied at least so many times, and for at least so long.
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(400);
/// Larger sizes than one that takes this long tell nothing more.
const LONG: f64 = 0.25;

/// Why a link cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// No GPU.
    #[error("TensorFlow has no GPU here, so there is no link to measure")]
    NoGpu,
    /// Too little memory to see a rate.
    #[error("the GPU's {memory} bytes of memory are too few to measure its link: it takes {least}")]
    TooSmall {
        /// What it has.
        memory: u64,
        /// What it takes.
        least: u64,
    },
    /// TensorFlow's reason.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// One direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Direction {
    /// Bytes in a second, for large tensors.
    pub bytes_per_second: f64,
    /// The seconds that a copy takes beside those for its bytes.
    pub latency_seconds: f64,
}

/// The times for one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// The size.
    pub bytes: u64,
    /// Seconds from the GPU to the host.
    pub out_seconds: f64,
    /// Seconds from the host to the GPU.
    pub in_seconds: f64,
}

/// A link, measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Link {
    /// From the GPU to the host.
    pub out: Direction,
    /// From the host to the GPU.
    #[serde(rename = "in")]
    pub back: Direction,
    /// What the figures come from, by size.
    pub samples: Vec<Sample>,
}

impl Link {
    /// Measures the link between the host and the first GPU of a session with this configuration.
    ///
    /// # Errors
    ///
    /// If there is no GPU, or TensorFlow fails.
    pub fn measure(tensorflow: &'static TensorFlow, config: &ConfigProto) -> Result<Link, LinkError> {
        let devices = Session::new(tensorflow, &[], config)?.devices()?;
        let gpu = devices.iter().find(|device| device.name.ends_with(GPU)).ok_or(LinkError::NoGpu)?;
        let memory = u64::try_from(gpu.memory_bytes).unwrap_or(0);
        let mut samples = Vec::new();
        for bytes in SIZES.into_iter().filter(|bytes| bytes * SHARE <= memory) {
            let sample = Sample::measure(tensorflow, config, bytes)?;
            samples.push(sample);
            if sample.out_seconds.max(sample.in_seconds) > LONG {
                break;
            }
        }
        let too_small = LinkError::TooSmall { memory, least: SIZES[2] * SHARE };
        Link::of(samples).ok_or(too_small)
    }

    /// The rates of the largest size beside the smallest; none without two sizes that tell anything.
    fn of(samples: Vec<Sample>) -> Option<Link> {
        let (first, last) = (*samples.first()?, *samples.last()?);
        if last.bytes < SIZES[2] {
            return None;
        }
        let direction = |seconds: fn(&Sample) -> f64| {
            let latency_seconds = seconds(&first);
            let bytes_per_second = (last.bytes - first.bytes) as f64 / (seconds(&last) - latency_seconds);
            (bytes_per_second.is_finite() && bytes_per_second > 0.0)
                .then_some(Direction { bytes_per_second, latency_seconds })
        };
        let (out, back) = (direction(|sample| sample.out_seconds)?, direction(|sample| sample.in_seconds)?);
        Some(Link { out, back, samples })
    }
}

impl Sample {
    fn measure(
        tensorflow: &'static TensorFlow,
        config: &ConfigProto,
        bytes: u64,
    ) -> Result<Sample, LinkError> {
        let session = Session::new(tensorflow, &there_and_back(bytes).encode_to_vec(), config)?;
        session.run(&[], &[], &["assign"])?;
        let ways = [["read"], ["out"], ["back"]];
        let ways = ways.iter().map(|way| session.step(&[], &[], way)).collect::<Result<Vec<_>, _>>()?;
        // The first runs pin memory.
        for way in &ways {
            seconds(way)?;
        }
        let (mut out, mut back) = (Vec::new(), Vec::new());
        let start = Instant::now();
        while out.len() < ROUNDS || start.elapsed() < TIME {
            let round = ways.iter().map(seconds).collect::<Result<Vec<_>, _>>()?;
            out.push(round[1] - round[0]);
            back.push(round[2] - round[1]);
        }
        // Differences of nearly equal times may come out below zero.
        let [out_seconds, in_seconds] = [out, back].map(|seconds| median(seconds).max(0.0));
        Ok(Sample { bytes, out_seconds, in_seconds })
    }
}

fn seconds(step: &Step) -> Result<f64, SessionError> {
    let start = Instant::now();
    step.run(&[])?;
    Ok(start.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// A variable on the GPU, and the way from it to the host and back.
fn there_and_back(bytes: u64) -> GraphDef {
    let float = || Value::Type(DataType::FLOAT.number());
    let length = (bytes / 4) as i64;
    let shape = TensorShapeProto { dim: vec![Dim { size: length, ..Dim::default() }], ..Default::default() };
    let scalar = TensorShapeProto::default;
    let dims = TensorProto {
        dtype: DataType::INT64.number(),
        tensor_shape: Some(TensorShapeProto {
            dim: vec![Dim { size: 1, ..Dim::default() }],
            ..Default::default()
        }),
        int64_val: vec![length],
        ..TensorProto::default()
    };
    let one = TensorProto {
        dtype: DataType::FLOAT.number(),
        tensor_shape: Some(scalar()),
        float_val: vec![1.0],
        ..TensorProto::default()
    };
    let text = |value: &str| Value::S(value.as_bytes().to_vec());
    let variable = [
        ("dtype", float()),
        ("shape", Value::Shape(shape)),
        ("container", text("")),
        ("shared_name", text("variable")),
    ];
    let node = [
        node("variable", "VarHandleOp", GPU, &[], variable),
        node(
            "dims",
            "Const",
            HOST,
            &[],
            [("dtype", Value::Type(DataType::INT64.number())), ("value", Value::Tensor(dims))],
        ),
        node("one", "Const", GPU, &[], [("dtype", float()), ("value", Value::Tensor(one))]),
        node(
            "fill",
            "Fill",
            GPU,
            &["dims", "one"],
            [("T", float()), ("index_type", Value::Type(DataType::INT64.number()))],
        ),
        node("assign", "AssignVariableOp", GPU, &["variable", "fill"], [("dtype", float())]),
        node("read", "ReadVariableOp", GPU, &["variable"], [("dtype", float())]),
        node("out", "PreventGradient", HOST, &["read"], [("T", float()), ("message", text(""))]),
        node("back", "Identity", GPU, &["out"], [("T", float())]),
    ];
    // Graphs without a version are read as those of TensorFlow's first years.
    let versions = Some(VersionDef { producer: 1000, ..VersionDef::default() });
    GraphDef { node: node.into(), versions, ..GraphDef::default() }
}

fn node<const N: usize>(
    name: &str,
    op: &str,
    device: &str,
    input: &[&str],
    attrs: [(&str, Value); N],
) -> NodeDef {
    let attr = attrs.into_iter().map(|(key, value)| (key.to_string(), AttrValue { value: Some(value) }));
    NodeDef {
        name: name.to_string(),
        op: op.to_string(),
        device: device.to_string(),
        input: input.iter().map(ToString::to_string).collect(),
        attr: attr.collect::<BTreeMap<_, _>>(),
        ..NodeDef::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_copy_costs_is_not_in_the_rate() {
        let sample = |bytes: u64| Sample {
            bytes,
            out_seconds: 1e-3 + bytes as f64 / 1e9,
            in_seconds: (bytes as f64 / 4e9 - 1e-6).max(0.0),
        };
        let link = Link::of([1 << 10, 1 << 20, 16 << 20].map(sample).to_vec()).unwrap();
        assert!((link.out.bytes_per_second / 1e9 - 1.0).abs() < 1e-3, "{link:?}");
        assert!((link.out.latency_seconds - 1e-3).abs() < 2e-6, "{link:?}");
        assert!((link.back.bytes_per_second / 4e9 - 1.0).abs() < 1e-3, "{link:?}");
        assert_eq!(link.back.latency_seconds, 0.0);
        assert_eq!(Link::of(vec![sample(1 << 10), sample(64 << 10)]), None);
    }
}
