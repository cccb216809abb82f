//! The calls of a function, each with a copy of the body that it calls.
//!
//! What TensorFlow's runtime does when it inlines a call, we do too:
//!
//! - What the call waits for, the body waits for: where a call has control inputs, a `NoOp` has them, and the ops of the body that read
//!   nothing of the body wait for that.
//! - What waits for the call waits for the body's effects: a `NoOp` with the call's name has them as control inputs.
//! - What the body returns as it got it goes through an `Identity` that waits with the body.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::error::FlattenError;
use super::library::{Body, Call, CallKind, Library, Local, LocalTensor};
use super::parts::{
    Argument, Around, Attrs, FlatNode, Flattened, Instance, KeptCall, Made, MadeInput, Tensor, of_type,
};
use crate::dtype::DataType;
use crate::graph::Device;
use crate::proto::tensorflow::AttrValue;
use crate::proto::tensorflow::attr_value::Value;

/// Far more than any real step has, and few enough that a small damaged file cannot fill the memory.
const MOST_NODES: u64 = 1 << 23;

/// What is to be done next.
enum Task {
    /// The calls of an instance, from this one on.
    Calls(u32, usize),
    /// One of the functions of an instance's node that is a condition or a loop.
    Part(u32, u32, u32),
    /// What is behind all of them.
    Join(u32, u32),
}

/// All copies of all bodies.
pub(super) struct Expansion<'l, 'a> {
    pub library: &'l Library<'a>,
    pub instances: Vec<Instance>,
    pub made: Vec<Made>,
    pub kept: Vec<KeptCall>,
    pub taken: HashSet<Box<str>>,
}

impl<'l, 'a> Expansion<'l, 'a> {
    /// Makes a copy of a body for each call. `order` is what [`Library::read`] returned for the function.
    pub fn of(library: &'l Library<'a>, root: usize, order: &[usize]) -> Result<Self, FlattenError> {
        check_size(library, root, order)?;
        let passes = passed_arguments(library, order);
        let mut expansion = Expansion {
            library,
            instances: Vec::new(),
            made: Vec::new(),
            kept: Vec::new(),
            taken: HashSet::new(),
        };
        // A node of a function may not be called like an argument.
        expansion.taken.extend(library.body(root).argument_names().map(Box::from));
        let body = library.body(root);
        let arguments = body.argument_names().count();
        expansion.add(
            Instance { function: root, arguments: vec![Argument::Unknown; arguments], ..Instance::default() },
            "",
        )?;
        // What is still to be done, the last first.
        let mut open = vec![Task::Calls(0, 0)];
        while let Some(task) = open.last_mut() {
            let (caller, place) = match task {
                Task::Calls(instance, next) => {
                    *next += 1;
                    (*instance, *next - 1)
                }
                &mut Task::Part(caller, node, part) => {
                    open.pop();
                    let callee = match expansion.kind(caller, node) {
                        CallKind::While => expansion.add_part_of_loop(caller, node, part)?,
                        _ => expansion.add_branch(caller, node, part)?,
                    };
                    open.push(Task::Calls(callee, 0));
                    continue;
                }
                &mut Task::Join(caller, node) => {
                    open.pop();
                    match expansion.kind(caller, node) {
                        CallKind::While => expansion.leave_loop(caller, node)?,
                        _ => expansion.join(caller, node)?,
                    }
                    continue;
                }
            };
            let body = library.body(expansion.instances[caller as usize].function);
            match body.call_nodes.get(place) {
                None => {
                    open.pop();
                    expansion.instances[caller as usize].end = expansion.instances.len() as u32;
                }
                Some(&node) => {
                    let call = &body.calls[&node];
                    match call.stays {
                        Some(why) => {
                            let name = expansion.name(FlatNode::Body { instance: caller, node }).to_string();
                            let function = library.functions()[call.callees[0]].signature.name.clone();
                            expansion.kept.push(KeptCall { node: name, function, why });
                        }
                        None if !call.kind.is_plain() => {
                            match call.kind {
                                CallKind::While => expansion.enter_loop(caller, node)?,
                                _ => expansion.branch(caller, node, call)?,
                            }
                            let parts = (0..call.callees.len() as u32).rev();
                            open.push(Task::Join(caller, node));
                            open.extend(parts.map(|part| Task::Part(caller, node, part)));
                        }
                        None => {
                            let callee = expansion.flatten(caller, node, call, &passes[&call.callees[0]])?;
                            open.push(Task::Calls(callee, 0));
                        }
                    }
                }
            }
        }
        Ok(expansion)
    }

