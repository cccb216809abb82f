//! Conditions with the bodies of their branches, as TensorFlow's runtime makes branches of them.
//!
//! `If` becomes a `Switch` for each input and a `Merge` for each result. What stands in a branch and reads nothing of it waits for
//! `IF/then/start` or `IF/else/start`, which runs only if the branch is taken. Handles of resources go by the `Switch`: what works on them
//! waits for the start of the branch. What waits for the whole waits for a `Merge` with the name of the condition, behind the effects of
//! the branch that was taken.

use std::collections::HashMap;

use super::error::FlattenError;
use super::expand::{Argument, Expansion, FlatNode, Flattened, Instance, Made, MadeInput, Tensor};
use super::library::Call;
use crate::dtype::DataType;
use crate::graph::NodeAttrs;
use crate::ops::{Attr, AttrLookup};
use crate::proto::tensorflow::AttrValue;
use crate::proto::tensorflow::attr_value::Value;

/// The names of the branches, by the output of the `Switch` that leads there.
const BRANCHES: [&str; 2] = ["else", "then"];

fn of_type(dtype: DataType) -> (&'static str, AttrValue) {
    ("T", AttrValue { value: Some(Value::Type(dtype.number())) })
}

impl Expansion<'_, '_> {
    /// Puts branches in the place of a condition: what is before them.
    pub(super) fn branch(&mut self, caller: u32, node: u32, call: &Call) -> Result<(), FlattenError> {
        let (scope, device) = (self.call_scope(caller, node), self.device(caller, node)?);
        let body = self.body(caller);
        let bad = |input: &str| FlattenError::BadInput {
            function: body.name().to_string(),
            reader: body.nodes.name(node as usize).to_string(),
            input: input.to_string(),
        };
        let mut flattened = Flattened::default();
        let predicate = body.data_input(node, 0).ok_or_else(|| bad("its condition"))?;
        let make = |expansion: &mut Self, name: String, op: &str, inputs: Vec<MadeInput>, attrs| {
            let name = expansion.free_name(name).into();
            let (op, device) = (op.to_string(), device.clone());
            let made =
                Made { name, op, inputs, device, attrs, like: None, owner: caller, branches: Vec::new() };
            expansion.make(made)
        };
        let mut waits = Vec::new();
        if body.has_control_inputs(node) {
            let controls = vec![MadeInput::ControlsOf { instance: caller, node }];
            let start = make(self, format!("{scope}/start"), "NoOp", controls, Vec::new());
            flattened.before.push(start);
            waits.push(MadeInput::Control(FlatNode::Made(start)));
        }
        let predicate = MadeInput::Data(caller, predicate);
        let switch = |expansion: &mut Self, name: &str, data: MadeInput, dtype: DataType| {
            let inputs = [data, predicate].into_iter().chain(waits.iter().copied()).collect();
            make(expansion, format!("{scope}/{name}"), "Switch", inputs, vec![of_type(dtype)])
        };
        let taken = switch(self, "taken", predicate, DataType::BOOL);
        flattened.before.push(taken);
        for (output, branch) in (0..).zip(BRANCHES) {
            let data = MadeInput::Tensor(Tensor { node: FlatNode::Made(taken), output });
            let attrs = vec![of_type(DataType::BOOL)];
            let start = make(self, format!("{scope}/{branch}/start"), "Identity", vec![data], attrs);
            flattened.before.push(start);
            flattened.starts.push(start);
        }
        let types = match NodeAttrs::new(body.nodes, node as usize).attr("Tin") {
            Some(Attr::Types(types)) => types,
            _ => return Err(bad("the types of its inputs")),
        };
        for (argument, dtype) in types.into_iter().enumerate() {
            if dtype == DataType::RESOURCE {
                continue;
            }
            let data = body.data_input(node, argument + 1).ok_or_else(|| bad("an input"))?;
            let data = MadeInput::Data(caller, data);
            let made = switch(self, &format!("switch_{argument}"), data, dtype);
            flattened.before.push(made);
            flattened.passed.insert(argument as u32, made);
        }
        flattened.bodies.reserve(call.callees.len());
        self.instances[caller as usize].calls.insert(node, flattened);
        Ok(())
    }

