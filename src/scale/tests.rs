//! Formulas by hand, and what must hold of any cluster.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::parallel::ParallelOptions;
use crate::pipeline::Scaled;
use crate::plan::ReduceOn;
use crate::{AnalysisOptions, Budget, Error, Model};

fn network(bytes_per_second: f64, latency_seconds: f64) -> Network {
    Network { bytes_per_second, latency_seconds }
}

/// Nodes of 4 GPUs, two on a link; 1 MB in a millisecond between nodes, ten times as fast within.
fn cluster(all_reduce: AllReduce) -> Cluster {
    Cluster {
        gpus_per_node: 4,
        gpus_per_link: 2,
        network: network(1e9, 1e-3),
        node_network: network(1e10, 1e-4),
        all_reduce,
        adding_bytes_per_second: f64::INFINITY,
    }
}

fn bucket(bytes: u64, ready_seconds: f64) -> Bucket {
    Bucket {
        reduces: Reduces::Mean,
        bytes,
        is_on_host: true,
        ready_seconds,
        behind: None,
        copied_in_seconds: 0.0,
        computed_seconds: 0.0,
        launched_seconds: 0.0,
        tail_seconds: 0.0,
    }
}

fn step(seconds: f64, buckets: Vec<Bucket>) -> Step {
    Step { seconds, link_seconds: 0.0, buckets }
}

fn situation(step: &Step) -> Situation {
    Situation { step: step.clone(), free_link: step.clone(), free_host: step.clone() }
}

/// The same step alone and with others, on any part of a link.
fn scaling(cluster: &Cluster, step: &Step) -> Scaling {
    let alone = situation(&Step { buckets: Vec::new(), ..step.clone() });
    let by_sharing = cluster.sharings().map(|sharing| (sharing, situation(step))).collect();
    Scaling::new(cluster.clone(), alone, by_sharing).unwrap()
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-12 * expected.abs().max(1.0)
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!(near(found, expected), "{found}, expected {expected}");
}

#[test]
fn gpus_fill_nodes_and_take_links_of_their_own_first() {
    let layout = |gpus| {
        let layout = cluster(AllReduce::Ring).layout(gpus);
        (layout.nodes, layout.gpus_of_node, layout.sharing)
    };
    assert_eq!(layout(1), (1, 1, 1));
    assert_eq!(layout(2), (1, 2, 1));
    assert_eq!(layout(3), (1, 3, 2));
    assert_eq!(layout(4), (1, 4, 2));
    assert_eq!(layout(5), (2, 4, 2));
    assert_eq!(layout(64), (16, 4, 2));
    assert!(cluster(AllReduce::Ring).sharings().eq([1, 2]));
    let sparse = Cluster { gpus_per_node: 2, gpus_per_link: 8, ..cluster(AllReduce::Ring) };
    assert!(sparse.sharings().eq([1, 2]), "two GPUs on a link for eight");
}

/// 8 MB among 8 workers in two nodes, by hand.
#[test]
fn a_bucket_takes_what_the_formula_says() {
    let seconds = |way: AllReduce, gpus: u32| {
        let cluster = cluster(way);
        cluster.bucket_seconds(cluster.layout(gpus), &bucket(8_000_000, 0.0))
    };
    for way in [AllReduce::Ring, AllReduce::Tree, AllReduce::NodeRing, AllReduce::NodeTree] {
        assert!(near(seconds(way, 1), 0.0), "one worker sends nothing");
    }
    // Within a node: 2 · 3/4 · 8 MB at 10 GB/s, and 6 or 4 hops of 0.1 ms.
    assert_near(seconds(AllReduce::Ring, 4), 1.2e-3 + 0.6e-3);
    assert_near(seconds(AllReduce::NodeRing, 4), 1.2e-3 + 0.6e-3);
    assert_near(seconds(AllReduce::Tree, 4), 1.2e-3 + 0.4e-3);
    // All eight at the slower rate: 2 · 7/8 · 8 MB at 1 GB/s, and 14 or 6 hops of 1 ms.
    assert_near(seconds(AllReduce::Ring, 8), 14e-3 + 14e-3);
    assert_near(seconds(AllReduce::Tree, 8), 14e-3 + 6e-3);
    // First within each node, then 2 · 1/2 · 8 MB between two nodes, and 2 hops.
    assert_near(seconds(AllReduce::NodeRing, 8), 1.8e-3 + 8e-3 + 2e-3);
    assert_near(seconds(AllReduce::NodeTree, 8), 1.6e-3 + 8e-3 + 2e-3);
}

