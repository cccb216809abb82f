//! How long a rewrite takes, from a file's bytes to the checked bytes of the rewritten one.

use std::fs;
use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use tf_lms::plan::tflms::Parameters;
use tf_lms::{AnalysisOptions, Model, OpenOptions};

/// All that `lms-rewrite` does but for the disk.
fn rewrite_and_check(content: Vec<u8>, sync_mode: u8) -> usize {
    let model = Model::from_bytes("original", content, &OpenOptions::default()).unwrap();
    let graph = model.graph().unwrap();
    let analysis = model.analyse(&graph, &AnalysisOptions::default()).unwrap();
    let parameters = Parameters { sync_mode: sync_mode.try_into().unwrap(), ..Parameters::default() };
    let plan = analysis.plan(&parameters).unwrap();
    let checked = model.rewrite(&graph, &plan).unwrap().check(&[]).unwrap();
    checked.verified().swap_ins
}

/// Real training graphs, with no synchronization and with all.
fn real_graphs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("real graphs");
    for name in ["mnist_cnn", "resnet50_2000_b1", "deeplabv3plus_513_b16"] {
        let content = fs::read(format!("testdata/{name}.meta")).unwrap();
        for sync_mode in [0, 3] {
            let id = BenchmarkId::new(name, format!("sync mode {sync_mode}"));
            group.bench_with_input(id, &content, |bencher, content| {
                bencher.iter_batched(
                    || content.clone(),
                    |content| black_box(rewrite_and_check(content, sync_mode)),
                    BatchSize::LargeInput,
                );
            });
        }
    }
}

/// Chains with long skip edges, to see that time grows with the number of nodes and no faster.
fn chains(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chains");
    group.sample_size(10);
    for nodes in [13_000, 44_000, 100_000, 1_000_000] {
        let content = lms_testing::made_up::chain(nodes, 1_000);
        group.throughput(criterion::Throughput::Elements(nodes as u64));
        group.bench_with_input(BenchmarkId::from_parameter(nodes), &content, |bencher, content| {
            bencher.iter_batched(
                || content.clone(),
                |content| black_box(rewrite_and_check(content, 0)),
                BatchSize::PerIteration,
            );
        });
    }
}

criterion_group!(benches, real_graphs, chains);
criterion_main!(benches);
