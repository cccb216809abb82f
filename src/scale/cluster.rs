//! What joins the workers, and how long a bucket of gradients is on its way.

use std::str::FromStr;

use super::{Bucket, Network, Reduces, ScaleError};

/// GPUs of one kind in nodes of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// How many GPUs, and so workers, a node has.
    pub gpus_per_node: u32,
    /// How many of them share a link to the host, and so its rate when all copy.
    pub gpus_per_link: u32,
    /// Between nodes; the rate is that of a node, all of its GPUs together.
    pub network: Network,
    /// Within a node; the rate is that of each GPU or worker.
    pub node_network: Network,
    /// In which way gradients are reduced.
    pub all_reduce: AllReduce,
    /// How many bytes of gradients a host adds to others in a second, all of its workers together.
    pub adding_bytes_per_second: f64,
}

/// In which way all workers' tensors become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AllReduce {
    /// One ring of all workers, node after node: what TensorFlow does on hosts.
    #[default]
    Ring,
    /// A tree of all workers, with so many parts under way at once that all can send all the time.
    Tree,
    /// A ring within each node, and one between nodes.
    NodeRing,
    /// A tree within each node, and one between nodes.
    NodeTree,
}

/// Where so many GPUs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// How many there are.
    pub gpus: u32,
    /// In how many nodes; all but the last are full.
    pub nodes: u32,
    /// How many a full node has.
    pub gpus_of_node: u32,
    /// How many share a link, where most do.
    pub sharing: u32,
}

impl AllReduce {
    /// The name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            AllReduce::Ring => "ring",
            AllReduce::Tree => "tree",
            AllReduce::NodeRing => "node-ring",
            AllReduce::NodeTree => "node-tree",
        }
    }

    /// How often something is sent on so that what one of so many has is with all of them.
    fn hops(self, members: f64) -> f64 {
        match self {
            AllReduce::Ring | AllReduce::NodeRing => members - 1.0,
            AllReduce::Tree | AllReduce::NodeTree => members.log2().ceil(),
        }
    }
}

impl FromStr for AllReduce {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<AllReduce, &'static str> {
        let all = [AllReduce::Ring, AllReduce::Tree, AllReduce::NodeRing, AllReduce::NodeTree];
        all.into_iter().find(|way| way.name() == text).ok_or("expected ring, tree, node-ring or node-tree")
    }
}

impl Cluster {
    /// Checks that there can be such a cluster.
    ///
    /// # Errors
    ///
    /// If there cannot.
    pub fn check(&self) -> Result<(), ScaleError> {
        let positive = [
            ("GPUs in a node", f64::from(self.gpus_per_node)),
            ("GPUs on a link", f64::from(self.gpus_per_link)),
            ("the network's rate", self.network.bytes_per_second),
            ("the rate within a node", self.node_network.bytes_per_second),
            ("the rate at which a host adds", self.adding_bytes_per_second),
        ];
        let wrong = positive.into_iter().find(|(_, value)| value.is_nan() || *value <= 0.0);
        if let Some((what, value)) = wrong {
            return Err(ScaleError::Value { what, value, expected: "a number above 0" });
        }
        let times = [
            ("the network's latency", self.network.latency_seconds),
            ("the latency within a node", self.node_network.latency_seconds),
        ];
        match times.into_iter().find(|(_, value)| !value.is_finite() || *value < 0.0) {
            Some((what, value)) => Err(ScaleError::Value { what, value, expected: "a time of 0 or more" }),
            None => Ok(()),
        }
    }

    /// Where so many GPUs are: they fill node after node, and in a node that is not full they take a link each as long as there are some.
    pub fn layout(&self, gpus: u32) -> Layout {
        let gpus_of_node = gpus.min(self.gpus_per_node).max(1);
        let links = self.gpus_per_node.div_ceil(self.gpus_per_link.max(1)).max(1);
        Layout {
            gpus,
            nodes: gpus.div_ceil(self.gpus_per_node.max(1)),
            gpus_of_node,
            sharing: gpus_of_node.div_ceil(links),
        }
    }

    /// How many GPUs can share a link while others of the node do not work, from 1 up to all.
    pub fn sharings(&self) -> impl Iterator<Item = u32> {
        1..=self.layout(self.gpus_per_node).sharing
    }

    /// How long a bucket takes from when the last worker has it until all have what comes of it.
    pub fn bucket_seconds(&self, layout: Layout, bucket: &Bucket) -> f64 {
        if layout.gpus < 2 {
            return 0.0;
        }
        self.sending_seconds(layout, bucket) + self.adding_seconds(layout, bucket)
    }

    fn sending_seconds(&self, layout: Layout, bucket: &Bucket) -> f64 {
        let way = self.all_reduce;
        let is_flat = matches!(way, AllReduce::Ring | AllReduce::Tree);
        let [gpus, nodes, of_node] = [layout.gpus, layout.nodes, layout.gpus_of_node].map(f64::from);
        let bytes = bucket.bytes as f64;
        let send = |network: &Network, bytes: f64, hops: f64| {
            bytes / network.bytes_per_second + hops * network.latency_seconds
        };
        // Through a whole ring or tree goes no more than through its slowest part.
        let slowest = Network {
            bytes_per_second: self.network.bytes_per_second.min(self.node_network.bytes_per_second),
            latency_seconds: self.network.latency_seconds.max(self.node_network.latency_seconds),
        };
        let flat = if layout.nodes > 1 { &slowest } else { &self.node_network };
        match bucket.reduces {
            // Each byte goes round twice: to be added up, and to be told.
            Reduces::Mean if is_flat || layout.nodes < 2 => {
                send(flat, 2.0 * (gpus - 1.0) / gpus * bytes, 2.0 * way.hops(gpus))
            }
            Reduces::Mean => {
                let within = 2.0 * (of_node - 1.0) / of_node * bytes;
                let between = 2.0 * (nodes - 1.0) / nodes * bytes;
                send(&self.node_network, within, 2.0 * way.hops(of_node))
                    + send(&self.network, between, 2.0 * way.hops(nodes))
            }
            // All get the rows of all others.
            Reduces::Rows if is_flat || layout.nodes < 2 => send(flat, (gpus - 1.0) * bytes, way.hops(gpus)),
            Reduces::Rows => {
                send(&self.node_network, (gpus - 1.0) * bytes, way.hops(of_node))
                    + send(&self.network, (gpus - of_node) * bytes, way.hops(nodes))
            }
        }
    }

    /// What it takes a host to add what its workers get.
    fn adding_seconds(&self, layout: Layout, bucket: &Bucket) -> f64 {
        if !bucket.is_on_host || bucket.reduces == Reduces::Rows {
            return 0.0;
        }
        let [gpus, nodes, of_node] = [layout.gpus, layout.nodes, layout.gpus_of_node].map(f64::from);
        let times = match self.all_reduce {
            AllReduce::Ring | AllReduce::Tree => of_node * (gpus - 1.0) / gpus,
            AllReduce::NodeRing | AllReduce::NodeTree => (of_node - 1.0) + (nodes - 1.0) / nodes,
        };
        times * bucket.bytes as f64 / self.adding_bytes_per_second
    }
}
