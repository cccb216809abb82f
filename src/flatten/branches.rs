//! Conditions with the bodies of their branches, as TensorFlow's runtime makes branches of them.
//!
//! `If` becomes a `Switch` for each input and a `Merge` for each result. What stands in a branch and reads nothing of it waits for
//! `IF/then/start` or `IF/else/start`, which runs only if the branch is taken. Handles of resources go by the `Switch`: what works on them
//! waits for the start of the branch. What waits for the whole waits for a `Merge` with the name of the condition, behind the effects of
//! the branch that was taken.
//!
//! `Case` is a row of forks: is it the first, else is it the second, and so on. The last branch is taken for all numbers that are none of
//! the others. (The runtime has a switch with many ways, which no file may name.)

use super::error::FlattenError;
use super::expand::Expansion;
use super::library::{Call, CallKind, LocalTensor};
use super::parts::{
    Argument, Around, FlatNode, Flattened, Instance, Made, MadeInput, Tensor, of_type, output_of,
};
use crate::dtype::DataType;
use crate::graph::NodeAttrs;
use crate::ops::{Attr, AttrLookup};
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::{AttrValue, TensorProto, TensorShapeProto};

/// What a branch's names have in them.
fn branch_name(kind: CallKind, branch: u32) -> String {
    match (kind, branch) {
        (CallKind::If, 0) => "else".to_string(),
        (CallKind::If, _) => "then".to_string(),
        _ => format!("branch_{branch}"),
    }
}

/// The nodes that lead inputs to the branches of one condition.
struct Forks {
    around: Around,
    kind: CallKind,
    branches: usize,
    /// What all of them wait for.
    waits: Option<u32>,
    /// What each fork goes by: the condition itself, or whether the number is that of the branch.
    by: Vec<MadeInput>,
}

impl Forks {
    fn switch(
        &self,
        expansion: &mut Expansion<'_, '_>,
        name: &str,
        data: MadeInput,
        by: MadeInput,
        dtype: DataType,
    ) -> u32 {
        let waits = self.waits.map(|start| MadeInput::Control(FlatNode::Made(start)));
        let inputs = [data, by].into_iter().chain(waits).collect();
        expansion.make_around(&self.around, name, "Switch", inputs, vec![of_type(dtype)])
    }

    /// Leads what decides to all branches, by forks that come of it themselves.
    fn decide(
        &mut self,
        expansion: &mut Expansion<'_, '_>,
        (caller, decides): (u32, LocalTensor),
        made: &mut Vec<u32>,
    ) -> Vec<Tensor> {
        let mut way = MadeInput::Data(caller, decides);
        if self.kind == CallKind::If {
            self.by = vec![MadeInput::Decides(caller, decides)];
            return self.lead(expansion, "taken", way, DataType::BOOL, made);
        }
        let mut reached = Vec::with_capacity(self.branches);
        for branch in 0..self.branches.saturating_sub(1) as u32 {
            let attrs = vec![
                ("dtype", AttrValue { value: Some(Value::Type(DataType::INT32.number())) }),
                ("value", AttrValue { value: Some(Value::Tensor(number(branch))) }),
            ];
            let number =
                expansion.make_around(&self.around, &format!("number_{branch}"), "Const", Vec::new(), attrs);
            let inputs = vec![way, MadeInput::Tensor(output_of(number, 0))];
            let is_it = expansion.make_around(
                &self.around,
                &format!("is_{branch}"),
                "Equal",
                inputs,
                vec![of_type(DataType::INT32)],
            );
            let by = MadeInput::Tensor(output_of(is_it, 0));
            let fork = self.switch(expansion, &format!("taken_{branch}"), way, by, DataType::INT32);
            made.extend([number, is_it, fork]);
            self.by.push(by);
            reached.push(output_of(fork, 1));
            way = MadeInput::Tensor(output_of(fork, 0));
        }
        let last = match way {
            MadeInput::Tensor(last) => last,
            // One branch alone, which is always taken.
            only => {
                let only = expansion.make_around(
                    &self.around,
                    "taken",
                    "Identity",
                    vec![only],
                    vec![of_type(DataType::INT32)],
                );
                made.push(only);
                output_of(only, 0)
            }
        };
        reached.push(last);
        reached
    }

