//! Asks whether a training graph fits a GPU's memory, and what it would take.
//!
//!     cargo run --release --example will_it_fit -- testdata/resnet50_2000_b1.meta 4GiB

use std::env;
use std::error::Error;

use tf_lms::size::{Size, parse_size};
use tf_lms::{AnalysisOptions, Budget};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [input, memory] = arguments.as_slice() else { return Err("give INPUT and MEMORY, as 4GiB".into()) };
    let budget = Budget::new(parse_size(memory)?);

    let model = tf_lms::read(input)?;
    let graph = model.graph()?;
    let analysis = model.analyse(&graph, &AnalysisOptions::default())?;
    let fit = analysis.fit(&budget)?;

    let before = Size(fit.peak_bytes_before());
    match (fit.peak_bytes(), fit.slowdown()) {
        _ if fit.fits_as_it_is() => println!("{input} fits as it is: its peak is {before}"),
        (Some(peak), Some(slowdown)) => {
            println!("{input} fits with swapping: its peak is {peak} instead of {before}", peak = Size(peak));
            println!("a step takes {:.1}% longer on {}", slowdown * 100.0, budget.profile.name);
        }
        _ => println!("{input} does not fit: no plan gets below {}", Size(fit.floor_bytes())),
    }
    Ok(())
}
