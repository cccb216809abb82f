//! What a GPU and its link can do.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::file::{self, CostFileError, SCHEMA};
use crate::dtype::DataType;

/// What errors call a file that holds one.
const WHAT: &str = "device profile";

/// What a GPU and its link to the host can do.
///
/// As JSON: an object with `"schema": 1` and the fields below; `source` may be left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceProfile {
    /// How to name it.
    pub name: String,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// The GPU's memory.
    pub memory_bytes: u64,
    /// The peak in `float32`: of the matrix units if TensorFlow uses them by default (TF32), else of the vector units. One
    /// multiplication and one addition are two.
    pub float32_flops_per_second: f64,
    /// The peak in `float16` and `bfloat16`, of the matrix units if there are any.
    pub float16_flops_per_second: f64,
    /// The peak in `float64`, of the matrix units if there are any.
    pub float64_flops_per_second: f64,
    /// How many times faster than the efficiency says `float32` convolutions of 3x3 are that Winograd's algorithm can take;
    /// 1 if it is not used.
    pub winograd_gain: f64,
    /// The peak rate of the GPU's memory.
    pub memory_bytes_per_second: f64,
    /// The part of a peak that convolutions of many channels reach, at most 1.
    pub compute_efficiency: f64,
    /// The part of the memory's peak rate that large elementwise ops reach, at most 1.
    pub memory_efficiency: f64,
    /// The least time that a kernel takes on the device.
    pub launch_seconds: f64,
    /// What the host needs to launch one op.
    pub host_op_seconds: f64,
    /// The rate of large copies to the host.
    pub link_out_bytes_per_second: f64,
    /// The rate of large copies from the host.
    pub link_in_bytes_per_second: f64,
    /// What a copy takes beside its bytes.
    pub link_latency_seconds: f64,
    /// How many GPUs share one link, and so its rates when all of them copy.
    pub gpus_per_link: u32,
    /// The most scratch memory that a convolution takes without matrix units, beside images in the other order; 0 if scratch is not device
    /// memory, whatever the op.
    pub workspace_bytes: u64,
    /// Whether kernels run in the thread that launches them, so that the host never runs ahead of the device.
    pub synchronous_kernels: bool,
    /// The bytes per second that TensorFlow's kernels of some ops move, where that was measured and is less than the memory's rate.
    /// An op's bytes are counted as for others, whatever its kernel moves. Those of batch norm are for channels that lie last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernel_bytes_per_second: BTreeMap<String, f64>,
    /// The same of ops that pair each value with one of several, such as sums of a matrix and a vector; none: as others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broadcast_bytes_per_second: Option<f64>,
    /// The rate of arithmetic of TensorFlow's kernels of some ops, in operations per second, where that was measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernel_flops_per_second: BTreeMap<String, f64>,
}

impl DeviceProfile {
    /// The built-in profile of this name.
    pub fn built_in(name: &str) -> Option<&'static DeviceProfile> {
        built_in().iter().find(|profile| profile.name == name)
    }

    /// The names of the built-in profiles.
    pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
        built_in().iter().map(|profile| profile.name.as_str())
    }

    /// Reads a profile. `name` is how errors call the file.
    ///
    /// # Errors
    ///
    /// If the JSON is no profile of this version, or a value is one that no device has.
    pub fn from_json(name: &str, json: &[u8]) -> Result<DeviceProfile, CostFileError> {
        let profile: DeviceProfile = file::read(name, WHAT, json)?;
        profile.validate(name)?;
        Ok(profile)
    }

    /// The profile as the JSON that [`DeviceProfile::from_json`] reads.
    pub fn to_json(&self) -> Value {
        #[derive(Serialize)]
        struct Versioned<'a> {
            schema: u32,
            #[serde(flatten)]
            profile: &'a DeviceProfile,
        }
        serde_json::json!(Versioned { schema: SCHEMA, profile: self })
    }

    /// The peak rate of arithmetic on values of a type, in operations per second.
    pub fn flops_per_second(&self, dtype: DataType) -> f64 {
        match dtype {
            DataType::HALF | DataType::BFLOAT16 => self.float16_flops_per_second,
            DataType::DOUBLE | DataType::COMPLEX128 => self.float64_flops_per_second,
            _ => self.float32_flops_per_second,
        }
    }

    /// Whether TensorFlow has matrix units multiply values of this type.
    pub fn has_matrix_units_for(&self, dtype: DataType) -> bool {
        let for_float32 = self.winograd_gain <= 1.0;
        let has = match dtype {
            DataType::DOUBLE => false,
            // The first ones multiply this type alone. Vector units are twice as fast at it as at twice as many bits.
            DataType::HALF => {
                for_float32 || self.float16_flops_per_second > 2.0 * self.float32_flops_per_second
            }
            _ => for_float32,
        };
        has && !self.synchronous_kernels
    }

    fn validate(&self, name: &str) -> Result<(), CostFileError> {
        let error = |field, value, expected| {
            Err(CostFileError::Field { name: name.to_string(), field, value, expected })
        };
        let positive = [
            ("memory_bytes", self.memory_bytes as f64),
            ("float32_flops_per_second", self.float32_flops_per_second),
            ("float16_flops_per_second", self.float16_flops_per_second),
            ("float64_flops_per_second", self.float64_flops_per_second),
            ("winograd_gain", self.winograd_gain),
            ("memory_bytes_per_second", self.memory_bytes_per_second),
            ("compute_efficiency", self.compute_efficiency),
            ("memory_efficiency", self.memory_efficiency),
            ("link_out_bytes_per_second", self.link_out_bytes_per_second),
            ("link_in_bytes_per_second", self.link_in_bytes_per_second),
            ("gpus_per_link", f64::from(self.gpus_per_link)),
        ];
        for (field, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return error(field, value, "a positive number");
            }
        }
        let measured = [
            ("kernel_bytes_per_second", &self.kernel_bytes_per_second),
            ("kernel_flops_per_second", &self.kernel_flops_per_second),
        ];
        let broadcast = self.broadcast_bytes_per_second.map(|rate| ("broadcast_bytes_per_second", rate));
        let rates =
            measured.into_iter().flat_map(|(field, rates)| rates.values().map(move |&rate| (field, rate)));
        for (field, rate) in rates.chain(broadcast) {
            if !(rate > 0.0 && rate.is_finite()) {
                return error(field, rate, "positive numbers");
            }
        }
        let parts =
            [("compute_efficiency", self.compute_efficiency), ("memory_efficiency", self.memory_efficiency)];
        for (field, value) in parts {
            if value > 1.0 {
                return error(field, value, "at most 1");
            }
        }
        if self.winograd_gain < 1.0 {
            return error("winograd_gain", self.winograd_gain, "at least 1");
        }
        let times = [
            ("launch_seconds", self.launch_seconds),
            ("host_op_seconds", self.host_op_seconds),
            ("link_latency_seconds", self.link_latency_seconds),
        ];
        for (field, value) in times {
            if !(value >= 0.0 && value.is_finite()) {
                return error(field, value, "a time that is not negative");
            }
        }
        Ok(())
    }
}

