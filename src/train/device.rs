//! Where a graph runs.

use std::fmt;
use std::str::FromStr;

use crate::proto::tensorflow::gpu_options::Experimental;
use crate::proto::tensorflow::gpu_options::experimental::VirtualDevices;
use crate::proto::tensorflow::{ConfigProto, GpuOptions, GraphOptions};
use crate::size::parse_size;

/// Where a graph runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceChoice {
    /// On the CPU alone.
    Cpu,
    /// On TensorFlow's GPUs: all of them, or one.
    Gpu {
        /// Which.
        index: Option<u32>,
        /// How many bytes of its memory TensorFlow may use; all if none.
        memory: Option<u64>,
    },
    /// On the software GPU.
    Soft {
        /// Its memory in bytes.
        memory: Option<u64>,
        /// The rate of its link, as `16GB/s`.
        rate: Option<String>,
    },
}

/// What is no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseDeviceError {
    /// None of the devices.
    #[error(
        "expected cpu, gpu[:N[,MEMORY]], such as gpu:0,8GiB, or soft[:MEMORY[,RATE]], such as soft:512MiB,16GB/s"
    )]
    Unknown,
    /// A size that is none.
    #[error("{0}")]
    Size(String),
}

impl FromStr for DeviceChoice {
    type Err = ParseDeviceError;

    fn from_str(text: &str) -> Result<DeviceChoice, ParseDeviceError> {
        let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        match (kind, rest) {
            ("cpu", None) => Ok(DeviceChoice::Cpu),
            ("gpu", None) => Ok(DeviceChoice::Gpu { index: None, memory: None }),
            ("gpu", Some(rest)) => {
                let (index, memory) = rest.split_once(',').map_or((rest, None), |(n, m)| (n, Some(m)));
                let index = index.parse().map_err(|_| ParseDeviceError::Unknown)?;
                let memory = memory.map(parse_size).transpose().map_err(ParseDeviceError::Size)?;
                Ok(DeviceChoice::Gpu { index: Some(index), memory })
            }
            ("soft", None) => Ok(DeviceChoice::Soft { memory: None, rate: None }),
            ("soft", Some(rest)) => {
                let (memory, rate) =
                    rest.split_once(',').map_or((rest, None), |(m, r)| (m, Some(r.to_string())));
                let memory = parse_size(memory).map_err(ParseDeviceError::Size)?;
                Ok(DeviceChoice::Soft { memory: Some(memory), rate })
            }
            _ => Err(ParseDeviceError::Unknown),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::Cpu => f.write_str("cpu"),
            DeviceChoice::Gpu { index: None, memory: None } => f.write_str("gpu"),
            DeviceChoice::Gpu { index, memory } => {
                write!(f, "gpu:{}", index.unwrap_or(0))?;
                memory.iter().try_for_each(|memory| write!(f, ",{memory}"))
            }
            DeviceChoice::Soft { memory: None, .. } => f.write_str("soft"),
            DeviceChoice::Soft { memory: Some(memory), rate } => {
                write!(f, "soft:{memory}")?;
                rate.iter().try_for_each(|rate| write!(f, ",{rate}"))
            }
        }
    }
}

impl DeviceChoice {
    /// How a session is to be set up for this device. `strict` refuses to run an op elsewhere than where the graph says.
    pub fn config(&self, strict: bool, threads: Option<u16>) -> ConfigProto {
        let threads = threads.map_or(0, i32::from);
        let mut config = ConfigProto {
            allow_soft_placement: !strict,
            // Savers restore resource variables by ops that name the CPU, although the variables name no device. Placed with the
            // whole graph, they would drag all variables to the CPU.
            graph_options: Some(GraphOptions { place_pruned_graph: true, ..GraphOptions::default() }),
            inter_op_parallelism_threads: threads,
            intra_op_parallelism_threads: threads,
            ..ConfigProto::default()
        };
        match self {
            DeviceChoice::Cpu => {
                config.device_count.insert("GPU".to_string(), 0);
            }
            DeviceChoice::Gpu { index, memory } => {
                let visible_device_list = index.map(|index| index.to_string()).unwrap_or_default();
                // A virtual device of this size is a hard limit; a fraction would depend on the GPU's memory.
                let experimental = memory.map(|memory| Experimental {
                    virtual_devices: vec![VirtualDevices {
                        memory_limit_mb: vec![memory as f32 / (1 << 20) as f32],
                        ..VirtualDevices::default()
                    }],
                    ..Experimental::default()
                });
                config.gpu_options =
                    Some(GpuOptions { visible_device_list, experimental, ..GpuOptions::default() });
            }
            // Without the fraction TensorFlow keeps 255 MiB of the limit for itself.
            DeviceChoice::Soft { .. } => {
                let options = GpuOptions { per_process_gpu_memory_fraction: 1.0, ..GpuOptions::default() };
                config.pluggable_device_options = Some(options);
            }
        }
        config
    }

    /// The limit of its memory, if it was given one.
    pub fn memory(&self) -> Option<u64> {
        match self {
            DeviceChoice::Cpu => None,
            DeviceChoice::Gpu { memory, .. } | DeviceChoice::Soft { memory, .. } => *memory,
        }
    }

    /// The same device with another limit of its memory; none for the CPU, which has none.
    pub fn with_memory(&self, limit: u64) -> Option<DeviceChoice> {
        match self {
            DeviceChoice::Cpu => None,
            // A limit is a single GPU's.
            DeviceChoice::Gpu { index, .. } => {
                Some(DeviceChoice::Gpu { index: Some(index.unwrap_or(0)), memory: Some(limit) })
            }
            DeviceChoice::Soft { rate, .. } => {
                Some(DeviceChoice::Soft { memory: Some(limit), rate: rate.clone() })
            }
        }
    }

    /// Whether the device has memory of its own, so that swapping makes sense.
    pub fn is_gpu(&self) -> bool {
        *self != DeviceChoice::Cpu
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_takes_the_place_of_another() {
        let limited = |text: &str| text.parse::<DeviceChoice>().unwrap().with_memory(64 << 20);
        assert_eq!(limited("cpu"), None);
        assert_eq!(limited("gpu").unwrap().to_string(), "gpu:0,67108864");
        assert_eq!(limited("gpu:1,8GiB").unwrap().to_string(), "gpu:1,67108864");
        assert_eq!(limited("soft:8GiB,1GB/s").unwrap().to_string(), "soft:67108864,1GB/s");
        let options = limited("gpu").unwrap().config(false, None).gpu_options.unwrap();
        assert_eq!(options.experimental.unwrap().virtual_devices[0].memory_limit_mb, [64.0]);
    }

    #[test]
    fn devices_are_read_as_they_are_shown() {
        for text in ["cpu", "gpu", "gpu:2", "gpu:0,1048576", "soft", "soft:1048576", "soft:1048576,16GB/s"] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
        }
        for wrong in ["", "tpu", "cpu:0", "gpu:x", "gpu:0,", "gpu:0,lots", "soft:", "soft:lots"] {
            assert!(wrong.parse::<DeviceChoice>().is_err(), "{wrong}");
        }
    }
}