    /// Leads a tensor to all branches. Returns what it is in each, and adds the nodes.
    fn lead(
        &self,
        expansion: &mut Expansion<'_, '_>,
        name: &str,
        data: MadeInput,
        dtype: DataType,
        made: &mut Vec<u32>,
    ) -> Vec<Tensor> {
        if self.kind == CallKind::If {
            let switch = self.switch(expansion, name, data, self.by[0], dtype);
            made.push(switch);
            return vec![output_of(switch, 0), output_of(switch, 1)];
        }
        let mut way = data;
        let mut reached = Vec::with_capacity(self.branches);
        for (branch, &by) in self.by.iter().enumerate() {
            let switch = self.switch(expansion, &format!("{name}_{branch}"), way, by, dtype);
            made.push(switch);
            reached.push(output_of(switch, 1));
            way = MadeInput::Tensor(output_of(switch, 0));
        }
        let last = match way {
            MadeInput::Tensor(last) => last,
            only => {
                let only =
                    expansion.make_around(&self.around, name, "Identity", vec![only], vec![of_type(dtype)]);
                made.push(only);
                output_of(only, 0)
            }
        };
        reached.push(last);
        reached
    }
}

/// A number as the value of a constant.
fn number(value: u32) -> TensorProto {
    TensorProto {
        dtype: DataType::INT32.number(),
        tensor_shape: Some(TensorShapeProto::default()),
        int_val: vec![value as i32],
        ..TensorProto::default()
    }
}

impl Expansion<'_, '_> {
    /// What a tensor that decides is before it was led into branches by forks. So the condition of a branch and that of its gradient, which
    /// is in another one, go by one tensor, and it can be seen that they take the same side.
    pub(super) fn deciding(&mut self, instance: u32, read: LocalTensor) -> Result<Tensor, FlattenError> {
        let mut found = self.tensor(instance, read)?;
        // What a loop carries goes by a `Switch` too, and is another thing in each iteration; but that reads what was made.
        while let FlatNode::Made(made) = found.node
            && self.made[made as usize].op == "Switch"
            && let Some(&MadeInput::Data(instance, read)) = self.made[made as usize].inputs.first()
        {
            found = self.tensor(instance, read)?;
        }
        Ok(found)
    }

    /// Puts branches in the place of a condition: what is before them.
    pub(super) fn branch(&mut self, caller: u32, node: u32, call: &Call) -> Result<(), FlattenError> {
        let body = self.body(caller);
        let bad = |input: &str| FlattenError::BadInput {
            function: body.name().to_string(),
            reader: body.nodes.name(node as usize).to_string(),
            input: input.to_string(),
        };
        let mut flattened = Flattened::default();
        let decides = body.data_input(node, 0).ok_or_else(|| bad("its condition"))?;
        let mut forks = Forks {
            around: self.around(caller, node)?,
            kind: call.kind,
            branches: call.callees.len(),
            waits: None,
            by: Vec::new(),
        };
        if body.has_control_inputs(node) {
            let controls = vec![MadeInput::ControlsOf { instance: caller, node }];
            let start = self.make_around(&forks.around, "start", "NoOp", controls, Vec::new());
            flattened.before.push(start);
            forks.waits = Some(start);
        }
        let reached = forks.decide(self, (caller, decides), &mut flattened.before);
        for (branch, taken) in (0..).zip(reached) {
            let name = format!("{}/start", branch_name(call.kind, branch));
            let data = vec![MadeInput::Tensor(taken)];
            let start = self.make_around(
                &forks.around,
                &name,
                "Identity",
                data,
                vec![of_type(deciding_type(call.kind))],
            );
            flattened.before.push(start);
            flattened.starts.push(start);
        }
        let types = match NodeAttrs::new(body.nodes, node as usize).attr("Tin") {
            Some(Attr::Types(types)) => types,
            _ => return Err(bad("the types of its inputs")),
        };
        for (argument, dtype) in types.into_iter().enumerate() {
            if dtype == DataType::RESOURCE {
                flattened.routed.push(None);
                continue;
            }
            let data = body.data_input(node, argument + 1).ok_or_else(|| bad("an input"))?;
            let data = MadeInput::Data(caller, data);
            let routed = forks.lead(self, &format!("switch_{argument}"), data, dtype, &mut flattened.before);
            flattened.routed.push(Some(routed));
        }
        self.instances[caller as usize].calls.insert(node, flattened);
        Ok(())
    }

