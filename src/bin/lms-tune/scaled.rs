//! Many GPUs that are not there yet.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::fs;

use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};
use tf_lms::chart::{Chart, ScalingChart, ScalingPoint, ScalingSeries};
use tf_lms::cli::{Failure, Page, Size, milliseconds};
use tf_lms::pipeline::Scaled;
use tf_lms::scale::{MOST_GPUS, Prediction, Scaling};
use tf_lms::{Error, Plan};

use crate::args::Args;
use crate::output::print;

/// The most GPUs of the table and the chart, unless more are asked about.
const CHARTED: u32 = 4096;

/// All that is said of a model on many GPUs.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    /// Nothing of it was measured on several GPUs.
    is_predicted: bool,
    gpu_mem: u64,
    device_profile: String,
    cluster: Value,
    examples_per_worker: Option<u64>,
    reduced_bytes: u64,
    buckets: usize,
    /// Whether no plan is needed.
    fits_as_it_is: bool,
    /// Where `--scale-to` was given: the most GPUs at which so much is left, with LMS.
    scale_to: Option<ScaleTo>,
    /// Without a plan, were there no end of memory.
    without: Way,
    /// In the budget, with plans where they are needed; none if it does not fit.
    with: Option<Way>,
    #[serde(skip)]
    name: String,
}

#[derive(Debug, Serialize)]
struct ScaleTo {
    efficiency: f64,
    gpus: u32,
}

/// One way of training.
#[derive(Debug, Serialize)]
struct Way {
    alone_seconds: f64,
    asked: Point,
    curve: Vec<Point>,
}

/// So many GPUs.
#[derive(Debug, Serialize)]
struct Point {
    gpus: u32,
    nodes: u32,
    gpus_per_node: u32,
    gpus_sharing_a_link: u32,
    step_seconds: f64,
    steps_per_second: f64,
    examples_per_second: Option<f64>,
    efficiency: f64,
    reduce_seconds: f64,
    waited_seconds: f64,
    link_seconds: f64,
    limit: String,
    /// The step in seconds if something took no time.
    step_seconds_without: Value,
    #[serde(skip)]
    prediction: Prediction,
}

/// Predicts, prints and draws.
pub fn run(args: &Args, gpus: u32) -> anyhow::Result<()> {
    if gpus > MOST_GPUS {
        return Err(Failure::Usage.error(format!("--nodes: {gpus} GPUs are more than {MOST_GPUS}")));
    }
    let model = args.model.read_step(&args.graph, &args.step)?;
    let budget = args.budget.budget(None, &args.tflms)?;
    let cluster = args.scale.cluster(&budget.profile).context("--network is not given")?;
    let plan = args.plan.as_deref().map(|path| -> anyhow::Result<Plan> {
        let name = path.display().to_string();
        Ok(Plan::from_json(&name, &fs::read(path).with_context(|| name.clone())?)?)
    });
    let plan = plan.transpose()?;
    let (options, parallel) = (args.graph.analysis(), args.scale.options());
    let scaled = model.scaled(&options, &budget, &cluster, &parallel, plan.as_ref());
    let scaled = scaled.map_err(|error| match error {
        // It is about the graph, and does not know the file.
        Error::Unpredictable(_) => anyhow::Error::new(error).context(model.name().to_string()),
        _ => error.into(),
    })?;
    let examples = args.scale.examples.or(scaled.examples);
    let way = |scaling: &Scaling| way(scaling, gpus, examples);
    let with = scaled.with.as_ref();
    let scale_to = args.scale.scale_to.zip(with).map(|(efficiency, scaling)| -> anyhow::Result<ScaleTo> {
        Ok(ScaleTo { efficiency, gpus: scaling.most_gpus(efficiency)? })
    });
    let report = Report {
        schema: 1,
        is_predicted: true,
        gpu_mem: budget.memory_bytes.first().copied().unwrap_or(0),
        device_profile: budget.profile.name.clone(),
        cluster: json!({
            "gpus_per_node": cluster.gpus_per_node,
            "gpus_per_link": cluster.gpus_per_link,
            "network_bytes_per_second": cluster.network.bytes_per_second,
            "network_latency_seconds": cluster.network.latency_seconds,
            "node_network_bytes_per_second": cluster.node_network.bytes_per_second,
            "node_network_latency_seconds": cluster.node_network.latency_seconds,
            "all_reduce": cluster.all_reduce.name(),
            "host_adds_bytes_per_second": cluster.adding_bytes_per_second,
        }),
        examples_per_worker: examples,
        reduced_bytes: scaled.without.buckets().iter().map(|bucket| bucket.bytes).sum(),
        buckets: scaled.without.buckets().len(),
        fits_as_it_is: scaled.fits_as_it_is,
        scale_to: scale_to.transpose()?,
        without: way(&scaled.without)?,
        with: with.map(way).transpose()?,
        name: model.name().to_string(),
    };
    if let Some(path) = &args.plot {
        report.chart(args.scale.scale_to, &scaled).write(path)?;
    }
    let text = match args.verbosity.json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => report.to_string(),
    };
    print(args, &text)?;
    match report.with {
        Some(_) => Ok(()),
        None => Err(Failure::DoesNotFit.error(format!(
            "{}: a worker does not fit in {}",
            report.name,
            Size(report.gpu_mem)
        ))),
    }
}

