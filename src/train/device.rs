//! Where a graph runs.

use std::fmt;
use std::str::FromStr;

use crate::cli::parse_size;
use crate::proto::tensorflow::{ConfigProto, GpuOptions, GraphOptions};

/// Where a graph runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceChoice {
    /// On the CPU alone.
    Cpu,
    /// On TensorFlow's GPUs: all of them, or one.
    Gpu {
        /// Which.
        index: Option<u32>,
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
    #[error("expected cpu, gpu, gpu:N or soft[:MEMORY[,RATE]], such as soft:512MiB,16GB/s")]
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
            ("gpu", None) => Ok(DeviceChoice::Gpu { index: None }),
            ("gpu", Some(index)) => {
                let index = index.parse().map_err(|_| ParseDeviceError::Unknown)?;
                Ok(DeviceChoice::Gpu { index: Some(index) })
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
            DeviceChoice::Gpu { index: None } => f.write_str("gpu"),
            DeviceChoice::Gpu { index: Some(index) } => write!(f, "gpu:{index}"),
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
            DeviceChoice::Gpu { index } => {
                let visible_device_list = index.map(|index| index.to_string()).unwrap_or_default();
                config.gpu_options = Some(GpuOptions { visible_device_list, ..GpuOptions::default() });
            }
            // Without the fraction TensorFlow keeps 255 MiB of the limit for itself.
            DeviceChoice::Soft { .. } => {
                let options = GpuOptions { per_process_gpu_memory_fraction: 1.0, ..GpuOptions::default() };
                config.pluggable_device_options = Some(options);
            }
        }
        config
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
    fn devices_are_read_as_they_are_shown() {
        for text in ["cpu", "gpu", "gpu:2", "soft", "soft:1048576", "soft:1048576,16GB/s"] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
        }
        for wrong in ["", "tpu", "cpu:0", "gpu:x", "soft:", "soft:lots"] {
            assert!(wrong.parse::<DeviceChoice>().is_err(), "{wrong}");
        }
    }
}
