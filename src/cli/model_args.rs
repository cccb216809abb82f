//! Flags for what is read and written.

use std::ffi::OsString;
use std::fs;

use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;

use super::{GraphArgs, StepArgs};
use crate::format::{Destination, Encoding, Source};
use crate::pipeline::{Error, Model, OpenOptions, StepFunction, read_op_list};

/// Which model to read.
#[derive(Debug, Clone, Args)]
pub struct ModelArgs {
    /// GraphDef, MetaGraphDef or SavedModel (file or directory), binary or text; `-` for standard input
    #[arg(value_name = "INPUT", required_unless_present_any = ["completions", "man_page"])]
    pub input: Option<OsString>,

    /// Tags of the graph to take from a SavedModel that holds several
    #[arg(long, value_name = "TAG,…", value_delimiter = ',')]
    pub tags: Option<Vec<String>>,
}

impl ModelArgs {
    /// Where to read from.
    pub fn source(&self) -> Source {
        Source::from(self.input.as_deref().unwrap_or("-".as_ref()))
    }

    /// Reads the model, and the definitions of its ops. Its graph is the file's, whatever functions are called there.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be read.
    pub fn read(&self, graph: &GraphArgs) -> Result<Model, Error> {
        self.read_from(&self.source(), graph)
    }

    /// The same; if the training step is a function, the model's graph is that function's.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be read, or the function cannot be made a graph.
    pub fn read_step(&self, graph: &GraphArgs, step: &StepArgs) -> Result<Model, Error> {
        Model::open(&self.source(), &self.options(graph, step.step())?)
    }

    /// Reads another model with the same flags.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be read.
    pub fn read_from(&self, source: &Source, graph: &GraphArgs) -> Result<Model, Error> {
        Model::open(source, &self.options(graph, StepFunction::TopLevel)?)
    }

    fn options(&self, graph: &GraphArgs, step: StepFunction) -> Result<OpenOptions, Error> {
        let mut options = OpenOptions { tags: self.tags.clone(), step, ..OpenOptions::default() };
        if let Some(path) = &graph.op_defs {
            let name = path.display().to_string();
            let content = fs::read(path).map_err(|source| Error::Read { name: name.clone(), source })?;
            options.op_defs = read_op_list(&name, &content)?;
        }
        Ok(options)
    }
}

/// How to write a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// The protobuf wire format
    Binary,
    /// The protobuf text format
    Text,
}

/// Where to write a model.
#[derive(Debug, Clone, Args)]
pub struct OutputArgs {
    /// Where to write; `-` for standard output; a directory if INPUT is a SavedModel directory
    #[arg(short, long, value_name = "OUTPUT")]
    pub output: Option<OsString>,

    /// Encoding of the output [default: that of the input]
    #[arg(long, value_name = "FORMAT")]
    pub output_format: Option<OutputFormat>,
}

impl OutputArgs {
    /// Where to write to, if anywhere.
    pub fn destination(&self) -> Option<Destination> {
        self.output.as_deref().map(Destination::from)
    }

    /// The encoding to write.
    pub fn encoding(&self, input: Encoding) -> Encoding {
        match self.output_format {
            None => input,
            Some(OutputFormat::Binary) => Encoding::Binary,
            Some(OutputFormat::Text) => Encoding::Text,
        }
    }
}

/// What a tool says of itself.
#[derive(Debug, Clone, Args)]
pub struct ManualArgs {
    /// Print a completion script for a shell
    #[arg(long, value_name = "SHELL")]
    pub completions: Option<Shell>,

    /// Print the manual page
    #[arg(long)]
    pub man_page: bool,
}

impl ManualArgs {
    /// Prints what was asked for. Whether anything was.
    ///
    /// # Errors
    ///
    /// If standard output cannot be written.
    pub fn print(&self, mut command: Command) -> std::io::Result<bool> {
        if let Some(shell) = self.completions {
            let name = command.get_name().to_string();
            clap_complete::generate(shell, &mut command, name, &mut std::io::stdout());
        } else if self.man_page {
            clap_mangen::Man::new(command).render(&mut std::io::stdout())?;
        }
        Ok(self.completions.is_some() || self.man_page)
    }
}

/// How much to say.
#[derive(Debug, Clone, Args)]
pub struct Verbosity {
    /// Say nothing but errors
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Say more
    #[arg(short, long)]
    pub verbose: bool,

    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}
