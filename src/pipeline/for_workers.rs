//! A model made to train on several workers.

use std::collections::HashMap;

use super::error::OfFile;
use super::{Error, Model, OpenOptions, StepFunction};
use crate::flatten::{Flat, find_call, loss_of, signature_of, write_back};
use crate::format::{self, Edits, Encoding, Model as File, collected_ops};
use crate::graph::Graph;
use crate::parallel::{ParallelError, ParallelOptions, data_parallel};
use crate::plan::{Analysis, DataParallel};
use crate::rewrite::{self, RewriteError, is_added};

impl Model {
    /// Finds out what makes this model train on several workers. `analysis` is of its graph.
    ///
    /// Unless `options` name a loss, it is the first that the file names; of a function what it returns as `loss`, or its only return.
    ///
    /// # Errors
    ///
    /// If it was rewritten before, or what becomes of a gradient is not understood.
    pub fn data_parallel(
        &self,
        analysis: &Analysis,
        options: &ParallelOptions,
    ) -> Result<DataParallel, Error> {
        let nodes = self.analysed().nodes();
        if let Some(node) = (0..nodes.len()).map(|node| nodes.name(node)).find(|name| is_added(name)) {
            return Err(RewriteError::AlreadyRewritten { node: node.to_string() }).of(self.name())?;
        }
        let Some(flat) = &self.flat else {
            let collected = self.meta_graph.as_ref().map(|meta_graph| collected_ops(meta_graph, "losses"));
            let first = collected.and_then(|losses| losses.into_iter().next());
            let loss = options.loss.clone().or(first);
            let options = ParallelOptions { loss, ..options.clone() };
            return Ok(data_parallel(analysis, &options).of(self.name())?);
        };
        let loss = self.returned_loss(flat, options.loss.as_deref())?;
        let options = ParallelOptions { loss, ..options.clone() };
        let mut found = data_parallel(analysis, &options).of(self.name())?;
        self.at_top_level(flat, &mut found.variables)?;
        Ok(found)
    }

    /// The op that stands for the return that is the loss.
    fn returned_loss(&self, flat: &Flat, asked: Option<&str>) -> Result<Option<String>, Error> {
        let graph = self.file_graph()?;
        let call = find_call(&graph, &flat.function).map(|call| graph.name(call)).unwrap_or_default();
        let signature = self.meta_graph.as_ref().and_then(|meta_graph| signature_of(meta_graph, call));
        let index = loss_of(call, signature, flat, asked);
        Ok(index.and_then(|index| flat.returns.get(index)).map(|(node, _)| node.clone()))
    }

    /// Names a function's variables as the file's top level does, where the function's call is.
    fn at_top_level(&self, flat: &Flat, variables: &mut [String]) -> Result<(), Error> {
        let graph = self.file_graph()?;
        let given = find_call(&graph, &flat.function).map(|call| graph.data_inputs(call)).unwrap_or_default();
        let names = given.iter().map(|&handle| graph.name(graph.producer(handle)));
        let of_argument: HashMap<&str, &str> =
            flat.arguments.iter().map(|(node, _)| node.as_str()).zip(names).collect();
        for variable in variables {
            let hidden = || ParallelError::HiddenVariable {
                function: flat.function.clone(),
                variable: variable.clone(),
            };
            *variable = of_argument.get(variable.as_str()).ok_or_else(hidden).of(self.name())?.to_string();
        }
        Ok(())
    }

    /// This model made to train on several workers, not checked: a model like any other, to be analysed, planned for and rewritten, and
    /// then to be checked against this one. `graph` is this model's.
    ///
    /// # Errors
    ///
    /// If it is for another graph, or the encoding cannot hold it.
    pub fn parallelized(&self, graph: &Graph, parallel: &DataParallel) -> Result<Model, Error> {
        let (edits, step) = match &self.flat {
            None => {
                let edits = rewrite::parallelize(self.top_level(), graph, parallel).of(self.name())?;
                (edits, StepFunction::TopLevel)
            }
            Some(flat) => {
                let edits = self.parallelized_function(flat, graph, parallel)?;
                (edits, StepFunction::Function(flat.function.clone()))
            }
        };
        let whole = if self.flat.is_some() { &self.file } else { self.top_level() };
        let content = whole.edited(&edits, whole.encoding())?.to_vec();
        let file = File::from_bytes(self.name(), content, &self.read_options)?;
        let (tags, op_defs) = (self.read_options.tags.clone(), self.op_defs.clone());
        let options = OpenOptions { tags, op_defs, step, is_function: self.is_function };
        Ok(Model { source: self.source.clone(), ..Model::new(file, &options)? })
    }

    /// The edits of a function's body, and of the top level around it.
    fn parallelized_function(
        &self,
        flat: &Flat,
        graph: &Graph,
        parallel: &DataParallel,
    ) -> Result<Edits, Error> {
        let edits = rewrite::parallelize_function(&flat.model, graph, parallel).of(self.name())?;
        let body = flat.model.edited(&edits, Encoding::Binary)?.to_vec();
        let body = File::from_bytes(self.name(), body, &format::ReadOptions::default())?;
        let function = write_back(&self.file, flat, &body, &self.registry).of(self.name())?;
        let around = rewrite::broadcast_of_function(&self.file, &self.file_graph()?, parallel);
        Ok(Edits { added: around.of(self.name())?.added, ..function })
    }
}
