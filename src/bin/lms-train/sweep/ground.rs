//! On which device, and in how much memory.

use tf_lms::cli::Failure;
use tf_lms::cost::DeviceProfile;
use tf_lms::train::DeviceChoice;

use crate::args::Args;

/// Where a sweep takes place.
pub struct Ground {
    pub device: DeviceChoice,
    /// What each GPU has, and so what plans are made for.
    pub gpu_mem: Vec<u64>,
}

impl Ground {
    /// The device's memory and the budget of plans: either says what the other is.
    ///
    /// # Errors
    ///
    /// If neither is known, or if there is no GPU's memory to run out of.
    pub fn of(args: &Args) -> anyhow::Result<Ground> {
        let usage = |message: &str| Err(Failure::Usage.error(message));
        if !args.device.is_gpu() && !args.sweep.predict {
            return usage("--sweep needs a GPU: --device soft:416MiB or --device gpu:0,8GiB, or --predict");
        }
        let is_real = matches!(args.device, DeviceChoice::Gpu { .. });
        let gpu_mem = match args.device.memory() {
            _ if args.budget.is_given() => args.budget.memory()?,
            Some(memory) => vec![memory],
            None if is_real => args.budget.memory()?,
            None => {
                return usage(
                    "--sweep needs to know how much memory there is: give it with the device, as in --device \
                     soft:416MiB, or as --gpu-mem 416MiB",
                );
            }
        };
        let limited = match (args.device.memory(), gpu_mem.as_slice()) {
            (None, &[memory]) if args.budget.is_given() => args.device.with_memory(memory),
            _ => None,
        };
        Ok(Ground { device: limited.unwrap_or_else(|| args.device.clone()), gpu_mem })
    }

    /// What predictions are for.
    ///
    /// # Errors
    ///
    /// If there is no profile of the name that was given.
    pub fn profile(&self, args: &Args) -> anyhow::Result<DeviceProfile> {
        args.budget.profile(matches!(self.device, DeviceChoice::Soft { .. }).then_some("soft"))
    }
}
