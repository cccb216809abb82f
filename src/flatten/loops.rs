//! Loops with their condition and body, as TensorFlow's runtime makes frames of them.
//!
//! A `While` carries its inputs from iteration to iteration: `Enter` leads each into the frame, `Merge` takes it from there or from the
//! iteration before, `Switch` gives it to the body or, once the condition is false, to `Exit`, and `NextIteration` hands on what the body
//! returns. Handles of resources are led in once and stay the same.
//!
//! What stands in the condition and reads nothing there waits for the first `Merge`; what stands in the body, for `WHILE/body/start`. An
//! iteration begins when all effects of the one before are there: `NextIteration` waits for those of the body, the decision for those
//! of the condition. What waits for the whole waits for all that comes out.

use super::error::FlattenError;
use super::expand::Expansion;
use super::parts::{
    Argument, Attrs, Carried, FlatNode, Flattened, Instance, Made, MadeInput, Tensor, of_type, output_of,
};
use crate::dtype::DataType;
use crate::graph::NodeAttrs;
use crate::ops::{Attr, AttrLookup};
use crate::proto::tensorflow::attr_value::{ListValue, Value};
use crate::proto::tensorflow::{AttrValue, TensorShapeProto};

/// What TensorFlow takes where a loop does not say how many of its iterations may run at the same time.
const PARALLEL_ITERATIONS: i64 = 10;

fn from(made: u32, output: u32) -> MadeInput {
    MadeInput::Tensor(output_of(made, output))
}

/// The attributes of a node with one input, and the same shape at each of its outputs.
fn typed(dtype: DataType, shape: Option<&TensorShapeProto>, outputs: usize) -> Attrs {
    let listed = shape.map(|shape| {
        let list = ListValue { shape: vec![shape.clone(); outputs], ..ListValue::default() };
        ("_output_shapes", AttrValue { value: Some(Value::List(list)) })
    });
    [of_type(dtype)].into_iter().chain(listed).collect()
}

impl Expansion<'_, '_> {
    /// A loop that is damaged, and how.
    fn bad_loop(&self, caller: u32, node: u32, how: &'static str) -> FlattenError {
        let body = self.body(caller);
        let (function, node) = (body.name().to_string(), body.nodes.name(node as usize).to_string());
        FlattenError::Loop { function, node, how }
    }

    /// The types of what a loop carries.
    fn loop_types(&self, caller: u32, node: u32) -> Result<Vec<DataType>, FlattenError> {
        match NodeAttrs::new(self.body(caller).nodes, node as usize).attr("T") {
            Some(Attr::Types(types)) => Ok(types),
            _ => Err(self.bad_loop(caller, node, "does not say what types it carries")),
        }
    }

    /// The shapes that what a loop carries has in all iterations, where the loop says so.
    fn loop_shapes(&self, caller: u32, node: u32) -> Vec<TensorShapeProto> {
        let nodes = self.body(caller).nodes;
        let said = |attr| match nodes.attr(node as usize, attr)?.value? {
            Value::List(list) if !list.shape.is_empty() => Some(list.shape),
            _ => None,
        };
        said("output_shapes").or_else(|| said("_output_shapes")).unwrap_or_default()
    }