#[test]
fn rows_are_told_to_all_and_added_by_nobody() {
    let rows = Bucket { reduces: Reduces::Rows, ..bucket(1_000_000, 0.0) };
    let slow = |way| Cluster { adding_bytes_per_second: 1.0, ..cluster(way) };
    let seconds = |way: AllReduce, gpus| slow(way).bucket_seconds(slow(way).layout(gpus), &rows);
    assert_near(seconds(AllReduce::Ring, 4), 0.3e-3 + 0.3e-3);
    assert_near(seconds(AllReduce::Ring, 8), 7e-3 + 7e-3);
    assert_near(seconds(AllReduce::Tree, 8), 7e-3 + 3e-3);
    // 7 MB within the node, of which 4 MB come over the network.
    assert_near(seconds(AllReduce::NodeRing, 8), 0.7e-3 + 0.3e-3 + 4e-3 + 1e-3);
}

#[test]
fn hosts_add_for_all_of_their_workers() {
    let adding = |way, gpus, is_on_host| {
        let free = cluster(way);
        let adds = Cluster { adding_bytes_per_second: 1e9, ..free.clone() };
        let bucket = Bucket { is_on_host, ..bucket(8_000_000, 0.0) };
        adds.bucket_seconds(adds.layout(gpus), &bucket) - free.bucket_seconds(free.layout(gpus), &bucket)
    };
    // Four workers of a host add 7/8 of 8 MB each; or 3/4 each within the node and 1/2 · 1/4 of what comes from the other.
    assert_near(adding(AllReduce::Ring, 8, true), 28e-3);
    assert_near(adding(AllReduce::NodeRing, 8, true), 28e-3);
    assert_near(adding(AllReduce::Ring, 8, false), 0.0);
}

/// Two buckets: the second waits for the first, and what lies behind follows.
#[test]
fn buckets_go_one_after_the_other_beside_the_step() {
    let of = |seconds: f64, first: Bucket, second: Bucket, takes: f64| {
        together(&step(seconds, vec![first, second]), |_| takes).seconds
    };
    // Ready at 1 and 2, each under way for 3: at 4 and at 7.
    assert_near(of(5.0, bucket(1, 1.0), bucket(1, 2.0), 3.0), 7.0);
    // Hidden behind the rest of the step.
    assert_near(of(9.0, bucket(1, 1.0), bucket(1, 2.0), 3.0), 9.0);
    // The second is ready long after the first has arrived.
    assert_near(of(5.0, bucket(1, 1.0), bucket(1, 6.0), 3.0), 9.0);
    // Behind each comes work of one kind, one after the other: at 4 until 8, and only then that of the second.
    let work = |ready| Bucket { computed_seconds: 4.0, ..bucket(1, ready) };
    assert_near(of(5.0, work(1.0), work(2.0), 3.0), 12.0);
    let copied = |ready| Bucket { copied_in_seconds: 4.0, ..bucket(1, ready) };
    assert_near(of(5.0, copied(1.0), copied(2.0), 3.0), 12.0);
    let launched = |ready| Bucket { launched_seconds: 4.0, ..bucket(1, ready) };
    assert_near(of(5.0, launched(1.0), launched(2.0), 3.0), 12.0);
    // A copy and what is computed of it: the chain is longer than each.
    let chain = Bucket { copied_in_seconds: 1.0, computed_seconds: 1.0, tail_seconds: 2.5, ..bucket(1, 2.0) };
    assert_near(of(5.0, bucket(1, 1.0), chain, 3.0), 9.5);
    // Gradients that depend on the first mean are as late as it is: ready at 6 + 3, not at 6.
    let dependent = Bucket { behind: Some(0), ..bucket(1, 6.0) };
    assert_near(of(5.0, bucket(1, 1.0), dependent, 3.0), 12.0);
    assert_near(together(&step(1.0, vec![bucket(1, 1.0), bucket(1, 2.0)]), |_| 3.0).reduce_seconds, 6.0);
}