/// The curve of one way, from 1 GPU on in powers of 2, and what was asked about.
fn way(scaling: &Scaling, gpus: u32, examples: Option<u64>) -> anyhow::Result<Way> {
    let point = |gpus: u32| Ok::<Point, anyhow::Error>(Point::of(scaling.predict(gpus)?, examples));
    let doubled = std::iter::successors(Some(1), |&gpus| Some(gpus * 2));
    let counts: BTreeSet<u32> =
        doubled.take_while(|&count| count <= CHARTED.max(gpus)).chain([gpus]).collect();
    Ok(Way {
        alone_seconds: scaling.alone_seconds(),
        asked: point(gpus)?,
        curve: counts.into_iter().map(point).collect::<Result<_, _>>()?,
    })
}

impl Point {
    fn of(prediction: Prediction, examples: Option<u64>) -> Point {
        let layout = prediction.layout;
        let steps = 1.0 / prediction.step_seconds;
        let without = prediction.without.iter();
        let without = without.map(|without| (without.limit.key(), json!(without.step_seconds)));
        Point {
            gpus: layout.gpus,
            nodes: layout.nodes,
            gpus_per_node: layout.gpus_of_node,
            gpus_sharing_a_link: layout.sharing,
            step_seconds: prediction.step_seconds,
            steps_per_second: steps,
            examples_per_second: examples.map(|examples| examples as f64 * f64::from(layout.gpus) * steps),
            efficiency: prediction.efficiency,
            reduce_seconds: prediction.reduce_seconds,
            waited_seconds: prediction.waited_seconds,
            link_seconds: prediction.link_seconds,
            limit: prediction.limit.key(),
            step_seconds_without: Value::Object(without.collect()),
            prediction,
        }
    }

    /// The rate of all workers: examples, or batches where nobody knows how many examples these have.
    fn rate(&self) -> f64 {
        self.examples_per_second.unwrap_or(self.steps_per_second * f64::from(self.gpus))
    }
}

