//! How much memory there is, how fast the machine is, and how to plan for it.

use std::fs;
use std::path::Path;

use super::Error;
use crate::cost::{DeviceProfile, MeasuredOps};
use crate::graph::Device;
use crate::plan::Analysis;
use crate::plan::tflms::Parameters;
use crate::simulate::{Allocator, Machine};
use crate::tune::planned::Settings;
use crate::tune::{
    Description, Entry, Progress, Setup, Strategy, StrategyError, UnknownStep, accuracy, automatic, entry,
};

/// The profile where nothing is said about the device.
pub const DEFAULT_PROFILE: &str = "v100-pcie3";

/// Where tensors go when they leave, unless told otherwise: the CPU in the task of the op that makes them.
const DEFAULT_HOST: &str = "/cpu:0";

/// How much memory there is, how fast the machine is, and how to plan for it.
#[derive(Debug, Clone)]
pub struct Budget {
    /// The memory of each GPU in bytes; the last counts for all further ones.
    pub memory_bytes: Vec<u64>,
    /// The part of it that a plan may count on, above 0, at most 1; none: what the measured error of predictions leaves.
    pub memory_ratio: Option<f64>,
    /// Whether only a plan will do that leaves the rest over, also where none is found and that part was not given.
    pub keeps_margin: bool,
    /// Who hands it out.
    pub allocator: Allocator,
    /// What the GPUs can do.
    pub profile: DeviceProfile,
    /// Times of ops that were measured, which count before the profile's; with the name of their file.
    pub op_times: Option<(String, MeasuredOps)>,
    /// Who looks for the plan.
    pub strategy: StrategyChoice,
    /// What the strategy `planned` may do, and for how long it improves plans.
    pub settings: Settings,
    /// What no strategy changes: filters, devices, the mode.
    pub parameters: Parameters,
    /// The strategy's own parameters ([`crate::tune::Description::parameters`]) that it is not to look for, by name.
    pub own_parameters: serde_json::Map<String, serde_json::Value>,
    /// Where tensors go when they leave.
    pub host_device: Device,
    /// How far the search for a plan has come, and a way to end it.
    pub progress: Progress,
}

/// A strategy that looks for plans.
#[derive(Debug, Clone, Copy, Default)]
pub enum StrategyChoice {
    /// The first of [`crate::tune::STRATEGIES`] that can do what is asked for: `planned`, or `tflms` if it is not known what a step runs.
    #[default]
    Automatic,
    /// This one of [`crate::tune::STRATEGIES`].
    This(&'static Entry),
}

impl StrategyChoice {
    /// The strategy of this name; none if there is none.
    pub fn named(name: &str) -> Option<StrategyChoice> {
        entry(name).map(StrategyChoice::This)
    }
}

impl Budget {
    /// GPUs of so many bytes each, of the default profile, and the default strategy.
    pub fn new(memory_bytes: u64) -> Budget {
        let profile = DeviceProfile::built_in(DEFAULT_PROFILE).cloned();
        Budget::on(profile.expect("the default profile is built in"), vec![memory_bytes])
    }

    /// GPUs of a profile; the memory of each in bytes, the last counts for all further ones.
    pub fn on(profile: DeviceProfile, memory_bytes: Vec<u64>) -> Budget {
        Budget {
            memory_bytes,
            memory_ratio: None,
            keeps_margin: false,
            allocator: Allocator::default(),
            profile,
            op_times: None,
            strategy: StrategyChoice::default(),
            settings: Settings::default(),
            parameters: Parameters::default(),
            own_parameters: serde_json::Map::new(),
            host_device: Device::parse(DEFAULT_HOST).expect("a device's name"),
            progress: Progress::default(),
        }
    }

    /// What a plan may count on of a GPU's memory, in bytes.
    pub fn usable_bytes(&self, memory_bytes: u64) -> u64 {
        match self.memory_ratio {
            Some(ratio) => (memory_bytes as f64 * ratio) as u64,
            None => accuracy::safe_bytes(memory_bytes),
        }
    }

    /// The memory of which a plan may count on so many bytes.
    pub fn memory_for(&self, bytes: u64) -> u64 {
        match self.memory_ratio {
            Some(ratio) => (bytes as f64 / ratio).ceil() as u64,
            None => accuracy::memory_for(bytes),
        }
    }

    /// A machine with so many of the GPUs, with the memory that a plan may count on.
    ///
    /// # Errors
    ///
    /// If a GPU has no memory, or nothing is said of any.
    pub fn machine(&self, gpus: usize) -> Result<Machine, Error> {
        if self.memory_bytes.is_empty() || self.memory_bytes.contains(&0) {
            return Err(Error::NoMemory);
        }
        let usable = self.memory_bytes.iter().map(|&bytes| self.usable_bytes(bytes)).collect();
        Ok(Machine::new(&self.profile, gpus, usable)
            .with_whole_memory(self.memory_bytes.clone())
            .with_allocator(self.allocator))
    }

    /// The strategy that plans for a graph.
    ///
    /// # Errors
    ///
    /// If the one that was chosen cannot plan for it.
    pub fn strategy(&self, analysis: &Analysis) -> Result<Box<dyn Strategy>, Error> {
        let is_known = analysis.step.is_known();
        let swaps_weights = self.settings.swap_weights;
        let may_swap = |known: &Description| !swaps_weights || known.can.swaps_weights;
        let entry = match self.strategy {
            StrategyChoice::This(entry) => entry,
            StrategyChoice::Automatic => {
                automatic(|known| may_swap(known) && (is_known || !known.can.needs_step))
            }
        };
        let known = entry.description;
        if !may_swap(known) {
            return Err(Error::WeightsStay);
        }
        if known.can.needs_step && !is_known {
            return Err(StrategyError::usage(known, UnknownStep).into());
        }
        Ok((entry.make)(Setup {
            settings: self.settings.clone(),
            fixed: self.parameters.clone(),
            own: self.own_parameters.clone(),
            progress: self.progress.clone(),
        })?)
    }
}

/// The device profile of this name, or in this file.
///
/// # Errors
///
/// If there is none.
pub fn profile(name: &str) -> Result<DeviceProfile, Error> {
    if let Some(profile) = DeviceProfile::built_in(name) {
        return Ok(profile.clone());
    }
    let known = || DeviceProfile::names().collect();
    let json = fs::read(Path::new(name)).map_err(|source| Error::NoSuchProfile {
        name: name.to_string(),
        known: known(),
        source,
    })?;
    Ok(DeviceProfile::from_json(name, &json)?)
}

/// The times of ops in a file that `lms-train --profile` wrote, with the file's name.
///
/// # Errors
///
/// If it cannot be read.
pub fn measured_ops(path: &Path) -> Result<(String, MeasuredOps), Error> {
    let name = path.display().to_string();
    let json = fs::read(path).map_err(|source| Error::Read { name: name.clone(), source })?;
    let times = MeasuredOps::from_json(&name, &json)?;
    Ok((name, times))
}

/// The device where tensors go when they leave; by default the CPU in the task of the op that makes them.
///
/// # Errors
///
/// If it is no device's name.
pub fn host_device(name: Option<&str>) -> Result<Device, Error> {
    Device::parse(name.unwrap_or(DEFAULT_HOST)).map_err(Error::HostDevice)
}