    /// Adds a branch of a condition: the one to which an output of the `Switch`es leads.
    pub(super) fn add_branch(&mut self, caller: u32, node: u32, branch: u32) -> Result<u32, FlattenError> {
        let scope = format!("{}/{}/", self.call_scope(caller, node), BRANCHES[branch as usize]);
        let device = self.device(caller, node)?;
        let function = self.body(caller).calls[&node].callees[branch as usize];
        let callee = self.instances.len() as u32;
        let arguments = self.library.body(function).argument_names().count();
        let mut arguments = vec![Argument::Unknown; arguments];
        let flattened = &self.instances[caller as usize].calls[&node];
        let start = flattened.start(branch);
        let switches: Vec<(u32, u32)> = flattened.passed.iter().map(|(&at, &made)| (at, made)).collect();
        for (argument, made) in switches {
            self.made[made as usize].branches.push(callee);
            if let Some(known) = arguments.get_mut(argument as usize) {
                *known = Argument::Known(Tensor { node: FlatNode::Made(made), output: branch });
            }
        }
        self.instances[caller as usize]
            .calls
            .entry(node)
            .and_modify(|flattened| flattened.bodies.push(callee));
        self.add(
            Instance {
                function,
                call: Some((caller, node)),
                end: 0,
                first_input: 1,
                gate: Some(FlatNode::Made(start)),
                gated: callee,
                device,
                is_on_one_device: false,
                attrs: Default::default(),
                names: Vec::new(),
                calls: HashMap::new(),
                scope: Box::default(),
                arguments,
            },
            &scope,
        )
    }

    /// Adds what is behind the branches of a condition.
    pub(super) fn join(&mut self, caller: u32, node: u32) -> Result<(), FlattenError> {
        let scope = self.call_scope(caller, node);
        let body = self.body(caller);
        let flattened = &self.instances[caller as usize].calls[&node];
        let (bodies, device) = (flattened.bodies.clone(), self.device(caller, node)?);
        let starts = [flattened.start(0), flattened.start(1)];
        let types = match NodeAttrs::new(body.nodes, node as usize).attr("Tout") {
            Some(Attr::Types(types)) => types,
            _ => Vec::new(),
        };
        let merge = |expansion: &mut Self, name: String, inputs: Vec<MadeInput>, dtype: DataType| {
            let count = AttrValue { value: Some(Value::I(bodies.len() as i64)) };
            expansion.make(Made {
                name,
                op: "Merge".to_string(),
                inputs,
                device: device.clone(),
                attrs: vec![("N", count), of_type(dtype)],
                like: None,
                owner: caller,
                branches: Vec::new(),
            })
        };
        let mut results = Vec::new();
        for (index, dtype) in types.into_iter().enumerate() {
            let returned = bodies.iter().filter_map(|&branch| {
                let tensor = *self.body(branch).returns.get(index)?;
                Some(MadeInput::Data(branch, tensor))
            });
            let inputs = returned.collect();
            let name = self.free_name(format!("{scope}/result_{index}")).into();
            results.push(merge(self, name, inputs, dtype));
        }
        let mut behind = results.clone();
        let mut done = None;
        if body.calls[&node].is_awaited {
            let mut ends = Vec::new();
            for ((branch, start), &instance) in BRANCHES.iter().zip(starts).zip(&bodies) {
                let name = self.free_name(format!("{scope}/{branch}/done")).into();
                let taken = Tensor { node: FlatNode::Made(start), output: 0 };
                let end = self.make(Made {
                    name,
                    op: "Identity".to_string(),
                    inputs: vec![MadeInput::Tensor(taken), MadeInput::EffectsOf(instance)],
                    device: device.clone(),
                    attrs: vec![of_type(DataType::BOOL)],
                    like: None,
                    owner: caller,
                    branches: Vec::new(),
                });
                behind.push(end);
                ends.push(MadeInput::Tensor(Tensor { node: FlatNode::Made(end), output: 0 }));
            }
            let name = self.name(FlatNode::Body { instance: caller, node }).to_string();
            let end = merge(self, name, ends, DataType::BOOL);
            behind.push(end);
            done = Some(end);
        }
        self.instances[caller as usize].calls.entry(node).and_modify(|flattened| {
            flattened.results = Some(results);
            flattened.behind = behind;
            flattened.done = done;
            flattened.passed.clear();
        });
        Ok(())
    }
}

impl Flattened {
    /// What a branch of a condition waits for.
    fn start(&self, branch: u32) -> u32 {
        self.starts[branch as usize]
    }
}
