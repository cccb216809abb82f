//! Which processes train together, and which of them this one is.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};

use serde::Deserialize;

use crate::proto::tensorflow::config_proto::Experimental;
use crate::proto::tensorflow::{ClusterDef, ConfigProto, JobDef, ServerDef};

/// What TensorFlow calls all workers.
const JOB: &str = "worker";

/// The workers of a training, and this process among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Where each worker listens, `host:port`, in the order of their numbers.
    pub addresses: Vec<String>,
    /// This one's number.
    pub rank: usize,
}

/// What describes no cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// An address that is none.
    #[error("{address:?} is no address: expected host:port")]
    Address {
        /// The address.
        address: String,
    },
    /// Two workers at one address.
    #[error("two workers have the address {address:?}")]
    Twice {
        /// The address.
        address: String,
    },
    /// A number that no worker has.
    #[error("there is no worker {rank}: {workers} workers have the numbers 0 to {}", workers - 1)]
    Rank {
        /// The number.
        rank: usize,
        /// How many workers there are.
        workers: usize,
    },
    /// A variable that cannot be read.
    #[error("the variable {variable}: {why}; give --cluster and --rank instead")]
    Variable {
        /// The variable.
        variable: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A host that is not known.
    #[error("the host of {address:?} is not known: {why}")]
    Host {
        /// The address.
        address: String,
        /// Why.
        why: String,
    },
}

impl Cluster {
    /// The workers at these addresses.
    ///
    /// # Errors
    ///
    /// If one is no address or comes twice, or there is no worker of this number.
    pub fn new(addresses: Vec<String>, rank: usize) -> Result<Cluster, ClusterError> {
        for (at, address) in addresses.iter().enumerate() {
            let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            if port.and_then(|(_, port)| port.parse::<u16>().ok()).is_none_or(|port| port == 0) {
                return Err(ClusterError::Address { address: address.clone() });
            }
            if addresses[..at].contains(address) {
                return Err(ClusterError::Twice { address: address.clone() });
            }
        }
        let workers = addresses.len();
        if rank >= workers {
            return Err(ClusterError::Rank { rank, workers });
        }
        Ok(Cluster { addresses, rank })
    }

    /// What variables of the environment say: `TF_CONFIG`, Slurm's, mpirun's, in that order; none if they name no further worker.
    /// `port` is where the first worker of a machine listens, where they do not say.
    ///
    /// # Errors
    ///
    /// If they say something that cannot be.
    pub fn of_environment(
        variable: impl Fn(&str) -> Option<String>,
        port: u16,
    ) -> Result<Option<Cluster>, ClusterError> {
        let found = match variable("TF_CONFIG") {
            Some(config) => Some(of_tf_config(&config)?),
            None => match of_slurm(&variable, port)? {
                Some(found) => Some(found),
                None => of_mpirun(&variable, port)?,
            },
        };
        let found = found.map(|(addresses, rank)| Cluster::new(addresses, rank)).transpose()?;
        Ok(found.filter(|cluster| cluster.len() > 1))
    }

    /// How many workers there are.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Where this worker listens.
    ///
    /// # Errors
    ///
    /// If the host is not known.
    pub fn own_address(&self) -> Result<SocketAddr, ClusterError> {
        let address = &self.addresses[self.rank];
        let host = |why: String| ClusterError::Host { address: address.clone(), why };
        let mut found = address.to_socket_addrs().map_err(|error| host(error.to_string()))?;
        found.next().ok_or_else(|| host("it has no address".to_string()))
    }

    /// How many workers before this one are on its machine.
    pub fn local_rank(&self) -> usize {
        let host = |rank: usize| self.addresses[rank].rsplit_once(':').map(|(host, _)| host);
        (0..self.rank).filter(|&other| host(other) == host(self.rank)).count()
    }

    /// A session's configuration, for a session of this worker. `nccl` has GPUs reduce by NVIDIA's library.
    pub fn configure(&self, mut config: ConfigProto, nccl: bool) -> ConfigProto {
        config.device_filters = vec![format!("/job:{JOB}/task:{}", self.rank)];
        let graph = config.graph_options.get_or_insert_default();
        // Servers know no such thing, and say so.
        graph.place_pruned_graph = false;
        let rewrite = graph.rewrite_options.get_or_insert_default();
        rewrite.disable_meta_optimizer = true;
        config.experimental = Some(Experimental {
            collective_group_leader: format!("/job:{JOB}/replica:0/task:0"),
            collective_nccl: nccl,
            ..config.experimental.unwrap_or_default()
        });
        config
    }

