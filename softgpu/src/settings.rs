//! The settings, all of them environment variables, read once when TensorFlow loads the plug-in.
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `SOFTGPU_DEVICES` | `1` | how many GPUs there are, up to 16 |
//! | `SOFTGPU_MEMORY` | `16GiB` | memory of a GPU; a comma-separated list gives each its own |
//! | `SOFTGPU_ALLOCATOR` | `bfc` | `bfc`: TensorFlow's allocator, as on a GPU, takes one region of all the memory. `exact`: every tensor reaches the plug-in, so that its live and peak bytes are exact |
//! | `SOFTGPU_RATE` | `unlimited` | rate of the link to the host in each direction, as `16GB/s` |
//! | `SOFTGPU_RATE_IN` | `SOFTGPU_RATE` | the same, from host to GPU only |
//! | `SOFTGPU_RATE_OUT` | `SOFTGPU_RATE` | the same, from GPU to host only |
//! | `SOFTGPU_ALLOC_WAIT` | `2s` | with the exact allocator: how long an allocation waits for memory to come free before it fails (TensorFlow's BFC has its own wait of 10 s) |
//! | `SOFTGPU_DEVICE_TYPE` | `GPU` | the device type. A CUDA build of TensorFlow has kernels of its own for `GPU`, so there it is refused: `SOFTGPU`, say, works, with the graph on `/device:SOFTGPU:0` |
//! | `SOFTGPU_LAYOUT` | `0` | `1`: Grappler's layout optimizer is on, as it is for a GPU: it puts the channels of images first |
//! | `SOFTGPU_TRACE` | `0` | `1`: record the trace from the start |
//! | `SOFTGPU_VERBOSE` | `0` | `1`: say on standard error what was registered |
//! | `SOFTGPU_PRETEND_VERSION` | | for tests: take TensorFlow's version to be this |
//!
//! A variable that begins with `SOFTGPU_` and is not in this table is refused, as is a value that does not parse:
//! the library then fails to load with a message that names the variable.

use crate::units;
use std::ffi::CString;
use std::time::Duration;

/// Who hands out device memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allocator {
    /// TensorFlow's, which takes all memory as one region.
    Bfc,
    /// The plug-in, tensor by tensor.
    Exact,
}

/// See the module's table.
#[derive(Debug, PartialEq)]
pub struct Settings {
    /// A limit in bytes for each device: there are as many devices.
    pub memory: Vec<u64>,
    /// `SOFTGPU_ALLOCATOR`.
    pub allocator: Allocator,
    /// Bytes a second from host to device; `None` is unlimited.
    pub rate_in: Option<u64>,
    /// The same from device to host.
    pub rate_out: Option<u64>,
    /// `SOFTGPU_ALLOC_WAIT`.
    pub alloc_wait: Duration,
    /// `SOFTGPU_DEVICE_TYPE`.
    pub device_type: CString,
    /// `SOFTGPU_LAYOUT`.
    pub layout: bool,
    /// `SOFTGPU_TRACE`.
    pub trace: bool,
    /// `SOFTGPU_VERBOSE`.
    pub verbose: bool,
    /// `SOFTGPU_PRETEND_VERSION`.
    pub pretend_version: Option<String>,
}

const PREFIX: &str = "SOFTGPU_";
const NAMES: [&str; 12] = [
    "DEVICES",
    "MEMORY",
    "ALLOCATOR",
    "RATE",
    "RATE_IN",
    "RATE_OUT",
    "ALLOC_WAIT",
    "DEVICE_TYPE",
    "LAYOUT",
    "TRACE",
    "VERBOSE",
    "PRETEND_VERSION",
];
const MAX_DEVICES: usize = 16;

impl Settings {
    /// Reads the process's environment.
    pub fn from_env() -> Result<Settings, String> {
        Settings::from_variables(std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        }))
    }

    /// Reads `variables`, of which only those that begin with `SOFTGPU_` count. An empty value is the default.
    pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Result<Settings, String> {
        let mut values = Vec::new();
        for (name, value) in variables {
            let Some(short) = name.strip_prefix(PREFIX) else { continue };
            if !NAMES.contains(&short) {
                return Err(format!(
                    "{name} is not a setting of softgpu: the settings are {}",
                    NAMES.map(|n| format!("{PREFIX}{n}")).join(", ")
                ));
            }
            if !value.trim().is_empty() {
                values.push((short.to_owned(), value.trim().to_owned()));
            }
        }
        let get = |name: &str| values.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        let devices = parse(get("DEVICES"), "DEVICES", 1, devices)?;
        let rate = parse(get("RATE"), "RATE", None, units::rate)?;
        Ok(Settings {
            memory: parse(get("MEMORY"), "MEMORY", vec![16 << 30; devices], |v| memory(v, devices))?,
            allocator: parse(get("ALLOCATOR"), "ALLOCATOR", Allocator::Bfc, allocator)?,
            rate_in: parse(get("RATE_IN"), "RATE_IN", rate, units::rate)?,
            rate_out: parse(get("RATE_OUT"), "RATE_OUT", rate, units::rate)?,
            alloc_wait: parse(get("ALLOC_WAIT"), "ALLOC_WAIT", Duration::from_secs(2), units::duration)?,
            device_type: parse(get("DEVICE_TYPE"), "DEVICE_TYPE", c"GPU".into(), device_type)?,
            layout: parse(get("LAYOUT"), "LAYOUT", false, switch)?,
            trace: parse(get("TRACE"), "TRACE", false, switch)?,
            verbose: parse(get("VERBOSE"), "VERBOSE", false, switch)?,
            pretend_version: get("PRETEND_VERSION").map(str::to_owned),
        })
    }
}

