//! Flags for what only some strategies know: one for each parameter that a strategy describes.

use std::sync::LazyLock;

use clap::builder::NonEmptyStringValueParser;
use clap::error::Result as ClapResult;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use serde_json::{Map, Value};

use super::Failure;
use crate::tune::{Description, Parameter, ParameterKind, STRATEGIES};

/// The parameters that were given of those that only some strategies know.
#[derive(Debug, Clone, Default)]
pub struct OwnArgs {
    given: Map<String, Value>,
}

impl OwnArgs {
    /// What was given, by the parameters' names.
    pub fn given(&self) -> &Map<String, Value> {
        &self.given
    }

    /// Checks that the strategy knows all that was given; `chosen` is none where nobody named one.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub(super) fn check(&self, chosen: Option<&Description>) -> anyhow::Result<()> {
        let is_known = |name: &str| {
            let known = chosen.map_or(&[][..], |chosen| chosen.parameters);
            known.iter().any(|parameter| parameter.name == name)
        };
        for Flag { strategy, parameter, long, .. } in FLAGS.iter() {
            if self.given.contains_key(parameter.name) && !is_known(parameter.name) {
                return Err(Failure::Usage.error(format!(
                    "--{long} is a parameter of --strategy {}: give that too, or leave it out",
                    strategy.name
                )));
            }
        }
        Ok(())
    }
}

/// The flag of a parameter. `clap` wants to have its words for as long as the program runs.
struct Flag {
    strategy: &'static Description,
    parameter: &'static Parameter,
    long: String,
    heading: String,
}

/// The flags of all such parameters.
static FLAGS: LazyLock<Vec<Flag>> = LazyLock::new(|| {
    let described = STRATEGIES.iter().map(|entry| entry.description);
    let of = |strategy: &'static Description| {
        strategy.parameters.iter().map(move |parameter| Flag {
            strategy,
            parameter,
            long: parameter.name.replace('_', "-"),
            heading: format!("Parameters of --strategy {}", strategy.name),
        })
    };
    described.flat_map(of).collect()
});

impl Flag {
    fn arg(&'static self) -> Arg {
        let Parameter { name, help, kind, is_rare } = *self.parameter;
        let arg = Arg::new(name).long(self.long.as_str()).help(help);
        let arg = arg.help_heading(self.heading.as_str()).hide_short_help(is_rare);
        match kind {
            ParameterKind::Number(least, counts) => arg
                .value_name(counts)
                .allow_negative_numbers(true)
                .value_parser(value_parser!(i64).range(least..=u32::MAX.into())),
            ParameterKind::Switch => arg.action(ArgAction::SetTrue),
            ParameterKind::List(of) => arg
                .value_name(of)
                .action(ArgAction::Append)
                .value_delimiter(',')
                .value_parser(NonEmptyStringValueParser::new()),
        }
    }

    /// What was given for it.
    fn value(&self, matches: &ArgMatches) -> Option<Value> {
        let Parameter { name, kind, .. } = *self.parameter;
        match kind {
            ParameterKind::Number(..) => matches.get_one::<i64>(name).map(|&number| number.into()),
            ParameterKind::Switch => matches.get_flag(name).then_some(Value::Bool(true)),
            ParameterKind::List(_) => {
                let given = matches.get_many::<String>(name)?;
                Some(given.cloned().collect::<Vec<String>>().into())
            }
        }
    }
}

impl Args for OwnArgs {
    fn augment_args(command: Command) -> Command {
        FLAGS.iter().fold(command, |command, flag| command.arg(flag.arg()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        OwnArgs::augment_args(command)
    }
}

impl FromArgMatches for OwnArgs {
    fn from_arg_matches(matches: &ArgMatches) -> ClapResult<OwnArgs> {
        let entry = |flag: &Flag| Some((flag.parameter.name.to_string(), flag.value(matches)?));
        Ok(OwnArgs { given: FLAGS.iter().filter_map(entry).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> ClapResult<()> {
        *self = OwnArgs::from_arg_matches(matches)?;
        Ok(())
    }
}