#[test]
fn what_limits_is_what_the_step_would_be_the_shortest_without() {
    let limit = |cluster: &Cluster, situation: &Situation, gpus| {
        let by_sharing: BTreeMap<u32, Situation> =
            cluster.sharings().map(|sharing| (sharing, situation.clone())).collect();
        let alone = situation.clone();
        Scaling::new(cluster.clone(), alone, by_sharing).unwrap().predict(gpus).unwrap().limit
    };
    let ring = cluster(AllReduce::Ring);
    // 14 ms for the bytes of 8 workers and 14 ms of hops, as above.
    let many_bytes = situation(&step(1e-3, vec![bucket(16_000_000, 1e-3)]));
    let few_bytes = situation(&step(1e-3, vec![bucket(1_000_000, 1e-3)]));
    assert_eq!(limit(&ring, &many_bytes, 8), Limit::Bandwidth);
    assert_eq!(limit(&ring, &few_bytes, 8), Limit::Latency);
    assert_eq!(limit(&ring, &few_bytes, 1), Limit::Computing, "one worker has no network");
    let adds = Cluster { adding_bytes_per_second: 1e6, ..ring.clone() };
    assert_eq!(limit(&adds, &few_bytes, 8), Limit::Host);
    let swaps = Situation { free_link: step(0.5, Vec::new()), ..situation(&step(1.0, Vec::new())) };
    assert_eq!(limit(&ring, &swaps, 8), Limit::Link);
    assert_eq!(limit(&ring, &swaps, 1), Limit::Link);
    // Hidden reduces limit nothing.
    assert_eq!(limit(&ring, &situation(&step(1.0, vec![bucket(1_000_000, 0.1)])), 8), Limit::Computing);
}

