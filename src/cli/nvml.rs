//! What NVIDIA's management library says of the machine.

#[cfg(feature = "nvml")]
use nvml_wrapper::{Nvml, error::NvmlError};

/// The memory of each GPU of the machine, in bytes.
///
/// # Errors
///
/// Why that is not known, in a few words.
#[cfg(feature = "nvml")]
pub fn gpu_memory() -> Result<Vec<u64>, String> {
    let query = || -> Result<Vec<u64>, NvmlError> {
        let nvml = Nvml::init()?;
        (0..nvml.device_count()?).map(|index| Ok(nvml.device_by_index(index)?.memory_info()?.total)).collect()
    };
    match query() {
        Ok(memory) if memory.is_empty() => Err("the machine has no NVIDIA GPU".to_string()),
        Ok(memory) => Ok(memory),
        Err(NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound) => {
            Err("NVIDIA's driver is not there".to_string())
        }
        Err(error) => Err(format!("NVIDIA's driver says: {error}")),
    }
}

/// The same where this was built without the feature `nvml`.
///
/// # Errors
///
/// Always.
#[cfg(not(feature = "nvml"))]
pub fn gpu_memory() -> Result<Vec<u64>, String> {
    Err("this was built without --features nvml, which asks NVIDIA's driver".to_string())
}