    /// Adds a branch of a condition.
    pub(super) fn add_branch(&mut self, caller: u32, node: u32, branch: u32) -> Result<u32, FlattenError> {
        let call = &self.body(caller).calls[&node];
        let scope = format!("{}/{}/", self.call_scope(caller, node), branch_name(call.kind, branch));
        let device = self.device(caller, node)?;
        let function = call.callees[branch as usize];
        let callee = self.instances.len() as u32;
        let mut arguments = vec![Argument::Unknown; self.library.body(function).argument_names().count()];
        let flattened = &self.instances[caller as usize].calls[&node];
        let start = flattened.starts[branch as usize];
        let routed: Vec<Option<Tensor>> =
            flattened.routed.iter().map(|reached| Some(reached.as_ref()?[branch as usize])).collect();
        for (known, tensor) in arguments.iter_mut().zip(routed) {
            let Some(tensor) = tensor else { continue };
            if let FlatNode::Made(made) = tensor.node {
                self.made[made as usize].branches.push(callee);
            }
            *known = Argument::Known(tensor);
        }
        self.instances[caller as usize]
            .calls
            .entry(node)
            .and_modify(|flattened| flattened.bodies.push(callee));
        self.add(
            Instance {
                function,
                call: Some((caller, node)),
                first_input: 1,
                gate: Some(FlatNode::Made(start)),
                gated: callee,
                device,
                arguments,
                ..Instance::default()
            },
            &scope,
        )
    }

    /// Adds what is behind the branches of a condition.
    pub(super) fn join(&mut self, caller: u32, node: u32) -> Result<(), FlattenError> {
        let scope = self.call_scope(caller, node);
        let body = self.body(caller);
        let kind = body.calls[&node].kind;
        let flattened = &self.instances[caller as usize].calls[&node];
        let (bodies, device) = (flattened.bodies.clone(), self.device(caller, node)?);
        let starts = flattened.starts.clone();
        let attrs = NodeAttrs::new(body.nodes, node as usize);
        let types = match attrs.attr("Tout") {
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
                owner: caller,
                ..Made::default()
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
            for ((branch, start), &instance) in (0..).zip(starts).zip(&bodies) {
                let name = self.free_name(format!("{scope}/{}/done", branch_name(kind, branch))).into();
                let end = self.make(Made {
                    name,
                    op: "Identity".to_string(),
                    inputs: vec![MadeInput::Tensor(output_of(start, 0)), MadeInput::EffectsOf(instance)],
                    device: device.clone(),
                    attrs: vec![of_type(deciding_type(kind))],
                    owner: caller,
                    ..Made::default()
                });
                behind.push(end);
                ends.push(MadeInput::Tensor(output_of(end, 0)));
            }
            let name = self.name(FlatNode::Body { instance: caller, node }).to_string();
            let end = merge(self, name, ends, deciding_type(kind));
            behind.push(end);
            done = Some(end);
        }
        self.instances[caller as usize].calls.entry(node).and_modify(|flattened| {
            flattened.results = Some(results);
            flattened.behind = behind;
            flattened.done = done;
            flattened.routed.clear();
        });
        Ok(())
    }
}

/// The type of what decides which branch is taken.
fn deciding_type(kind: CallKind) -> DataType {
    match kind {
        CallKind::Case => DataType::INT32,
        _ => DataType::BOOL,
    }
}
