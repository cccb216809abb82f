//! What each of several GPUs did.

use std::fmt::{self, Display};

use serde::Serialize;
use tf_lms::cli::Size;
use tf_lms::train::Counters;

use crate::args::Args;
use crate::inspect;
use crate::run::Trained;

/// Bytes in a step.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Traffic {
    pub bytes_out: u64,
    pub bytes_in: u64,
}

/// Seconds in a step.
#[derive(Debug, Serialize)]
pub struct Busy {
    pub kernels: f64,
    /// In which anything was copied.
    pub copies: f64,
    pub both: f64,
    /// In which something was copied out, and in.
    pub copies_out: f64,
    pub copies_in: f64,
}

/// One GPU's part in a step.
#[derive(Debug, Serialize)]
pub struct Gpu {
    /// Counted from 0.
    pub gpu: usize,
    pub limit_bytes: u64,
    pub peak_bytes: Option<u64>,
    pub traffic: Traffic,
    pub busy: Busy,
}

impl Gpu {
    /// The software GPUs that had a part in it, the first one in any case; none if there are none.
    pub fn all(args: &Args, trained: &Trained) -> Vec<Gpu> {
        let gpu = |(gpu, total): (usize, &Counters)| {
            let sampled = || inspect::sampled_peak(trained.metadata.as_ref()?, Some(gpu));
            let steps: Vec<&Counters> = trained.counted.iter().filter_map(|step| step.get(gpu)).collect();
            Some(Gpu {
                gpu,
                limit_bytes: total.limit_bytes,
                peak_bytes: if args.is_exact() { Some(total.peak_bytes) } else { sampled() },
                traffic: Traffic::of(steps.last()?),
                busy: Busy::of(&steps),
            })
        };
        let had_a_part = |gpu: &Gpu| gpu.gpu == 0 || gpu.busy.kernels > 0.0 || gpu.busy.copies > 0.0;
        trained.total.iter().flatten().enumerate().filter_map(gpu).filter(had_a_part).collect()
    }
}

impl Traffic {
    fn of(counted: &Counters) -> Traffic {
        Traffic { bytes_out: counted.copies_out.bytes, bytes_in: counted.copies_in.bytes }
    }

    /// Of all GPUs together; none if there are none.
    pub fn sum(gpus: &[Gpu]) -> Option<Traffic> {
        let sum = |bytes: fn(&Traffic) -> u64| gpus.iter().map(|gpu| bytes(&gpu.traffic)).sum();
        let all = Traffic { bytes_out: sum(|of| of.bytes_out), bytes_in: sum(|of| of.bytes_in) };
        Some(all).filter(|_| !gpus.is_empty())
    }
}

impl Busy {
    /// The mean over some steps.
    fn of(steps: &[&Counters]) -> Busy {
        let seconds = |nanos: fn(&Counters) -> u64| {
            steps.iter().map(|step| nanos(step)).sum::<u64>() as f64 / 1e9 / steps.len().max(1) as f64
        };
        Busy {
            kernels: seconds(|counted| counted.kernel_busy_ns),
            copies: seconds(|counted| counted.copy_busy_ns),
            both: seconds(|counted| counted.overlap_ns),
            copies_out: seconds(|counted| counted.copies_out.busy_ns),
            copies_in: seconds(|counted| counted.copies_in.busy_ns),
        }
    }

    /// The mean over GPUs; none if there are none.
    pub fn mean(gpus: &[Gpu]) -> Option<Busy> {
        let mean =
            |of: fn(&Busy) -> f64| gpus.iter().map(|gpu| of(&gpu.busy)).sum::<f64>() / gpus.len() as f64;
        let busy = || Busy {
            kernels: mean(|busy| busy.kernels),
            copies: mean(|busy| busy.copies),
            both: mean(|busy| busy.both),
            copies_out: mean(|busy| busy.copies_out),
            copies_in: mean(|busy| busy.copies_in),
        };
        (!gpus.is_empty()).then(busy)
    }
}

impl Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Traffic { bytes_out, bytes_in } = self.traffic;
        if let Some(peak) = self.peak_bytes {
            write!(f, "peak {} of {}; ", Size(peak), Size(self.limit_bytes))?;
        }
        let [kernels, copies] = [self.busy.kernels, self.busy.copies].map(|seconds| seconds * 1e3);
        write!(f, "{} out, {} in; ", Size(bytes_out), Size(bytes_in))?;
        write!(f, "kernels {kernels:.1} ms, copies {copies:.1} ms")
    }
}