    /// What this worker's server is told.
    pub fn server_def(&self, config: &ConfigProto) -> ServerDef {
        let tasks: BTreeMap<i32, String> = (0..).zip(self.addresses.iter().cloned()).collect();
        let job = JobDef { name: JOB.to_string(), tasks };
        ServerDef {
            cluster: Some(ClusterDef { job: vec![job] }),
            job_name: JOB.to_string(),
            task_index: self.rank as i32,
            default_session_config: Some(config.clone()),
            protocol: "grpc".to_string(),
            ..ServerDef::default()
        }
    }
}

#[derive(Deserialize)]
struct TfConfig {
    #[serde(default)]
    cluster: BTreeMap<String, Vec<String>>,
    task: TfTask,
}

#[derive(Deserialize)]
struct TfTask {
    r#type: String,
    index: usize,
}

/// `{"cluster": {"worker": ["host:port", …]}, "task": {"type": "worker", "index": 0}}`; a chief comes before all workers.
fn of_tf_config(text: &str) -> Result<(Vec<String>, usize), ClusterError> {
    let wrong = |why: String| ClusterError::Variable { variable: "TF_CONFIG", why };
    let config: TfConfig = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let of = |kind: &str| config.cluster.get(kind).cloned().unwrap_or_default();
    let (chiefs, workers) = ([of("chief"), of("master")].concat(), of("worker"));
    let rank = match config.task.r#type.as_str() {
        "chief" | "master" => config.task.index,
        "worker" => chiefs.len() + config.task.index,
        other => return Err(wrong(format!("a task of type {other:?} does not train"))),
    };
    Ok(([chiefs, workers].concat(), rank))
}

fn number(variable: &'static str, text: &str) -> Result<usize, ClusterError> {
    text.parse().map_err(|_| ClusterError::Variable { variable, why: format!("{text:?} is no number") })
}

/// `SLURM_PROCID`, `SLURM_NTASKS` and the names of the nodes with the number of tasks of each.
fn of_slurm(
    variable: &impl Fn(&str) -> Option<String>,
    port: u16,
) -> Result<Option<(Vec<String>, usize)>, ClusterError> {
    let (Some(rank), Some(count)) = (variable("SLURM_PROCID"), variable("SLURM_NTASKS")) else {
        return Ok(None);
    };
    let (rank, count) = (number("SLURM_PROCID", &rank)?, number("SLURM_NTASKS", &count)?);
    if count < 2 {
        return Ok(None);
    }
    let either = |one: &'static str, other: &'static str| variable(one).or_else(|| variable(other));
    let missing = |variable| ClusterError::Variable { variable, why: "is not set".to_string() };
    let nodes = either("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST").ok_or(missing("SLURM_STEP_NODELIST"))?;
    let tasks = either("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
        .ok_or(missing("SLURM_STEP_TASKS_PER_NODE"))?;
    let nodes = hosts(&nodes).ok_or_else(|| ClusterError::Variable {
        variable: "SLURM_STEP_NODELIST",
        why: format!("{nodes:?} is no list of nodes"),
    })?;
    let tasks =
        repeats(&tasks).filter(|tasks| tasks.len() == nodes.len() && tasks.iter().sum::<usize>() == count);
    let tasks = tasks.ok_or_else(|| ClusterError::Variable {
        variable: "SLURM_STEP_TASKS_PER_NODE",
        why: format!("does not say where {count} tasks are on {} nodes", nodes.len()),
    })?;
    let mut addresses = Vec::new();
    for (node, tasks) in nodes.iter().zip(tasks) {
        addresses.extend((0..tasks).map(|task| format!("{node}:{}", usize::from(port) + task)));
    }
    Ok(Some((addresses, rank)))
}

/// `OMPI_COMM_WORLD_RANK` and `OMPI_COMM_WORLD_SIZE`, where all are on one machine: mpirun does not tell who is where.
fn of_mpirun(
    variable: &impl Fn(&str) -> Option<String>,
    port: u16,
) -> Result<Option<(Vec<String>, usize)>, ClusterError> {
    let name = |what: &str| variable(&format!("OMPI_COMM_WORLD_{what}"));
    let (Some(rank), Some(size)) = (name("RANK"), name("SIZE")) else { return Ok(None) };
    let (rank, size) = (number("OMPI_COMM_WORLD_RANK", &rank)?, number("OMPI_COMM_WORLD_SIZE", &size)?);
    let local = name("LOCAL_SIZE").map(|local| number("OMPI_COMM_WORLD_LOCAL_SIZE", &local)).transpose()?;
    if size > 1 && local != Some(size) {
        let why = "mpirun does not say where the workers of other machines are".to_string();
        return Err(ClusterError::Variable { variable: "OMPI_COMM_WORLD_LOCAL_SIZE", why });
    }
    let addresses = (0..size).map(|other| format!("127.0.0.1:{}", usize::from(port) + other));
    Ok(Some((addresses.collect(), rank)))
}

/// Slurm's lists: `a[1-3,07],b` names `a1`, `a2`, `a3`, `a07` and `b`.
fn hosts(list: &str) -> Option<Vec<String>> {
    const MOST: usize = 1 << 16;
    let mut found = Vec::new();
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, letter) in list.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let Some((name, ranges)) = part.split_once('[') else {
            found.push(part.to_string());
            continue;
        };
        let (ranges, rest) = ranges.split_once(']')?;
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (from, to): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            if to < from || to - from > MOST || found.len() > MOST {
                return None;
            }
            let width = first.len();
            found.extend((from..=to).map(|number| format!("{name}{number:0width$}{rest}")));
        }
    }
    (depth == 0 && !found.is_empty()).then_some(found)
}