fn built_in() -> &'static [DeviceProfile] {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct BuiltIn {
        profiles: Vec<DeviceProfile>,
    }
    static PROFILES: OnceLock<Vec<DeviceProfile>> = OnceLock::new();
    PROFILES.get_or_init(|| {
        let json = include_bytes!("profiles.json");
        let file: BuiltIn =
            file::read("profiles.json", WHAT, json).expect("a test reads the built-in profiles");
        file.profiles
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the tools say of a profile, causes and all.
    fn refusal(name: &str, json: &str) -> String {
        format!("{:#}", anyhow::Error::from(DeviceProfile::from_json(name, json.as_bytes()).unwrap_err()))
    }

    fn edited(field: &str, value: Value) -> String {
        let mut json = DeviceProfile::built_in("a100").unwrap().to_json();
        json[field] = value;
        refusal("mine.json", &json.to_string())
    }

    #[test]
    fn built_in_profiles_are_valid_and_survive_json() {
        let names: Vec<_> = DeviceProfile::names().collect();
        assert_eq!(names, ["v100-pcie3", "v100-nvlink2", "a100", "h100", "h200", "gh200", "soft"]);
        for name in names {
            let profile = DeviceProfile::built_in(name).unwrap();
            assert!(!profile.source.is_empty(), "{name}");
            let json = profile.to_json().to_string();
            assert_eq!(&DeviceProfile::from_json(name, json.as_bytes()).unwrap(), profile);
        }
        assert_eq!(DeviceProfile::built_in("v100"), None);
    }

    #[test]
    fn gpus_of_one_processor_have_the_same_kernels() {
        let of = |name: &str| {
            let profile = DeviceProfile::built_in(name).unwrap();
            let DeviceProfile { kernel_bytes_per_second, kernel_flops_per_second, .. } = profile;
            (kernel_bytes_per_second, kernel_flops_per_second, profile.broadcast_bytes_per_second)
        };
        assert!(!of("h200").0.is_empty());
        assert_eq!((of("h100"), of("gh200")), (of("h200"), of("h200")));
    }

    #[test]
    fn errors_name_the_field() {
        assert_eq!(
            edited("memory_bytes_per_second", 0.into()),
            r#"mine.json: field "memory_bytes_per_second" is 0, expected a positive number"#
        );
        assert_eq!(
            edited("launch_seconds", (-1).into()),
            r#"mine.json: field "launch_seconds" is -1, expected a time that is not negative"#
        );
        assert_eq!(
            edited("compute_efficiency", 1.5.into()),
            r#"mine.json: field "compute_efficiency" is 1.5, expected at most 1"#
        );
        assert_eq!(
            edited("kernel_bytes_per_second", serde_json::json!({"Relu": -1})),
            r#"mine.json: field "kernel_bytes_per_second" is -1, expected positive numbers"#
        );
        assert_eq!(edited("schema", 2.into()), r#"mine.json: field "schema" is 2, expected 1"#);
        assert!(edited("memory_byte", 1.into()).contains("unknown field `memory_byte`"));
        assert!(edited("gpus_per_link", "two".into()).contains("invalid type: string \"two\""));
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        let error = |json: &str| refusal("it", json);
        assert!(error("{\"schema\": 1}").contains("missing field `name`"));
        assert!(error("{}").contains("field \"schema\" is null"));
        assert!(error("[1]").starts_with("it: is no device profile"));
        assert!(error("{").starts_with("it: is no device profile"));
    }
}