#[test]
fn the_most_gpus_are_the_last_that_keep_so_much() {
    // 8 MB ready at the end of a step of 100 ms.
    let scaling = scaling(&cluster(AllReduce::NodeRing), &step(0.1, vec![bucket(8_000_000, 0.1)]));
    for part in [0.5, 0.75, 0.85, 0.9] {
        let most = scaling.most_gpus(part).unwrap();
        assert!(scaling.predict(most).unwrap().efficiency >= part, "{part}: {most}");
        assert!(scaling.predict(most + 4).unwrap().efficiency < part, "{part}: {most}");
    }
    assert_eq!(scaling.most_gpus(1.0).unwrap(), 1);
    let free = Cluster {
        network: network(f64::INFINITY, 0.0),
        node_network: network(f64::INFINITY, 0.0),
        ..cluster(AllReduce::Ring)
    };
    assert_eq!(self::scaling(&free, &step(0.1, Vec::new())).most_gpus(1.0).unwrap(), MOST_GPUS);
    for wrong in [0.0, -1.0, 1.5, f64::NAN] {
        assert!(scaling.most_gpus(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_no_cluster_can_be_is_refused() {
    let refused = |change: &dyn Fn(&mut Cluster)| {
        let mut cluster = cluster(AllReduce::Ring);
        change(&mut cluster);
        cluster.check().unwrap_err().to_string()
    };
    assert!(refused(&|cluster| cluster.gpus_per_node = 0).contains("GPUs in a node: 0"));
    assert!(refused(&|cluster| cluster.gpus_per_link = 0).contains("GPUs on a link: 0"));
    assert!(refused(&|cluster| cluster.network.bytes_per_second = f64::NAN).contains("the network's rate"));
    assert!(refused(&|cluster| cluster.node_network.bytes_per_second = -1.0).contains("within a node"));
    assert!(refused(&|cluster| cluster.network.latency_seconds = -1.0).contains("the network's latency"));
    assert!(refused(&|cluster| cluster.node_network.latency_seconds = f64::INFINITY).contains("a time"));
    assert!(refused(&|cluster| cluster.adding_bytes_per_second = 0.0).contains("a host adds"));
    let scaling = scaling(&cluster(AllReduce::Ring), &step(1.0, Vec::new()));
    assert!(scaling.predict(0).is_err());
    let missing = Scaling::new(cluster(AllReduce::Ring), Situation::default(), BTreeMap::new());
    assert_eq!(missing.unwrap_err(), ScaleError::NotSimulated { sharing: 1 });
}

prop_compose! {
    fn any_bucket()(
        bytes in 0u64..1 << 32,
        ready_seconds in 0.0..2.0_f64,
        is_on_host: bool,
        is_rows: bool,
        behind in prop::option::of(0usize..4),
        (copied_in_seconds, computed_seconds, launched_seconds) in (0.0..0.1_f64, 0.0..0.1_f64, 0.0..0.1_f64),
        tail_seconds in 0.0..0.3_f64,
    ) -> Bucket {
        let reduces = if is_rows { Reduces::Rows } else { Reduces::Mean };
        Bucket {
            reduces, bytes, is_on_host, ready_seconds, behind, copied_in_seconds, computed_seconds,
            launched_seconds, tail_seconds,
        }
    }
}

prop_compose! {
    fn any_step()(mut buckets in prop::collection::vec(any_bucket(), 0..12), seconds in 0.0..3.0_f64) -> Step {
        buckets.sort_by(|one, other| one.ready_seconds.total_cmp(&other.ready_seconds));
        for (number, bucket) in buckets.iter_mut().enumerate() {
            bucket.behind = bucket.behind.filter(|&before| before < number);
        }
        // As in a simulated step, what lies behind a reduce that takes no time is in it.
        let least = together(&step(0.0, buckets.clone()), |_| 0.0).seconds;
        step(seconds.max(least).max(1e-6), buckets)
    }
}

prop_compose! {
    fn any_cluster()(
        gpus_per_node in 1u32..20,
        gpus_per_link in 1u32..10,
        (rate, of_node) in (1e6..1e12_f64, 1e6..1e12_f64),
        (latency, latency_of_node) in (0.0..1e-2_f64, 0.0..1e-2_f64),
        way in prop::sample::select(vec![AllReduce::Ring, AllReduce::Tree, AllReduce::NodeRing, AllReduce::NodeTree]),
        adding_bytes_per_second in 1e6..1e12_f64,
    ) -> Cluster {
        Cluster {
            gpus_per_node, gpus_per_link, network: network(rate, latency),
            node_network: network(of_node, latency_of_node), all_reduce: way, adding_bytes_per_second,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn efficiency_is_a_part_of_a_whole(
        cluster in any_cluster(),
        (alone, unshared, shared) in (any_step(), any_step(), any_step()),
        gpus in 1u32..5000,
    ) {
        // By chance a step with others is simulated as shorter than one without.
        let of = |sharing| situation(if sharing == 1 { &unshared } else { &shared });
        let by_sharing = cluster.sharings().map(|sharing| (sharing, of(sharing))).collect();
        let scaling = Scaling::new(cluster, situation(&alone), by_sharing).unwrap();
        let found = scaling.predict(gpus).unwrap();
        prop_assert!(found.efficiency > 0.0 && found.efficiency <= 1.0, "{}", found.efficiency);
        prop_assert!(found.step_seconds >= scaling.alone_seconds());
        prop_assert!(found.waited_seconds >= 0.0 && found.waited_seconds <= found.step_seconds);
        for without in &found.without {
            prop_assert!(without.step_seconds <= found.step_seconds, "{without:?}");
        }
    }

    #[test]
    fn one_gpu_is_one_worker_alone(cluster in any_cluster(), step in any_step(), alone in 0.01..3.0_f64) {
        let by_sharing = cluster.sharings().map(|sharing| (sharing, situation(&step))).collect();
        let one = situation(&self::step(alone, Vec::new()));
        let scaling = Scaling::new(cluster, one, by_sharing).unwrap();
        let found = scaling.predict(1).unwrap();
        prop_assert_eq!(found.step_seconds, alone.min(step.seconds));
        prop_assert_eq!(found.efficiency, 1.0);
        prop_assert_eq!(found.reduce_seconds, 0.0);
    }

    #[test]
    fn a_better_network_is_never_slower(
        cluster in any_cluster(),
        step in any_step(),
        gpus in 1u32..5000,
        times in 1.0..100.0_f64,
    ) {
        let seconds = |cluster: &Cluster| scaling(cluster, &step).predict(gpus).unwrap().step_seconds;
        let now = seconds(&cluster);
        let mut better = vec![cluster.clone(); 5];
        better[0].network.bytes_per_second *= times;
        better[1].node_network.bytes_per_second *= times;
        better[2].network.latency_seconds /= times;
        better[3].node_network.latency_seconds /= times;
        better[4].adding_bytes_per_second *= times;
        for better in better {
            prop_assert!(seconds(&better) <= now, "{better:?}");
        }
    }

    #[test]
    fn a_network_that_takes_no_time_costs_nothing(cluster in any_cluster(), step in any_step(), gpus in 1u32..5000) {
        let free = network(f64::INFINITY, 0.0);
        let cluster = Cluster { network: free, node_network: free, adding_bytes_per_second: f64::INFINITY, ..cluster };
        let found = scaling(&cluster, &step).predict(gpus).unwrap();
        prop_assert_eq!(found.step_seconds, step.seconds);
    }
}

fn read(name: &str) -> Model {
    crate::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)).unwrap()
}

fn scaled(name: &str, memory: u64, cluster: &Cluster) -> Result<Scaled, Error> {
    let (options, budget) = (AnalysisOptions::default(), Budget::new(memory));
    read(name).scaled(&options, &budget, cluster, &ParallelOptions::default(), None)
}

/// What is ready when comes from a simulated step of the graph with its reduces.
#[test]
fn buckets_are_ready_when_the_simulation_says() {
    let found = scaled("googlenet_64_b2.meta", 16 << 30, &cluster(AllReduce::Ring)).unwrap();
    let buckets = found.without.buckets();
    assert_eq!(buckets.len(), found.parallel.collectives.len());
    assert_eq!(buckets.iter().map(|bucket| bucket.bytes).sum::<u64>(), found.parallel.bytes());
    assert!(buckets.is_sorted_by(|one, next| one.ready_seconds < next.ready_seconds), "{buckets:?}");
    let unshared = found.without.predict(2).unwrap();
    let simulated = unshared.step_seconds - unshared.waited_seconds;
    assert!(buckets.iter().all(|bucket| bucket.ready_seconds + bucket.tail_seconds <= simulated + 1e-9));
    // The backward pass takes most of a step, and the first gradients are there long before its end.
    assert!(buckets[0].ready_seconds < 0.9 * buckets[buckets.len() - 1].ready_seconds);
    // Each mean goes back to the GPU, is applied, and depends on no other.
    assert!(buckets.iter().all(|bucket| bucket.copied_in_seconds > 0.0 && bucket.computed_seconds > 0.0));
    assert!(buckets.iter().all(|bucket| bucket.behind.is_none()));
    assert!(found.fits_as_it_is);
    assert_eq!(found.examples, Some(2));
}

/// A GPU's gradients are ready when the GPU has computed them, long after the host has launched that, and do not leave it.
#[test]
fn buckets_on_the_gpu_are_ready_when_the_gpu_is() {
    let (options, budget) = (AnalysisOptions::default(), Budget::new(16 << 30));
    let parallel = ParallelOptions { reduce: ReduceOn::Gpu, ..ParallelOptions::default() };
    let model = read("resnet50_2000_b1.meta");
    let found = model.scaled(&options, &budget, &cluster(AllReduce::Ring), &parallel, None).unwrap();
    let buckets = found.without.buckets();
    let seconds = found.without.alone_seconds();
    assert!(buckets.iter().all(|bucket| !bucket.is_on_host && bucket.copied_in_seconds <= 0.0));
    assert!(buckets[0].ready_seconds > 0.2 * seconds, "{buckets:?}");
    assert!(buckets[buckets.len() - 1].ready_seconds > 0.8 * seconds, "{buckets:?}");
}

/// One GPU runs the graph as it is; many on a network that takes no time pay for the gradients' copies alone.
#[test]
fn one_worker_of_a_graph_is_the_step_without_reduces() {
    let model = read("mnist_cnn.meta");
    let graph = model.graph().unwrap();
    let analysis = model.analyse(&graph, &AnalysisOptions::default()).unwrap();
    let alone = analysis.fit(&Budget::new(1 << 30)).unwrap().tuning.before.step_seconds;
    let free = network(f64::INFINITY, 0.0);
    let ring = Cluster { network: free, node_network: free, gpus_per_link: 1, ..cluster(AllReduce::Ring) };
    let scaling = scaled("mnist_cnn.meta", 1 << 30, &ring).unwrap().with.unwrap();
    assert_eq!(scaling.predict(1).unwrap().step_seconds, alone);
    let together = scaling.predict(64).unwrap();
    assert!(together.step_seconds > alone);
    assert_eq!(together.waited_seconds, 0.0);
    // Two on a link have half of its rate.
    let shared = Cluster { gpus_per_link: 2, ..ring };
    let shared = scaled("mnist_cnn.meta", 1 << 30, &shared).unwrap().with.unwrap();
    assert!(shared.predict(64).unwrap().step_seconds > together.step_seconds);
    assert_eq!(shared.predict(2).unwrap().step_seconds, scaling.predict(2).unwrap().step_seconds);
}

#[test]
fn what_is_not_for_one_gpu_is_refused() {
    let refused = |name: &str| scaled(name, 1 << 30, &cluster(AllReduce::Ring)).unwrap_err().to_string();
    assert!(refused("unet3d_32_b1_towers.meta").contains("the graph is for 2"));
    assert!(refused("gan_16_b8.meta").contains("2 train ops"));
    assert!(refused("bert_16_b1_forward.meta").contains("nothing to reduce"));
}
