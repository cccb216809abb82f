//! Any number of GPUs: their step, what is left of one worker's rate, and what limits it.

use std::collections::BTreeMap;

use super::{Bucket, Cluster, Layout, Network, ScaleError, Step, together};

/// No more GPUs than so many are looked at.
pub const MOST_GPUS: u32 = 1 << 16;

/// What must make at least so much of a step shorter to be what limits it.
const WORTH_TELLING: f64 = 0.02;

/// One worker's step, and what it would be if something took no time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Situation {
    /// The step.
    pub step: Step,
    /// With copies between host and GPU that take no time.
    pub free_link: Step,
    /// With a host that launches ops in no time.
    pub free_host: Step,
}

/// What limits a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The GPU's computing.
    Computing,
    /// The link between a GPU and its host, with swaps and gradients on it.
    Link,
    /// The network's rate, or that within a node.
    Bandwidth,
    /// The network's latency, or that within a node.
    Latency,
    /// The host: launching ops, and adding gradients.
    Host,
}

impl Limit {
    /// What a report calls it.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Computing => "computing",
            Limit::Link => "swap link",
            Limit::Bandwidth => "network bandwidth",
            Limit::Latency => "network latency",
            Limit::Host => "host",
        }
    }

    /// What the document of a report calls it.
    pub fn key(self) -> String {
        self.name().replace(' ', "_")
    }
}

/// How long a step would be if something took no time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Without {
    /// What.
    pub limit: Limit,
    /// The step, in seconds.
    pub step_seconds: f64,
}

/// What is predicted of so many GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// How many, and where.
    pub layout: Layout,
    /// How long a step takes.
    pub step_seconds: f64,
    /// What is left of one worker's rate for each: above 0, at most 1.
    pub efficiency: f64,
    /// For how long gradients are on their way between workers.
    pub reduce_seconds: f64,
    /// How much of that nothing else goes on beside.
    pub waited_seconds: f64,
    /// For how long the link to the host is busy.
    pub link_seconds: f64,
    /// What limits it.
    pub limit: Limit,
    /// The step without each limit but computing.
    pub without: Vec<Without>,
}

/// One way of training on a cluster, whatever the number of GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    cluster: Cluster,
    alone: Situation,
    by_sharing: BTreeMap<u32, Situation>,
}

impl Scaling {
    /// `alone` is a step of one worker without any others, `by_sharing` that of one of several of which so many share a link: at least
    /// for each of [`Cluster::sharings`].
    ///
    /// A worker can also run what several run: that with a link of its own is taken for one worker's step if it is the shorter one.
    ///
    /// # Errors
    ///
    /// If there can be no such cluster, or the step of one GPU on a link is not there.
    pub fn new(
        cluster: Cluster,
        alone: Situation,
        by_sharing: BTreeMap<u32, Situation>,
    ) -> Result<Scaling, ScaleError> {
        cluster.check()?;
        let unshared = by_sharing.get(&1).ok_or(ScaleError::NotSimulated { sharing: 1 })?;
        let alone = if unshared.step.seconds < alone.step.seconds { unshared.clone() } else { alone };
        Ok(Scaling { cluster, alone, by_sharing })
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// How long one worker's step takes without any others.
    pub fn alone_seconds(&self) -> f64 {
        self.alone.step.seconds
    }

    /// What is reduced, as a worker with a link of its own sees it.
    pub fn buckets(&self) -> &[Bucket] {
        self.by_sharing.get(&1).map_or(&[], |situation| &situation.step.buckets)
    }

    /// What is to be expected of so many GPUs.
    ///
    /// # Errors
    ///
    /// If there are none, or their step was not simulated.
    pub fn predict(&self, gpus: u32) -> Result<Prediction, ScaleError> {
        if gpus == 0 {
            return Err(ScaleError::Value { what: "GPUs", value: 0.0, expected: "a number above 0" });
        }
        let layout = self.cluster.layout(gpus);
        let situation = match gpus {
            1 => &self.alone,
            _ => {
                let sharing = layout.sharing;
                self.by_sharing.get(&sharing).ok_or(ScaleError::NotSimulated { sharing })?
            }
        };
        let step_of =
            |step: &Step, cluster: &Cluster| together(step, |bucket| cluster.bucket_seconds(layout, bucket));
        let found = step_of(&situation.step, &self.cluster);
        // A simulated worker with others can come out a little quicker than one alone: copies fall otherwise.
        let step_seconds = found.seconds.max(self.alone.step.seconds);
        let changed = |change: &dyn Fn(&mut Network)| {
            let mut cluster = self.cluster.clone();
            change(&mut cluster.network);
            change(&mut cluster.node_network);
            cluster
        };
        let wide = changed(&|network| network.bytes_per_second = f64::INFINITY);
        let near = changed(&|network| network.latency_seconds = 0.0);
        let adding = Cluster { adding_bytes_per_second: f64::INFINITY, ..self.cluster.clone() };
        let without = [
            (Limit::Link, &situation.free_link, &self.cluster),
            (Limit::Bandwidth, &situation.step, &wide),
            (Limit::Latency, &situation.step, &near),
            (Limit::Host, &situation.free_host, &adding),
        ];
        let without = without.map(|(limit, step, cluster)| Without {
            limit,
            step_seconds: step_of(step, cluster).seconds.min(step_seconds),
        });
        Ok(Prediction {
            layout,
            step_seconds,
            efficiency: if step_seconds > 0.0 { self.alone.step.seconds / step_seconds } else { 1.0 },
            reduce_seconds: found.reduce_seconds,
            waited_seconds: step_seconds - situation.step.seconds.min(step_seconds),
            link_seconds: situation.step.link_seconds,
            limit: limit_of(step_seconds, &without),
            without: without.to_vec(),
        })
    }

    /// The most GPUs at which so much of one worker's rate is left for each, of those that fill their nodes or are in one; at most
    /// [`MOST_GPUS`].
    ///
    /// # Errors
    ///
    /// If it is no part of a whole, or a step was not simulated.
    pub fn most_gpus(&self, efficiency: f64) -> Result<u32, ScaleError> {
        if !(efficiency > 0.0 && efficiency <= 1.0) {
            let expected = "a part above 0, at most 1";
            return Err(ScaleError::Value { what: "the efficiency", value: efficiency, expected });
        }
        let of_node = self.cluster.gpus_per_node;
        let nodes = (2..=MOST_GPUS / of_node).rev().map(|nodes| nodes * of_node);
        for gpus in nodes.chain((1..=of_node.min(MOST_GPUS)).rev()) {
            if self.predict(gpus)?.efficiency >= efficiency {
                return Ok(gpus);
            }
        }
        Ok(1)
    }
}

/// That without which the step would be the shortest; computing, if nothing else shortens it much.
fn limit_of(step_seconds: f64, without: &[Without]) -> Limit {
    let shortest = without.iter().min_by(|one, other| one.step_seconds.total_cmp(&other.step_seconds));
    let worth = shortest.filter(|without| without.step_seconds < step_seconds * (1.0 - WORTH_TELLING));
    worth.map_or(Limit::Computing, |without| without.limit)
}
