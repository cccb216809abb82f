//! Flags for many GPUs that are not there yet.

use clap::Args;

use crate::cost::DeviceProfile;
use crate::parallel::{BUCKET_BYTES, ParallelOptions};
use crate::plan::ReduceOn;
use crate::scale::{AllReduce, Cluster, Network, parse_rate};
use crate::size::parse_size;

/// How many bytes of gradients a host is taken to add in a second: three times as many pass its memory.
const ADDING_BYTES_PER_SECOND: f64 = 2e10;

/// Many data-parallel workers, a GPU each.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Many GPUs")]
pub struct ScaleArgs {
    /// Predict a step of data-parallel workers on so many nodes, each worker with a GPU and a batch of its own
    #[arg(long, value_name = "N", requires = "network", conflicts_with_all = ["max", "output", "explain", "trace", "model_of_memory"], value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub nodes: Option<u32>,

    /// GPUs of a node
    #[arg(long, value_name = "N", default_value_t = 1, requires = "nodes", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub gpus_per_node: u32,

    /// GPUs that share a link to the host, and so its rate when all of them copy [default: the device profile's]
    #[arg(long, value_name = "N", requires = "nodes", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub gpus_per_link: Option<u32>,

    /// The network between nodes: what a node sends in a second, and what each message takes beside
    #[arg(long, value_name = "RATE,LATENCY", requires = "nodes")]
    pub network: Option<Network>,

    /// The same between the workers of a node, for each [default: the rate of the link to the host, the network's latency]
    #[arg(long, value_name = "RATE,LATENCY", requires = "nodes")]
    pub node_network: Option<Network>,

    /// How gradients become one: ring (what TensorFlow does on hosts), tree, or first within a node: node-ring, node-tree
    #[arg(long, value_name = "WAY", default_value = "ring", requires = "nodes")]
    pub all_reduce: AllReduce,

    /// Gradients that a host adds in a second, for all of its workers [default: 20GB/s]
    #[arg(long, value_name = "RATE", requires = "nodes", value_parser = parse_rate)]
    pub host_adds: Option<f64>,

    /// Where gradients are reduced: host, or gpu
    #[arg(long, value_name = "WHERE", default_value = "host", requires = "nodes")]
    pub reduce: ReduceOn,

    /// Gradients travel together until they have so many bytes [default: 4MiB]
    #[arg(long, value_name = "SIZE", requires = "nodes", value_parser = parse_size)]
    pub bucket: Option<u64>,

    /// Find the most GPUs at which so much of one worker's rate is left for each, such as 90%
    #[arg(long, value_name = "PART", requires = "nodes", value_parser = parse_part)]
    pub scale_to: Option<f64>,

    /// Examples that a worker sees in a step [default: the first dimension of its largest input]
    #[arg(long, value_name = "N", requires = "nodes", value_parser = clap::value_parser!(u64).range(1..))]
    pub examples: Option<u64>,
}

impl ScaleArgs {
    /// How many GPUs, if that is asked.
    pub fn gpus(&self) -> Option<u32> {
        self.nodes.map(|nodes| nodes.saturating_mul(self.gpus_per_node))
    }

    /// The cluster of GPUs of a profile; none if the network is not given.
    pub fn cluster(&self, profile: &DeviceProfile) -> Option<Cluster> {
        let network = self.network?;
        let rate = profile.link_out_bytes_per_second.min(profile.link_in_bytes_per_second);
        let of_node = Network { bytes_per_second: rate, ..network };
        Some(Cluster {
            gpus_per_node: self.gpus_per_node,
            gpus_per_link: self.gpus_per_link.unwrap_or(profile.gpus_per_link),
            network,
            node_network: self.node_network.unwrap_or(of_node),
            all_reduce: self.all_reduce,
            adding_bytes_per_second: self.host_adds.unwrap_or(ADDING_BYTES_PER_SECOND),
        })
    }

    /// How gradients are reduced.
    pub fn options(&self) -> ParallelOptions {
        ParallelOptions { reduce: self.reduce, bucket_bytes: self.bucket.unwrap_or(BUCKET_BYTES), loss: None }
    }
}

/// Reads a part of a whole: `90%` or `0.9`.
fn parse_part(text: &str) -> Result<f64, String> {
    let part = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    };
    let part = part.filter(|part| *part > 0.0 && *part <= 1.0);
    part.ok_or_else(|| "expected a part above 0 and at most 100%, such as 90%".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_written_with_a_percent_sign_or_without() {
        assert_eq!(parse_part("90%"), Ok(0.9));
        assert_eq!(parse_part("0.5"), Ok(0.5));
        assert_eq!(parse_part("100%"), Ok(1.0));
        for wrong in ["", "0", "0%", "101%", "2", "-1%", "NaN%", "all"] {
            assert!(parse_part(wrong).is_err(), "{wrong}");
        }
    }
}
