//! The rates of the link between a GPU and the host.

use std::fmt::{self, Display};

use anyhow::Context;
use serde::Serialize;
use tf_lms::cli::{Failure, Size};
use tf_lms::train::{Direction, Link};

use crate::args::Args;
use crate::setup::Setup;
use crate::tasks::print;

/// A link, and whose it is.
#[derive(Debug, Serialize)]
struct Measured {
    schema: u32,
    device: String,
    #[serde(flatten)]
    link: Link,
}

/// Measures and reports.
pub fn measure_link(args: &Args) -> anyhow::Result<()> {
    if !args.device.is_gpu() {
        return Err(Failure::Usage.error("--measure-link needs a GPU: --device gpu or --device soft"));
    }
    let setup = Setup::new(args)?;
    let device = args.device.to_string();
    let link = Link::measure(setup.tensorflow, &setup.config).with_context(|| device.clone())?;
    print(args, &Measured { schema: 1, device, link })
}

impl Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the link of {} to the host, copying as swaps do", self.device)?;
        for (name, Direction { bytes_per_second, latency_seconds }) in
            [("out", self.link.out), ("in", self.link.back)]
        {
            let (rate, latency) = (bytes_per_second / 1e9, latency_seconds * 1e6);
            writeln!(f, "  {name:<10}{rate:.2} GB/s, and {latency:.0} µs for each copy")?;
        }
        for sample in &self.link.samples {
            let [out, back] = [sample.out_seconds, sample.in_seconds].map(|seconds| seconds * 1e3);
            writeln!(f, "  {:>12}  {out:.3} ms out, {back:.3} ms in", Size(sample.bytes).to_string())?;
        }
        Ok(())
    }
}
