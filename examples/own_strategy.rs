//! Plans for a budget with a strategy of its own: the largest tensors leave first, until a step fits.
//!
//!     cargo run --release --example own_strategy -- testdata/resnet50_2000_b1.meta 6GiB

use std::env;
use std::error::Error;

use tf_lms::plan::tflms::{self, Parameters};
use tf_lms::plan::{Draft, TensorSwap};
use tf_lms::size::{Size, parse_size};
use tf_lms::tune::{Description, Found, Judge, Strategy, StrategyError};
use tf_lms::{AnalysisOptions, Budget};

/// What there is to know of it: its name, and of its parameters those that reports show.
static DESCRIPTION: Description = Description { shown: &["tensors"], ..Description::named("largest-first") };

/// Swaps the largest of the tensors that TFLMSv2 would swap, twice as many each time.
struct LargestFirst;

impl Strategy for LargestFirst {
    fn description(&self) -> &'static Description {
        &DESCRIPTION
    }

    fn find(&mut self, judge: &mut Judge) -> Result<Option<Found>, StrategyError> {
        let analysis = judge.outline().analysis();
        let everything = tflms::draft(analysis, &Parameters::default())?;
        let mut swaps = everything.swaps.clone();
        let bytes = |swap: &TensorSwap| analysis.sizes.bytes(swap.tensor).unwrap_or(0);
        swaps.sort_by_key(|swap| std::cmp::Reverse(bytes(swap)));
        let mut count = 1;
        while count < 2 * swaps.len() {
            let some = swaps.iter().take(count).cloned().collect();
            let draft = Draft { swaps: some, ..everything.clone() };
            if let Ok(outcome) = judge.judge(&draft) {
                let parameters = serde_json::json!({ "tensors": count.min(swaps.len()) });
                return Ok(Some(Found { strategy: &DESCRIPTION, draft, outcome, parameters }));
            }
            count *= 2;
        }
        Ok(None)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [input, memory] = arguments.as_slice() else { return Err("give INPUT and MEMORY, as 6GiB".into()) };

    let model = tf_lms::read(input)?;
    let graph = model.graph()?;
    let analysis = model.analyse(&graph, &AnalysisOptions::default())?;
    let fit = analysis.fit_with(&Budget::new(parse_size(memory)?), &mut LargestFirst)?;
    let Some(plan) = fit.plan else { return Err("too little memory for this strategy".into()) };
    let checked = model.rewrite(&graph, &plan)?.check(&[])?;
    println!("{} of {} tensors leave, in {memory}", plan.swaps.len(), checked.verified().nodes);
    println!("the peak was {}", Size(fit.tuning.before.peak_bytes()));
    Ok(())
}
