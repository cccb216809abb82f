//! TensorFlow and its devices.

use anyhow::bail;
use tf_lms::cli::Failure;
use tf_lms::proto::tensorflow::ConfigProto;
use tf_lms::runtime::{Session, TensorFlow};
use tf_lms::train::{DeviceChoice, SoftGpu};

use crate::args::Args;
use crate::workers::Workers;

/// TensorFlow with the device that the user chose.
pub struct Setup {
    pub tensorflow: &'static TensorFlow,
    pub soft: Option<SoftGpu>,
    pub config: ConfigProto,
    /// This worker, if there are others.
    pub workers: Option<Workers>,
}

impl Setup {
    pub fn new(args: &Args) -> anyhow::Result<Setup> {
        if args.exact_memory && !matches!(args.device, DeviceChoice::Soft { .. }) {
            return Err(Failure::Usage.error("--exact-memory is for the software GPU: --device soft"));
        }
        if args.grappler_memory.is_some() && args.sweep.sweep.is_none() && args.rewrites() {
            return Err(
                Failure::Usage.error("--grappler-memory rewrites instead of LMS: leave the flags of LMS out")
            );
        }
        if args.verbosity.verbose {
            TensorFlow::let_speak();
        }
        let tensorflow = TensorFlow::open(args.graph.tensorflow.as_deref())?;
        let soft = match &args.device {
            DeviceChoice::Soft { memory, rate } => {
                let memory = memory.map(|memory| ("SOFTGPU_MEMORY", memory.to_string()));
                let rate = rate.clone().map(|rate| ("SOFTGPU_RATE", rate));
                let exact = args.is_exact().then(|| ("SOFTGPU_ALLOCATOR", "exact".to_string()));
                // CUDA's allocator does not wait for copies either.
                let no_wait = args.is_async().then(|| ("SOFTGPU_ALLOC_WAIT", "0s".to_string()));
                let settings: Vec<_> = memory.into_iter().chain(rate).chain(exact).chain(no_wait).collect();
                Some(SoftGpu::load(tensorflow, args.softgpu.as_deref(), &settings)?)
            }
            DeviceChoice::Cpu | DeviceChoice::Gpu { .. } => None,
        };
        let mut config = device_of_worker(args).config(args.strict_placement, args.threads);
        if let Some(how) = args.grappler_memory {
            how.apply_to(&mut config);
        }
        let workers = Workers::join(args, tensorflow, &mut config)?;
        let setup = Setup { tensorflow, soft, config, workers };
        setup.check_device(args)?;
        Ok(setup)
    }

    /// A session for a graph: on this worker's server, if there are others. `calls_collectives` is for a graph of which functions reduce:
    /// TensorFlow looks for collectives in the graph alone, so what it calls must be a part of it.
    pub fn session(&self, graph_def: &[u8], calls_collectives: bool) -> anyhow::Result<Session> {
        let mut config = self.config.clone();
        if calls_collectives {
            let options = config.graph_options.get_or_insert_default();
            options.optimizer_options.get_or_insert_default().do_function_inlining = true;
        }
        match &self.workers {
            Some(workers) => workers.session(self.tensorflow, graph_def, &config),
            None => Ok(Session::new(self.tensorflow, graph_def, &config)?),
        }
    }

    /// TensorFlow without GPUs runs on the CPU and says nothing, so look.
    fn check_device(&self, args: &Args) -> anyhow::Result<()> {
        if !matches!(args.device, DeviceChoice::Gpu { .. }) {
            return Ok(());
        }
        let devices = self.session(&[], false)?.devices()?;
        if !devices.iter().any(|device| device.device_type == "GPU") {
            bail!(
                "TensorFlow {} finds no GPU; --device soft runs on a software GPU",
                self.tensorflow.version()
            );
        }
        Ok(())
    }
}

/// Each worker of a machine has a GPU of its own.
fn device_of_worker(args: &Args) -> DeviceChoice {
    match (&args.device, &args.cluster.found) {
        (DeviceChoice::Gpu { index: None, memory }, Some(cluster)) => {
            let place = args.cluster.place.unwrap_or_else(|| cluster.local_rank());
            DeviceChoice::Gpu { index: Some(place as u32), memory: *memory }
        }
        (device, _) => device.clone(),
    }
}