/// `2(x3),1` is 2, 2, 2, 1.
fn repeats(text: &str) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for part in text.split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        let count: usize = count.parse().ok()?;
        if times > 1 << 16 {
            return None;
        }
        found.extend(std::iter::repeat_n(count, times));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Option<Cluster>, ClusterError> {
        let found =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string());
        Cluster::of_environment(found, 7000)
    }

    #[test]
    fn launchers_say_who_is_who_and_tf_config_comes_first() {
        let tf_config = r#"{"cluster": {"chief": ["a:1"], "worker": ["b:2", "c:3"]}, "task": {"type": "worker", "index": 1}}"#;
        let slurm = [
            ("SLURM_PROCID", "3"),
            ("SLURM_NTASKS", "5"),
            ("SLURM_STEP_NODELIST", "gpu[08-09],big"),
            ("SLURM_STEP_TASKS_PER_NODE", "2(x2),1"),
        ];
        let mpirun = [
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ];
        let found = of(&mpirun).unwrap().unwrap();
        assert_eq!(
            (found.addresses, found.rank),
            (vec!["127.0.0.1:7000".into(), "127.0.0.1:7001".into()], 1)
        );
        let both = [&slurm[..], &mpirun].concat();
        let found = of(&both).unwrap().unwrap();
        assert_eq!(found.addresses, ["gpu08:7000", "gpu08:7001", "gpu09:7000", "gpu09:7001", "big:7000"]);
        assert_eq!((found.rank, found.local_rank()), (3, 1));
        let all = [&[("TF_CONFIG", tf_config)], &both[..]].concat();
        let found = of(&all).unwrap().unwrap();
        assert_eq!((found.addresses, found.rank), (vec!["a:1".into(), "b:2".into(), "c:3".into()], 2));
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")]), Ok(None));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let wrong: [&[(&str, &str)]; 5] = [
            &[("TF_CONFIG", "{")],
            &[(
                "TF_CONFIG",
                r#"{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "ps", "index": 0}}"#,
            )],
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2")],
            &[
                ("SLURM_PROCID", "0"),
                ("SLURM_NTASKS", "2"),
                ("SLURM_STEP_NODELIST", "a[1-"),
                ("SLURM_STEP_TASKS_PER_NODE", "2"),
            ],
            &[
                ("OMPI_COMM_WORLD_RANK", "0"),
                ("OMPI_COMM_WORLD_SIZE", "4"),
                ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ],
        ];
        for variables in wrong {
            assert!(of(variables).is_err(), "{variables:?}");
        }
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
        for (texts, rank) in
            [(&["a"][..], 0), (&["a:0"], 0), (&[":1"], 0), (&["a:1", "a:1"], 0), (&["a:1", "b:1"], 2)]
        {
            assert!(Cluster::new(addresses(texts), rank).is_err(), "{texts:?}");
        }
    }
}
