//! Rewrites a training graph as TFLMSv2 would, and writes it once it is checked.
//!
//!     cargo run --release --example rewrite_a_file -- testdata/resnet50_2000_b1.meta resnet50_lms.meta

use std::env;
use std::error::Error;

use tf_lms::AnalysisOptions;
use tf_lms::plan::tflms::Parameters;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [input, output] = arguments.as_slice() else { return Err("give INPUT and OUTPUT".into()) };

    let model = tf_lms::read(input)?;
    let graph = model.graph()?;
    let analysis = model.analyse(&graph, &AnalysisOptions::default())?;
    let plan = analysis.plan(&Parameters::default())?;
    let checked = model.rewrite(&graph, &plan)?.check(&[])?;
    model.write(&checked, output)?;

    let verified = checked.verified();
    println!(
        "{output}: {} tensors leave and come back {} times",
        verified.swapped_tensors, verified.swap_ins
    );
    Ok(())
}