impl Report {
    fn rate_unit(&self) -> &'static str {
        if self.examples_per_worker.is_some() { "examples/s" } else { "batches/s" }
    }

    fn without_name(&self) -> &'static str {
        if self.fits_as_it_is { "without LMS" } else { "without LMS, in more memory" }
    }

    /// Whether a plan changes anything.
    fn has_plan(&self) -> bool {
        self.with.as_ref().is_some_and(|with| with.alone_seconds != self.without.alone_seconds)
            || !self.fits_as_it_is
    }

    fn chart(&self, wanted_efficiency: Option<f64>, scaled: &Scaled) -> ScalingChart {
        let cluster = scaled.without.cluster();
        let series = |name: &str, way: &Way, is_told: bool| ScalingSeries {
            name: name.to_string(),
            points: way
                .curve
                .iter()
                .map(|point| ScalingPoint {
                    gpus: point.gpus,
                    rate: point.rate(),
                    efficiency: point.efficiency,
                    is_marked: is_told && point.gpus == way.asked.gpus,
                })
                .collect(),
        };
        let with = self.with.as_ref().filter(|_| self.has_plan()).map(|way| series("with LMS", way, true));
        let without = series(self.without_name(), &self.without, with.is_none());
        ScalingChart {
            title: format!(
                "{}, {}, {} GPUs in a node, {}",
                self.name,
                self.device_profile,
                cluster.gpus_per_node,
                cluster.all_reduce.name()
            ),
            rate_unit: self.rate_unit().to_string(),
            series: with.into_iter().chain([without]).collect(),
            wanted_efficiency,
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.with.as_ref().unwrap_or(&self.without);
        let Point { gpus, nodes, gpus_per_node, .. } = told.asked;
        let how = match (&self.with, self.has_plan()) {
            (None, _) => "it does not fit; without LMS, in more memory",
            (_, true) => "with LMS",
            (_, false) => "as it is",
        };
        let mut page = Page::titled(format_args!(
            "{}: {gpus} GPUs, {nodes} nodes of {gpus_per_node}, {how}, in {}, on {} (predicted)",
            self.name,
            Size(self.gpu_mem),
            self.device_profile
        ));
        self.step(&mut page, told);
        self.traffic(&mut page, &told.asked);
        if let Some(ScaleTo { efficiency, gpus }) = self.scale_to {
            let or_more = if gpus == MOST_GPUS { " or more" } else { "" };
            let name = format!("{:.0}% is left", efficiency * 100.0);
            page.row(&name, format_args!("at up to {gpus} GPUs{or_more}"));
        }
        self.curve(&mut page, told);
        page.fmt(f)
    }
}

impl Report {
    /// How long a step takes with all GPUs, and what limits it.
    fn step(&self, page: &mut Page, told: &Way) {
        let asked = &told.asked;
        let [alone, all] = [told.alone_seconds, asked.step_seconds].map(milliseconds);
        page.row("step", format_args!("{alone} alone, {all} with all"));
        let (rate, unit) = (asked.rate(), self.rate_unit());
        let each = rate / f64::from(asked.gpus);
        page.row("rate", format_args!("{rate:.2} {unit} of all, {each:.2} of each"));
        page.row("efficiency", format_args!("{:.1}% of one worker's rate", asked.efficiency * 100.0));
        page.row("limited by", asked.prediction.limit.name());
        page.heading("step without");
        for without in &asked.prediction.without {
            page.part(without.limit.name(), milliseconds(without.step_seconds));
        }
    }

    /// What goes over the network and the links to the host.
    fn traffic(&self, page: &mut Page, asked: &Point) {
        let bytes = Size(self.reduced_bytes);
        let [on_their_way, waited] = [asked.reduce_seconds, asked.waited_seconds].map(milliseconds);
        let reduced = format!(
            "{bytes} by each in {} buckets; {on_their_way} on their way, {waited} of that waited for",
            self.buckets
        );
        page.row("reduced", reduced);
        let busy = asked.link_seconds / asked.step_seconds * 100.0;
        let sharing = asked.gpus_sharing_a_link;
        page.row("link to the host", format_args!("shared by {sharing}; busy {busy:.0}% of the step"));
    }

    fn curve(&self, page: &mut Page, told: &Way) {
        let rows = told.curve.iter().map(|point| {
            [
                point.gpus.to_string(),
                point.nodes.to_string(),
                milliseconds(point.step_seconds),
                format!("{:.2}", point.rate()),
                format!("{:.1}%", point.efficiency * 100.0),
                point.prediction.limit.name().to_string(),
            ]
        });
        let rows: Vec<[String; 6]> = rows.collect();
        page.table(["GPUs", "nodes", "step", self.rate_unit(), "efficiency", "limited by"], &rows);
    }
}