    pub fn body(&self, instance: u32) -> &'l Body<'a> {
        self.library.body(self.instances[instance as usize].function)
    }

    /// The nodes of an instance whose effects are its own.
    ///
    /// A session leaves out what nobody needs once branches and loops are flat: an update there that nothing waits for is never made, and a
    /// graph of version 1 has none that it was not told of.
    pub fn effects(&self, instance: u32) -> &'l [u32] {
        let body = self.body(instance);
        let is_part = self.instances[instance as usize]
            .call
            .is_some_and(|(caller, node)| !self.kind(caller, node).is_plain());
        match is_part && self.library.is_of_top_level() && !body.says_effects {
            true => &[],
            false => &body.effects,
        }
    }

    /// How a node of an instance calls.
    pub fn kind(&self, caller: u32, node: u32) -> CallKind {
        self.body(caller).calls[&node].kind
    }

    /// The instance that a node of the flat graph belongs to.
    pub fn owner(&self, node: FlatNode) -> u32 {
        match node {
            FlatNode::Body { instance, .. } => instance,
            FlatNode::Made(made) => self.made[made as usize].owner,
        }
    }

    /// A node's name in the flat graph.
    pub fn name(&self, node: FlatNode) -> &str {
        match node {
            FlatNode::Body { instance, node } => {
                self.instances[instance as usize].names[node as usize].as_deref().unwrap_or_default()
            }
            FlatNode::Made(made) => &self.made[made as usize].name,
        }
    }

    /// A name that no node has yet, this one or one like it.
    pub fn free_name(&mut self, wanted: String) -> Box<str> {
        let mut name = wanted.clone();
        let mut number = 0;
        while self.taken.contains(name.as_str()) {
            number += 1;
            name = format!("{wanted}_{number}");
        }
        let name: Box<str> = name.into();
        self.taken.insert(name.clone());
        name
    }

    pub fn make(&mut self, made: Made) -> u32 {
        self.made.push(made);
        self.made.len() as u32 - 1
    }

    /// Where the nodes around a condition or a loop belong.
    pub fn around(&self, caller: u32, node: u32) -> Result<Around, FlattenError> {
        Ok(Around { caller, scope: self.call_scope(caller, node), device: self.device(caller, node)? })
    }

    /// Makes one of them, under a name that is free.
    pub fn make_around(
        &mut self,
        around: &Around,
        name: &str,
        op: &str,
        inputs: Vec<MadeInput>,
        attrs: Attrs,
    ) -> u32 {
        let name = self.free_name(format!("{}/{name}", around.scope)).into();
        let (op, device, owner) = (op.to_string(), around.device.clone(), around.caller);
        self.make(Made { name, op, inputs, device, attrs, owner, ..Made::default() })
    }

    /// Adds an instance, and gives names to its nodes.
    pub fn add(&mut self, mut instance: Instance, scope: &str) -> Result<u32, FlattenError> {
        let body = self.library.body(instance.function);
        instance.scope = scope.into();
        instance.names = Vec::with_capacity(body.nodes.len());
        for node in 0..body.nodes.len() {
            // A call that is gone leaves its name only where somebody waits for it.
            let is_there = |call: &Call| call.stays.is_some() || call.is_awaited;
            let name = match body.calls.get(&(node as u32)) {
                Some(call) if !is_there(call) => None,
                _ => Some(self.free_name(format!("{scope}{}", body.nodes.name(node)))),
            };
            instance.names.push(name);
        }
        self.instances.push(instance);
        Ok(self.instances.len() as u32 - 1)
    }

    /// What the names of the bodies in a call's place begin with, without the last slash.
    pub fn call_scope(&self, caller: u32, node: u32) -> String {
        match &self.instances[caller as usize].names[node as usize] {
            Some(name) => name.to_string(),
            None => {
                let name = self.body(caller).nodes.name(node as usize);
                format!("{}{name}", self.instances[caller as usize].scope)
            }
        }
    }

    /// Puts a body in the place of a call.
    fn flatten(
        &mut self,
        caller: u32,
        node: u32,
        call: &Call,
        passes: &[Option<u32>],
    ) -> Result<u32, FlattenError> {
        let body = self.body(caller);
        let scope = self.call_scope(caller, node);
        let device = self.device(caller, node)?;
        let parent = &self.instances[caller as usize];
        let (mut gate, mut gated) = (parent.gate, parent.gated);
        let attrs = substituted(&parent.attrs, &call.attrs);
        let callee = self.instances.len() as u32;
        let mut flattened = Flattened { bodies: vec![callee], ..Flattened::default() };
        let function = call.callees[0];
        if body.has_control_inputs(node) || call.is_whole {
            let mut inputs = vec![MadeInput::ControlsOf { instance: caller, node }];
            if call.is_whole {
                inputs.extend(self.given(caller, node, function, &attrs, &mut flattened.before)?);
            }
            let name = self.free_name(format!("{scope}/start")).into();
            let start = self.make(Made {
                name,
                op: "NoOp".to_string(),
                inputs,
                device: device.clone(),
                owner: caller,
                ..Made::default()
            });
            flattened.before.push(start);
            (gate, gated) = (Some(FlatNode::Made(start)), callee);
            for (output, argument) in (0..).zip(passes) {
                let Some(argument) = *argument else { continue };
                let Some(read) = body.data_input(node, argument as usize) else { continue };
                let name = self.free_name(format!("{scope}/argument_{argument}")).into();
                let inputs = vec![MadeInput::Data(caller, read), MadeInput::Control(FlatNode::Made(start))];
                let dtype = self.argument_type(function, argument, &attrs);
                let passed = self.make(Made {
                    name,
                    op: "Identity".to_string(),
                    inputs,
                    device: device.clone(),
                    attrs: vec![("T", AttrValue { value: Some(Value::Type(dtype)) })],
                    owner: callee,
                    ..Made::default()
                });
                flattened.before.push(passed);
                flattened.passed.insert(output, passed);
            }
        }
        if call.is_awaited {
            let mut inputs = vec![MadeInput::EffectsOf(callee)];
            // The results of a call by name are what it is waited for.
            if call.kind == CallKind::ByName {
                inputs.push(MadeInput::ReturnsOf(callee));
            }
            inputs.extend(gate.map(MadeInput::Control));
            let done = self.make(Made {
                name: self.instances[caller as usize].names[node as usize]
                    .as_deref()
                    .unwrap_or_default()
                    .into(),
                op: "NoOp".to_string(),
                inputs,
                device: device.clone(),
                owner: caller,
                ..Made::default()
            });
            flattened.behind.push(done);
            flattened.done = Some(done);
        }
        self.instances[caller as usize].calls.insert(node, flattened);
        let arguments = self.library.body(function).argument_names().count();
        self.add(
            Instance {
                function,
                call: Some((caller, node)),
                gate,
                gated,
                device,
                is_on_one_device: call.kind == CallKind::ByName,
                attrs: Rc::new(attrs),
                arguments: vec![Argument::Unknown; arguments],
                ..Instance::default()
            },
            &format!("{scope}/"),
        )
    }

    /// What stands for all that a call is given, as control inputs: a `Switch`, which may be where that comes from, is there whichever of
    /// its outputs is.
    fn given(
        &mut self,
        caller: u32,
        node: u32,
        function: usize,
        attrs: &HashMap<String, AttrValue>,
        made: &mut Vec<u32>,
    ) -> Result<Vec<MadeInput>, FlattenError> {
        let around = self.around(caller, node)?;
        let mut given = Vec::new();
        for argument in 0..self.library.body(function).argument_names().count() as u32 {
            let Some(read) = self.body(caller).data_input(node, argument as usize) else { continue };
            let dtype = DataType::new(self.argument_type(function, argument, attrs));
            if dtype != DataType::RESOURCE {
                let data = vec![MadeInput::Data(caller, read)];
                let name = format!("given_{argument}");
                let passed = self.make_around(&around, &name, "Identity", data, vec![of_type(dtype)]);
                made.push(passed);
                given.push(MadeInput::Control(FlatNode::Made(passed)));
            }
        }
        Ok(given)
    }

    fn argument_type(&self, function: usize, argument: u32, attrs: &HashMap<String, AttrValue>) -> i32 {
        let args = &self.library.functions()[function].signature.input_arg;
        let Some(arg) = args.get(argument as usize) else { return 0 };
        match attrs.get(&arg.type_attr).and_then(|value| value.value.as_ref()) {
            Some(Value::Type(dtype)) => *dtype,
            _ => arg.r#type,
        }
    }

    /// The device of a node in the flat graph: its own, and where that leaves something open, the caller's.
    pub fn device(&self, instance: u32, node: u32) -> Result<String, FlattenError> {
        let (around, body) = (&self.instances[instance as usize], self.body(instance));
        let own = body.nodes.device(node as usize);
        if around.device.is_empty() {
            return Ok(own.to_string());
        }
        if own.is_empty() || around.is_on_one_device {
            return Ok(around.device.clone());
        }
        let parsed = |text: &str| {
            Device::parse(text).map_err(|error| FlattenError::Device {
                function: body.name().to_string(),
                node: body.nodes.name(node as usize).to_string(),
                error,
            })
        };
        let (own, around) = (parsed(own)?, parsed(&around.device)?);
        let merged = Device {
            job: own.job.or(around.job),
            replica: own.replica.or(around.replica),
            task: own.task.or(around.task),
            kind: own.kind.or(around.kind),
            index: own.index.or(around.index),
        };
        Ok(merged.to_string())
    }

    /// The tensor of the flat graph that a tensor of an instance is.
    pub fn tensor(&mut self, instance: u32, wanted: LocalTensor) -> Result<Tensor, FlattenError> {
        let (mut at, mut read) = (instance, wanted);
        // The arguments on the way, all of which are what comes out.
        let mut way: Vec<(u32, u32)> = Vec::new();
        let found = loop {
            match read.from {
                Local::Node(node) => match self.instances[at as usize].calls.get(&node) {
                    None => match self.unwrapped(at, node, read.output)? {
                        Some(tensor) => break tensor,
                        None => {
                            let node = FlatNode::Body { instance: at, node };
                            break Tensor { node, output: read.output };
                        }
                    },
                    Some(Flattened { results: Some(results), .. }) => {
                        let Some(&result) = results.get(read.output as usize) else {
                            return Err(self.no_such_output(at, node, read.output));
                        };
                        break Tensor { node: FlatNode::Made(result), output: 0 };
                    }
                    Some(call) => match call.passed.get(&read.output) {
                        Some(&passed) => break Tensor { node: FlatNode::Made(passed), output: 0 },
                        None => {
                            let callee = call.bodies[0];
                            let returns = &self.body(callee).returns;
                            let Some(&next) = returns.get(read.output as usize) else {
                                return Err(self.no_such_output(at, node, read.output));
                            };
                            (at, read) = (callee, next);
                        }
                    },
                },
                Local::Argument(argument) => {
                    let known = &mut self.instances[at as usize].arguments[argument as usize];
                    match *known {
                        Argument::Known(tensor) => break tensor,
                        Argument::Asked => return Err(self.circle(at, argument)),
                        Argument::Unknown => *known = Argument::Asked,
                    }
                    way.push((at, argument));
                    let Some((caller, node)) = self.instances[at as usize].call else {
                        return Err(self.circle(at, argument));
                    };
                    let first = self.instances[at as usize].first_input;
                    let Some(next) = self.body(caller).data_input(node, first + argument as usize) else {
                        return Err(self.no_such_argument(at, argument));
                    };
                    (at, read) = (caller, next);
                }
            }
        };
        for (instance, argument) in way {
            self.instances[instance as usize].arguments[argument as usize] = Argument::Known(found);
        }
        Ok(found)
    }

    /// The tensor that a handle is from the beginning, before it is led into loops.
    pub fn origin(&mut self, instance: u32, read: LocalTensor) -> Result<Tensor, FlattenError> {
        let mut found = self.tensor(instance, read)?;
        while let FlatNode::Made(made) = found.node
            && self.made[made as usize].op == "Enter"
            && let Some(&MadeInput::Data(instance, read)) = self.made[made as usize].inputs.first()
        {
            found = self.tensor(instance, read)?;
        }
        Ok(found)
    }

    /// Says which tensor an argument of the function itself is.
    pub fn set_argument(&mut self, argument: usize, tensor: Tensor) {
        self.instances[0].arguments[argument] = Argument::Known(tensor);
    }

    /// The node that stands for a name in an instance as a control input.
    pub fn control(&mut self, instance: u32, from: Local) -> Result<FlatNode, FlattenError> {
        match from {
            Local::Argument(_) => Ok(self.tensor(instance, LocalTensor { from, output: 0 })?.node),
            Local::Node(node) => Ok(match self.instances[instance as usize].calls.get(&node) {
                Some(Flattened { done: Some(done), .. }) => FlatNode::Made(*done),
                _ => FlatNode::Body { instance, node },
            }),
        }
    }

    fn no_such_output(&self, instance: u32, node: u32, output: u32) -> FlattenError {
        let body = self.body(instance);
        let node = body.nodes.name(node as usize);
        FlattenError::BadInput {
            function: body.name().to_string(),
            reader: "a reader of the call".to_string(),
            input: format!("{node}:output:{output}"),
        }
    }

    fn no_such_argument(&self, instance: u32, argument: u32) -> FlattenError {
        let name =
            self.body(instance).argument_names().nth(argument as usize).unwrap_or_default().to_string();
        let function = self.body(instance).name().to_string();
        FlattenError::UnknownArgument { function, argument: name, why: "the value" }
    }

    fn circle(&self, instance: u32, argument: u32) -> FlattenError {
        let name =
            self.body(instance).argument_names().nth(argument as usize).unwrap_or_default().to_string();
        FlattenError::Circle { function: self.body(instance).name().to_string(), argument: name }
    }
}