    /// Puts a loop in the place of a `While`: what leads into it.
    pub(super) fn enter_loop(&mut self, caller: u32, node: u32) -> Result<(), FlattenError> {
        let around = self.around(caller, node)?;
        let (types, shapes) = (self.loop_types(caller, node)?, self.loop_shapes(caller, node));
        let body = self.body(caller);
        let attrs = NodeAttrs::new(body.nodes, node as usize);
        let parallel = match attrs.attr("parallel_iterations") {
            Some(Attr::Int(number)) => number,
            _ => PARALLEL_ITERATIONS,
        };
        if types.iter().all(|&dtype| dtype == DataType::RESOURCE) {
            return Err(self.bad_loop(
                caller,
                node,
                "carries handles of resources alone, and nothing that changes",
            ));
        }
        let mut flattened = Flattened::default();
        let mut waits = None;
        if body.has_control_inputs(node) {
            let controls = vec![MadeInput::ControlsOf { instance: caller, node }];
            let start = self.make_around(&around, "start", "NoOp", controls, Vec::new());
            flattened.before.push(start);
            waits = Some(MadeInput::Control(FlatNode::Made(start)));
        }
        for (index, &dtype) in types.iter().enumerate() {
            let data = body
                .data_input(node, index)
                .ok_or_else(|| self.bad_loop(caller, node, "has fewer inputs than types"))?;
            let is_handle = dtype == DataType::RESOURCE;
            let shape = shapes.get(index).filter(|_| !is_handle);
            let mut attrs = typed(dtype, shape, 1);
            let value = |value| AttrValue { value: Some(value) };
            attrs.push(("frame_name", value(Value::S(around.scope.clone().into_bytes()))));
            attrs.push(("is_constant", value(Value::B(is_handle))));
            attrs.push(("parallel_iterations", value(Value::I(parallel))));
            let inputs = [MadeInput::Data(caller, data)].into_iter().chain(waits).collect();
            let enter = self.make_around(&around, &format!("enter_{index}"), "Enter", inputs, attrs);
            flattened.before.push(enter);
            if is_handle {
                flattened.carried.push(Carried::Handle(enter));
                continue;
            }
            // What the body returns is known once it is there.
            let next = self.make_around(
                &around,
                &format!("next_{index}"),
                "NextIteration",
                Vec::new(),
                typed(dtype, shape, 1),
            );
            let mut attrs = typed(dtype, None, 1);
            attrs.push(("N", value(Value::I(2))));
            if let Some(shape) = shape {
                let shape = vec![shape.clone(), TensorShapeProto::default()];
                attrs.push((
                    "_output_shapes",
                    value(Value::List(ListValue { shape, ..ListValue::default() })),
                ));
            }
            let merge = self.make_around(
                &around,
                &format!("merge_{index}"),
                "Merge",
                vec![from(enter, 0), from(next, 0)],
                attrs,
            );
            // What it goes by is made with the body.
            let switch = self.make_around(
                &around,
                &format!("switch_{index}"),
                "Switch",
                vec![from(merge, 0)],
                typed(dtype, shape, 2),
            );
            flattened.before.push(merge);
            flattened.carried.push(Carried::Value { merge, switch, next });
        }
        self.instances[caller as usize].calls.insert(node, flattened);
        Ok(())
    }

