//! What there is to know of a strategy, in the strategy's own words.

use serde_json::Value;

use super::strategies::entry;
use crate::plan::Filters;

/// What there is to know of a strategy: how it is called, what it can, and what its parameters mean.
///
/// Each strategy has one, a `static` beside its code; nobody else compares names of strategies.
#[derive(Debug)]
pub struct Description {
    /// What the command line and plans call it.
    pub name: &'static str,
    /// What it does, in a line of a tool's help.
    pub about: &'static str,
    /// What it can, and what it needs.
    pub can: Abilities,
    /// Parameters that only it has: the command line has a flag for each.
    pub parameters: &'static [Parameter],
    /// The entries of a plan's parameters that reports show, in their order.
    pub shown: &'static [&'static str],
    /// The filters that are among a plan's parameters.
    pub filters: fn(&Value) -> Option<Filters>,
    /// A plan's parameters for people, to follow the name; without it, what is `shown` as flags.
    pub settings: Option<fn(&Value) -> String>,
}

/// What a strategy can, and what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Abilities {
    /// It makes a plan of its parameters alone, where no budget is given ([`super::Strategy::plan_as_told`]).
    pub plans_without_budget: bool,
    /// It needs to know which ops a step runs.
    pub needs_step: bool,
    /// It keeps weights on the host where it is allowed to.
    pub swaps_weights: bool,
    /// It can be told TFLMSv2's thresholds where no budget is given.
    pub takes_thresholds: bool,
    /// A tensor that leaves does so for all who read it later, and one of the host may come when it is needed. Else a tensor leaves
    /// for some of its readers.
    pub swaps_whole_tensors: bool,
}

/// A parameter of a strategy.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its name in plans; its flag has hyphens for underscores.
    pub name: &'static str,
    /// What it means, in a line of a tool's help.
    pub help: &'static str,
    /// What may be given.
    pub kind: ParameterKind,
    /// Whether only the long help tells of it.
    pub is_rare: bool,
}

/// What a parameter may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// A whole number, at least this one, at most [`u32::MAX`]; and what it counts, as in `LEVELS`.
    Number(i64, &'static str),
    /// Given or not.
    Switch,
    /// A list, by commas; and of what, as in `SCOPE,…`.
    List(&'static str),
}

impl Description {
    /// A strategy that can nothing in particular and has no parameters: the fields to start from.
    pub const fn named(name: &'static str) -> Description {
        Description {
            name,
            about: "",
            can: Abilities {
                plans_without_budget: false,
                needs_step: false,
                swaps_weights: false,
                takes_thresholds: false,
                swaps_whole_tensors: false,
            },
            parameters: &[],
            shown: &[],
            filters: |_| None,
            settings: None,
        }
    }

    /// Its name with the parameters that a plan was made with, for people.
    pub fn told(&self, parameters: &Value) -> String {
        let flag = |(name, value): (String, &Value)| match value {
            Value::Bool(_) => format!(" --{name}"),
            value => format!(" --{name} {value}"),
        };
        let flags = || self.shown(parameters).map(flag).collect();
        self.name.to_string() + &self.settings.map_or_else(flags, |settings| settings(parameters))
    }

    /// The parameters that reports show, by the names of their flags, as far as the plan has them. What is off is not shown.
    pub fn shown<'a>(&self, parameters: &'a Value) -> impl Iterator<Item = (String, &'a Value)> {
        let entry = |name: &&str| Some((name.replace('_', "-"), parameters.get(*name)?));
        self.shown.iter().filter_map(entry).filter(|(_, value)| **value != Value::Bool(false))
    }
}

/// The strategy of this name; none if it is someone else's.
pub fn describe(strategy: &str) -> Option<&'static Description> {
    entry(strategy).map(|entry| entry.description)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::tflms::Parameters;
    use crate::tune::STRATEGIES;

    #[test]
    fn parameters_are_told_in_the_words_of_each_strategy() {
        let told = |strategy: &str, parameters: Value| describe(strategy).unwrap().told(&parameters);
        let parameters = serde_json::to_value(Parameters::default()).unwrap();
        assert_eq!(
            told("tflms", parameters),
            "tflms --swapout-threshold 1 --swapin-ahead 1 --swapin-groupby 0 --sync-mode 0"
        );
        assert_eq!(
            told("planned", json!({ "schedule": "frugal", "fill": 0.62 })),
            "planned: frugal schedule, 62% of the budget filled"
        );
        let first = |fuse: bool| json!({ "n_tensors": -1, "lb": 2, "ub": 9, "fuse_swapins": fuse });
        assert_eq!(told("tflms-v1", first(false)), "tflms-v1 --n-tensors -1 --lb 2 --ub 9");
        assert_eq!(told("tflms-v1", first(true)), "tflms-v1 --n-tensors -1 --lb 2 --ub 9 --fuse-swapins");
        assert!(describe("someone-elses").is_none());
    }

    #[test]
    fn no_two_strategies_share_a_name_or_a_flag() {
        let names: Vec<&str> = STRATEGIES.iter().map(|entry| entry.description.name).collect();
        let flags = STRATEGIES.iter().flat_map(|entry| entry.description.parameters).map(|own| own.name);
        let mut all: Vec<&str> = names.into_iter().chain(flags).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
