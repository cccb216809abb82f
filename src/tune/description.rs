//! What there is to know of a strategy by its name, as plans hold it.

use serde_json::Value;

use crate::plan::Filters;
use crate::plan::tflms::{self, Parameters};

/// What there is to know of a strategy from a plan that it made.
#[derive(Debug)]
pub struct Description {
    /// What plans call it.
    pub name: &'static str,
    /// Whether a tensor that leaves does so for all who read it later, and one of the host may come when it is needed. Else a tensor leaves
    /// for the readers that are far enough away.
    pub swaps_whole_tensors: bool,
    /// The filters that are among its parameters.
    pub filters: fn(&Value) -> Option<Filters>,
    /// Its name with the parameters that it was set to, for people.
    pub settings: fn(&Value) -> String,
}

/// The strategy of this name; none if it is someone else's.
pub fn describe(strategy: &str) -> Option<&'static Description> {
    STRATEGIES.iter().find(|description| description.name == strategy)
}

const STRATEGIES: [Description; 2] = [
    Description {
        name: tflms::NAME,
        swaps_whole_tensors: false,
        filters: |parameters| {
            serde_json::from_value(parameters.clone()).ok().map(|own: Parameters| own.filters)
        },
        settings: tflms_settings,
    },
    Description {
        name: super::planned::NAME,
        swaps_whole_tensors: true,
        filters: |_| None,
        settings: planned_settings,
    },
];

fn tflms_settings(parameters: &Value) -> String {
    let names = ["swapout_threshold", "swapin_ahead", "swapin_groupby", "sync_mode"];
    let flag = |name: &str| {
        let value = parameters.get(name).map(ToString::to_string).unwrap_or_default();
        format!(" --{} {value}", name.replace('_', "-"))
    };
    tflms::NAME.to_string() + &names.map(flag).concat()
}

fn planned_settings(parameters: &Value) -> String {
    let schedule = parameters.get("schedule").and_then(Value::as_str).unwrap_or_default();
    let fill = parameters.get("fill").and_then(Value::as_f64).unwrap_or(1.0);
    format!("{}: {schedule} schedule, {:.0}% of the budget filled", super::planned::NAME, fill * 100.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_told_in_the_words_of_each_strategy() {
        let told = |strategy: &str, parameters: Value| (describe(strategy).unwrap().settings)(&parameters);
        let parameters = serde_json::to_value(Parameters::default()).unwrap();
        assert_eq!(
            told("tflms", parameters),
            "tflms --swapout-threshold 1 --swapin-ahead 1 --swapin-groupby 0 --sync-mode 0"
        );
        assert_eq!(
            told("planned", json!({ "schedule": "frugal", "fill": 0.62 })),
            "planned: frugal schedule, 62% of the budget filled"
        );
        assert!(describe("someone-elses").is_none());
    }
}
