//! Device names.

use std::fmt;

/// A device name in its parts; each may be missing, as in `/job:worker/device:GPU:0` or `/gpu:1`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// The job of a cluster.
    pub job: Option<String>,
    /// The replica within the job.
    pub replica: Option<u32>,
    /// The task within the replica.
    pub task: Option<u32>,
    /// The type in upper case: `CPU`, `GPU`, ….
    pub kind: Option<String>,
    /// Which device of that type.
    pub index: Option<u32>,
}

/// A string that is no device name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no device name (expected something like /job:worker/task:0/device:GPU:0, /gpu:0 or GPU:0)")]
pub struct DeviceError(pub String);

impl Device {
    /// Reads a device name in TensorFlow's long form, its old short form (`/gpu:0`), or without slashes (`GPU:0`).
    ///
    /// # Errors
    ///
    /// If a part is none that a device name has, or a number is none. `*` counts as a missing part.
    pub fn parse(text: &str) -> Result<Device, DeviceError> {
        let error = || DeviceError(text.to_string());
        let mut device = Device::default();
        for part in text.split('/').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once(':').ok_or_else(error)?;
            let number = |value: &str| match value {
                "*" => Ok(None),
                _ => value.parse().map(Some).map_err(|_| error()),
            };
            match key {
                "job" => device.job = Some(value).filter(|job| *job != "*").map(str::to_string),
                "replica" => device.replica = number(value)?,
                "task" => device.task = number(value)?,
                "device" => {
                    let (kind, index) = value.split_once(':').unwrap_or((value, "*"));
                    device.kind = Some(kind).filter(|kind| *kind != "*").map(str::to_ascii_uppercase);
                    device.index = number(index)?;
                }
                kind if kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
                    device.kind = Some(kind.to_ascii_uppercase());
                    device.index = number(value)?;
                }
                _ => return Err(error()),
            }
        }
        Ok(device)
    }

    /// Whether the name says that this is a CPU.
    pub fn is_cpu(&self) -> bool {
        self.kind.as_deref() == Some("CPU")
    }

    /// The GPU that an op with this device runs on; none if the device is a CPU.
    ///
    /// TensorFlow's placer puts what names no type on the first GPU, and takes a missing number for 0.
    pub fn gpu(&self) -> Option<Device> {
        if self.is_cpu() {
            return None;
        }
        let kind = Some(self.kind.clone().unwrap_or_else(|| "GPU".to_string()));
        Some(Device { kind, index: Some(self.index.unwrap_or(0)), ..self.clone() })
    }

    /// `host` in the task of this device, with all parts named, so that no placer has a choice.
    ///
    /// What neither names is the only task of a session without a cluster, `/job:localhost/replica:0/task:0`.
    pub fn host(&self, host: &Device) -> Device {
        let job = host.job.clone().or_else(|| self.job.clone()).unwrap_or_else(|| "localhost".to_string());
        Device {
            job: Some(job),
            replica: Some(host.replica.or(self.replica).unwrap_or(0)),
            task: Some(host.task.or(self.task).unwrap_or(0)),
            kind: Some(host.kind.clone().unwrap_or_else(|| "CPU".to_string())),
            index: Some(host.index.unwrap_or(0)),
        }
    }

    /// `host` in whatever task runs the graph: a session that sees one task only has one such device.
    pub fn host_of_any_task(&self, host: &Device) -> Device {
        let kind = Some(host.kind.clone().unwrap_or_else(|| "CPU".to_string()));
        Device {
            job: host.job.clone().or_else(|| self.job.clone()),
            replica: host.replica.or(self.replica),
            task: host.task.or(self.task),
            kind,
            index: Some(host.index.unwrap_or(0)),
        }
    }

    /// Whether every part that `pattern` names is the same here.
    pub fn matches(&self, pattern: &Device) -> bool {
        fn same<T: PartialEq>(part: &Option<T>, wanted: &Option<T>) -> bool {
            wanted.is_none() || part == wanted
        }
        same(&self.job, &pattern.job)
            && same(&self.replica, &pattern.replica)
            && same(&self.task, &pattern.task)
            && same(&self.kind, &pattern.kind)
            && same(&self.index, &pattern.index)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(job) = &self.job {
            write!(f, "/job:{job}")?;
        }
        if let Some(replica) = self.replica {
            write!(f, "/replica:{replica}")?;
        }
        if let Some(task) = self.task {
            write!(f, "/task:{task}")?;
        }
        if let Some(kind) = &self.kind {
            write!(f, "/device:{kind}:")?;
            match self.index {
                Some(index) => write!(f, "{index}")?,
                None => f.write_str("*")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Device {
        Device::parse(text).unwrap()
    }

    #[test]
    fn all_notations_mean_the_same() {
        for text in ["/device:GPU:1", "/gpu:1", "GPU:1", "gpu:1"] {
            assert_eq!(parse(text).to_string(), "/device:GPU:1", "{text}");
        }
        let full = "/job:worker/replica:0/task:3/device:CPU:0";
        assert_eq!(parse(full).to_string(), full);
        assert_eq!(parse("/job:*/task:*/device:GPU:*").to_string(), "/device:GPU:*");
    }

    #[test]
    fn a_host_is_in_the_task_of_its_owner() {
        let cpu = parse("/cpu:0");
        assert_eq!(parse("").host(&cpu).to_string(), "/job:localhost/replica:0/task:0/device:CPU:0");
        assert_eq!(
            parse("/job:worker/task:2/device:GPU:1").host(&cpu).to_string(),
            "/job:worker/replica:0/task:2/device:CPU:0"
        );
    }

    #[test]
    fn what_names_no_type_runs_on_the_first_gpu() {
        assert_eq!(parse("").gpu(), parse("/gpu:0").gpu());
        assert_eq!(parse("/cpu:0").gpu(), None);
        assert!(parse("/task:1/gpu:0").matches(&parse("/gpu:0")));
        assert!(!parse("/gpu:1").matches(&parse("/gpu:0")));
    }

    #[test]
    fn what_is_no_device_is_an_error() {
        for text in ["gpu", "/job", "/task:x", "/device:GPU:x", "/a b:1"] {
            assert!(Device::parse(text).is_err(), "{text}");
        }
    }
}