/// Refuses what has too many nodes once it is flat: a few functions that call each other twice are a billion.
fn check_size(library: &Library<'_>, root: usize, order: &[usize]) -> Result<(), FlattenError> {
    let mut sizes: HashMap<usize, u64> = HashMap::new();
    for &function in order {
        let body = library.body(function);
        let flat = body.calls.values().filter(|call| call.stays.is_none());
        // What is made besides: what a call and its inputs and results need at most.
        let called = flat.flat_map(|call| &call.callees);
        let inner = called
            .map(|callee| sizes[callee].saturating_add(made_for(library.body(*callee))))
            .fold(0, u64::saturating_add);
        sizes.insert(function, inner.saturating_add(body.nodes.len() as u64));
    }
    if sizes[&root] > MOST_NODES {
        let function = library.body(root).name().to_string();
        return Err(FlattenError::TooLarge { function, limit: MOST_NODES });
    }
    Ok(())
}

/// How many nodes a call of a function may need besides: a loop has the most, five for each input.
fn made_for(body: &Body<'_>) -> u64 {
    8 + 5 * body.argument_names().count() as u64 + body.returns.len() as u64
}

/// For each function and return the argument that it returns as it is, if it does.
fn passed_arguments(library: &Library<'_>, order: &[usize]) -> HashMap<usize, Vec<Option<u32>>> {
    let mut passed: HashMap<usize, Vec<Option<u32>>> = HashMap::new();
    for &function in order {
        let body = library.body(function);
        let argument = |&tensor: &LocalTensor| {
            let mut read = tensor;
            // Each turn goes through a call; more turns than calls are a circle.
            for _ in 0..=body.call_nodes.len() {
                match read.from {
                    Local::Argument(argument) => return Some(argument),
                    Local::Node(node) => {
                        let is_plain = |call: &&Call| call.stays.is_none() && call.kind.is_plain();
                        let call = body.calls.get(&node).filter(is_plain)?;
                        let through = (*passed.get(&call.callees[0])?.get(read.output as usize)?)?;
                        read = body.data_input(node, through as usize)?;
                    }
                }
            }
            None
        };
        let returns: Vec<Option<u32>> = body.returns.iter().map(argument).collect();
        passed.insert(function, returns);
    }
    passed
}

/// A call's attributes, of which some may be the caller's own.
fn substituted(
    around: &HashMap<String, AttrValue>,
    attrs: &[(String, AttrValue)],
) -> HashMap<String, AttrValue> {
    let value = |value: &AttrValue| match &value.value {
        Some(Value::Placeholder(name)) => around.get(name).cloned().unwrap_or_else(|| value.clone()),
        _ => value.clone(),
    };
    attrs.iter().map(|(name, attr)| (name.clone(), value(attr))).collect()
}

/// Whether an op begins a loop of the old kind, whose name must be another one in each copy of a body.
pub(super) fn begins_frame(op: &str) -> bool {
    matches!(op, "Enter" | "RefEnter")
}
