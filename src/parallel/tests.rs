//! What is found in the test data.

use std::path::Path;

use super::{ParallelOptions, data_parallel};
use crate::plan::{DataParallel, Gathered};
use crate::{AnalysisOptions, Model};

fn find(name: &str) -> Result<DataParallel, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    let model: Model = crate::read(path).map_err(|error| error.to_string())?;
    let graph = model.graph().map_err(|error| error.to_string())?;
    let options = AnalysisOptions::default();
    let analysis = model.analyse(&graph, &options).map_err(|error| error.to_string())?;
    data_parallel(&analysis, &ParallelOptions::default()).map_err(|error| error.to_string())
}

fn sparse(found: &DataParallel) -> usize {
    found.collectives.iter().filter(|one| matches!(one.what, Gathered::Rows { .. })).count()
}

#[test]
fn survey() {
    let mut names: Vec<_> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).filter(|n| n.ends_with(".meta")).collect();
    names.sort();
    for name in names {
        let start = std::time::Instant::now();
        match find(&name) {
            Ok(found) => println!("{name}: {} tensors, {} collectives, {} sparse, {} bytes, {} variables {:.2}s", found.tensors(), found.collectives.len(), sparse(&found), found.bytes(), found.variables.len(), start.elapsed().as_secs_f64()),
            Err(e) => println!("{name}: ERR {e}"),
        }
    }
}