    /// Adds the condition of a loop (part 0) or its body (part 1).
    pub(super) fn add_part_of_loop(
        &mut self,
        caller: u32,
        node: u32,
        part: u32,
    ) -> Result<u32, FlattenError> {
        let around = self.around(caller, node)?;
        let types = self.loop_types(caller, node)?;
        let callee = self.instances.len() as u32;
        let carried = self.instances[caller as usize].calls[&node].carried.clone();
        let values = || {
            carried.iter().zip(&types).filter_map(|(carried, &dtype)| match *carried {
                Carried::Value { merge, switch, .. } => Some((merge, switch, dtype)),
                Carried::Handle(_) => None,
            })
        };
        let Some((first_merge, first_switch, first_type)) = values().next() else {
            return Err(self.bad_loop(
                caller,
                node,
                "carries handles of resources alone, and nothing that changes",
            ));
        };
        let mut made = Vec::new();
        let (name, gate) = if part == 0 {
            ("condition", first_merge)
        } else {
            let condition = self.instances[caller as usize].calls[&node].bodies[0];
            let Some(&holds) = self.body(condition).returns.first() else {
                return Err(self.bad_loop(caller, node, "has a condition that returns nothing"));
            };
            let inputs = vec![MadeInput::Data(condition, holds), MadeInput::EffectsOf(condition)];
            let decision = self.make_around(&around, "decision", "LoopCond", inputs, Vec::new());
            made.push(decision);
            for (_, switch, _) in values() {
                self.made[switch as usize].inputs.push(from(decision, 0));
                made.push(switch);
            }
            let start = self.make_around(
                &around,
                "body/start",
                "Identity",
                vec![from(first_switch, 1)],
                vec![of_type(first_type)],
            );
            made.push(start);
            ("body", start)
        };
        let function = self.body(caller).calls[&node].callees[part as usize];
        let mut arguments = vec![Argument::Unknown; self.library.body(function).argument_names().count()];
        for (argument, carried) in arguments.iter_mut().zip(&carried) {
            let (node, output) = match *carried {
                // A handle is there in each iteration, also in that which the condition ends: it leads nowhere.
                Carried::Handle(enter) => (enter, 0),
                Carried::Value { merge, .. } if part == 0 => (merge, 0),
                Carried::Value { switch, .. } => (switch, 1),
            };
            if matches!(carried, Carried::Value { .. }) {
                self.made[node as usize].branches.push(callee);
            }
            *argument = Argument::Known(Tensor { node: FlatNode::Made(node), output });
        }
        let flattened = self.instances[caller as usize].calls.entry(node).or_default();
        flattened.bodies.push(callee);
        flattened.before.extend(made);
        self.add(
            Instance {
                function,
                call: Some((caller, node)),
                gate: Some(FlatNode::Made(gate)),
                gated: callee,
                device: around.device,
                arguments,
                ..Instance::default()
            },
            &format!("{}/{name}/", around.scope),
        )
    }

    /// Adds what leads out of a loop.
    pub(super) fn leave_loop(&mut self, caller: u32, node: u32) -> Result<(), FlattenError> {
        let around = self.around(caller, node)?;
        let (types, shapes) = (self.loop_types(caller, node)?, self.loop_shapes(caller, node));
        let flattened = &self.instances[caller as usize].calls[&node];
        let (carried, body) = (flattened.carried.clone(), flattened.bodies[1]);
        let mut results = Vec::new();
        let mut behind = Vec::new();
        let mut exits = Vec::new();
        for (index, (carried, dtype)) in carried.into_iter().zip(types).enumerate() {
            let Carried::Value { switch, next, .. } = carried else {
                // What comes out is what went in.
                let data = self.body(caller).data_input(node, index);
                let data = data.ok_or_else(|| self.bad_loop(caller, node, "has fewer inputs than types"))?;
                let data = vec![MadeInput::Data(caller, data)];
                let handle = self.make_around(
                    &around,
                    &format!("result_{index}"),
                    "Identity",
                    data,
                    vec![of_type(dtype)],
                );
                behind.push(handle);
                results.push(handle);
                continue;
            };
            let Some(&returned) = self.body(body).returns.get(index) else {
                return Err(self.bad_loop(caller, node, "has a body that returns less than it takes"));
            };
            self.made[next as usize].inputs =
                vec![MadeInput::Data(body, returned), MadeInput::EffectsOf(body)];
            let attrs = typed(dtype, shapes.get(index), 1);
            let exit =
                self.make_around(&around, &format!("result_{index}"), "Exit", vec![from(switch, 0)], attrs);
            behind.extend([next, exit]);
            results.push(exit);
            exits.push(MadeInput::Control(FlatNode::Made(exit)));
        }
        let mut done = None;
        if self.body(caller).calls[&node].is_awaited {
            let name = self.name(FlatNode::Body { instance: caller, node }).to_string();
            let (op, device) = ("NoOp".to_string(), around.device.clone());
            let end = self.make(Made { name, op, inputs: exits, device, owner: caller, ..Made::default() });
            behind.push(end);
            done = Some(end);
        }
        let flattened = self.instances[caller as usize].calls.entry(node).or_default();
        flattened.results = Some(results);
        flattened.behind = behind;
        flattened.done = done;
        Ok(())
    }
}