fn parse<T>(
    value: Option<&str>,
    name: &str,
    default: T,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<T, String> {
    match value {
        None => Ok(default),
        Some(value) => read(value).map_err(|expected| format!("{PREFIX}{name}={value}: {expected}")),
    }
}

fn devices(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=MAX_DEVICES).contains(&n) => Ok(n),
        _ => Err(format!("expected a number from 1 to {MAX_DEVICES}")),
    }
}

fn memory(text: &str, devices: usize) -> Result<Vec<u64>, String> {
    let sizes = text.split(',').map(|size| units::bytes(size.trim())).collect::<Result<Vec<_>, _>>()?;
    match sizes.len() {
        1 => Ok(vec![sizes[0]; devices]),
        n if n == devices => Ok(sizes),
        n => Err(format!("expected one size, or one for each of the {devices} devices, not {n}")),
    }
}

fn allocator(text: &str) -> Result<Allocator, String> {
    match text {
        "bfc" => Ok(Allocator::Bfc),
        "exact" => Ok(Allocator::Exact),
        _ => Err("expected bfc or exact".into()),
    }
}

fn device_type(text: &str) -> Result<CString, String> {
    let good = text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    match CString::new(text) {
        Ok(text) if good && text.as_bytes() != b"CPU" => Ok(text),
        _ => Err("expected a name in capitals such as GPU or SOFTGPU, not CPU".into()),
    }
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("expected 0 or 1".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::from_variables(variables.iter().map(|(n, v)| (n.to_string(), v.to_string())))
    }

    #[test]
    fn defaults() {
        let settings = read(&[("PATH", "/bin"), ("SOFTGPU_MEMORY", "")]).unwrap();
        assert_eq!(settings.memory, [16 << 30]);
        assert_eq!(settings.allocator, Allocator::Bfc);
        assert_eq!((settings.rate_in, settings.rate_out), (None, None));
        assert_eq!(settings.device_type.to_bytes(), b"GPU");
    }

    #[test]
    fn every_device_has_a_limit() {
        let settings = read(&[("SOFTGPU_DEVICES", "2"), ("SOFTGPU_MEMORY", "1GiB, 512MiB")]).unwrap();
        assert_eq!(settings.memory, [1 << 30, 512 << 20]);
        assert_eq!(
            read(&[("SOFTGPU_DEVICES", "3"), ("SOFTGPU_MEMORY", "1MiB")]).unwrap().memory,
            [1 << 20; 3]
        );
        assert!(read(&[("SOFTGPU_DEVICES", "3"), ("SOFTGPU_MEMORY", "1MiB,2MiB")]).is_err());
    }

    #[test]
    fn a_direction_overrides_the_common_rate() {
        let settings = read(&[("SOFTGPU_RATE", "16GB/s"), ("SOFTGPU_RATE_IN", "1MB/s")]).unwrap();
        assert_eq!((settings.rate_in, settings.rate_out), (Some(1_000_000), Some(16_000_000_000)));
    }

    #[test]
    fn bad_values_name_the_variable() {
        for (name, value) in [
            ("SOFTGPU_DEVICES", "0"),
            ("SOFTGPU_DEVICES", "17"),
            ("SOFTGPU_MEMORY", "12XB"),
            ("SOFTGPU_ALLOCATOR", "best"),
            ("SOFTGPU_RATE_OUT", "16GB"),
            ("SOFTGPU_ALLOC_WAIT", "2"),
            ("SOFTGPU_DEVICE_TYPE", "CPU"),
            ("SOFTGPU_DEVICE_TYPE", "gpu"),
            ("SOFTGPU_TRACE", "yes"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.starts_with(&format!("{name}={value}: expected")), "{error}");
        }
    }

    #[test]
    fn unknown_names_are_refused() {
        let error = read(&[("SOFTGPU_MEMROY", "1GiB")]).unwrap_err();
        assert!(error.contains("SOFTGPU_MEMROY is not") && error.contains("SOFTGPU_MEMORY"), "{error}");
    }
}
