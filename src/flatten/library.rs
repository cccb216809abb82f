//! The functions of a model, read for inlining: who reads what within a body, and which nodes are calls.

use std::collections::HashMap;

use prost::Message;

use super::error::FlattenError;
use crate::dtype::DataType;
use crate::format::wire::Fields;
use crate::format::{Function, Model, Nodes};
use crate::graph::{NodeAttrs, Rows};
use crate::ops::{Attr, AttrLookup, OpRegistry};
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::{AttrValue, FunctionDef};

/// What a name within a body stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Local {
    Argument(u32),
    Node(u32),
}

/// A tensor within a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LocalTensor {
    pub from: Local,
    pub output: u32,
}

/// One input of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    Data(LocalTensor),
    Control(Local),
}

/// How a node calls functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    /// By an op that takes any function.
    Plain,
    /// The function's name is the node's op. Such a call runs on one device.
    ByName,
    /// Its first input says which of two functions is called: the first if it is false.
    If,
    /// Its first input is the number of the function that is called; the last for all that is no number of one.
    Case,
    /// The second function as long as the first one says so.
    While,
}

impl CallKind {
    /// Whether the body of the one function that is called simply stands in the place of the call.
    pub fn is_plain(self) -> bool {
        matches!(self, CallKind::Plain | CallKind::ByName)
    }
}

/// A node that calls functions.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub callees: Vec<usize>,
    pub kind: CallKind,
    /// Why the call must stay one op; none if it is made flat.
    pub stays: Option<&'static str>,
    /// What the callee's attributes are.
    pub attrs: Vec<(String, AttrValue)>,
    /// Whether a node or a control return waits for it without reading it.
    pub is_awaited: bool,
    /// Whether it begins once all is there that it reads, and is read once all is done, as an op is: its function has effects, and its
    /// caller does not say that these are its own.
    pub is_whole: bool,
}

/// A function of the library.
#[derive(Debug)]
pub(super) struct Body<'a> {
    pub nodes: Nodes<'a>,
    /// All but the nodes.
    pub frame: FunctionDef,
    /// What each node reads.
    pub inputs: Rows<Read>,
    pub returns: Vec<LocalTensor>,
    /// The nodes whose effects a call waits for.
    pub effects: Vec<u32>,
    /// Whether the function says itself what its effects are. One that was traced in a graph of version 1 does not.
    pub says_effects: bool,
    /// By node.
    pub calls: HashMap<u32, Call>,
    /// The calls' nodes, in the order of the file.
    pub call_nodes: Vec<u32>,
    pub by_name: HashMap<&'a str, Local>,
}

impl Body<'_> {
    pub fn name(&self) -> &str {
        self.frame.signature.as_ref().map_or("", |signature| &signature.name)
    }

    pub fn argument_names(&self) -> impl Iterator<Item = &str> {
        self.frame.signature.iter().flat_map(|signature| &signature.input_arg).map(|arg| arg.name.as_str())
    }

    pub fn return_names(&self) -> impl Iterator<Item = &str> {
        self.frame.signature.iter().flat_map(|signature| &signature.output_arg).map(|arg| arg.name.as_str())
    }

    /// The `index`th data input of a node. Data inputs come before control inputs.
    pub fn data_input(&self, node: u32, index: usize) -> Option<LocalTensor> {
        match self.inputs.row(node as usize).get(index) {
            Some(Read::Data(tensor)) => Some(*tensor),
            _ => None,
        }
    }

    pub fn has_control_inputs(&self, node: u32) -> bool {
        self.inputs.row(node as usize).iter().any(|read| matches!(read, Read::Control(_)))
    }
}

/// All functions by name; those that are needed are read.
pub(super) struct Library<'a> {
    model: &'a Model,
    pub(super) functions: &'a [Function],
    pub(super) registry: &'a OpRegistry,
    by_name: HashMap<&'a str, usize>,
    pub(super) bodies: Vec<Option<Body<'a>>>,
    /// Whether what the top level calls is to be made flat. It is asked for this or that, and what comes with it must not change; a step
    /// that is a function runs what it needs.
    is_of_top_level: bool,
}

impl<'a> Library<'a> {
    pub fn new(model: &'a Model, functions: &'a [Function], registry: &'a OpRegistry) -> Library<'a> {
        Library::with(model, functions, registry, false)
    }

    /// The same for calls at the top level.
    pub fn of_top_level(
        model: &'a Model,
        functions: &'a [Function],
        registry: &'a OpRegistry,
    ) -> Library<'a> {
        Library::with(model, functions, registry, true)
    }

    fn with(
        model: &'a Model,
        functions: &'a [Function],
        registry: &'a OpRegistry,
        is_of_top_level: bool,
    ) -> Library<'a> {
        let mut by_name = HashMap::with_capacity(functions.len());
        for (index, function) in functions.iter().enumerate() {
            by_name.entry(function.signature.name.as_str()).or_insert(index);
        }
        let bodies = (0..=functions.len()).map(|_| None).collect();
        Library { model, functions, registry, by_name, bodies, is_of_top_level }
    }

    /// What stands for the top level of the graph, which is read like the body of a function that takes nothing and returns nothing.
    pub fn top_level(&self) -> usize {
        self.functions.len()
    }

    /// Whether a node of the top level calls a function that can be made flat.
    pub fn has_calls(&self) -> bool {
        let nodes = self.model.nodes();
        (0..nodes.len()).any(|node| {
            let call = self.call("", nodes, node);
            call.is_ok_and(|call| call.is_some_and(|call| call.stays.is_none()))
        })
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub fn functions(&self) -> &'a [Function] {
        self.functions
    }

    pub fn nodes(&self, function: usize) -> Nodes<'a> {
        self.model.function_nodes(&self.functions[function])
    }

    /// A function that [`Library::read`] has read.
    pub fn body(&self, function: usize) -> &Body<'a> {
        self.bodies[function].as_ref().expect("`read` was called for a function that calls it")
    }

    /// Reads a function and all that are to become flat in it. Returns them, each after those that it calls.
    pub fn read(&mut self, root: usize) -> Result<Vec<usize>, FlattenError> {
        // A depth-first walk; `open` is the way to where it is.
        let mut done = vec![false; self.bodies.len()];
        let mut on_way = vec![false; self.bodies.len()];
        let mut finished = Vec::new();
        let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
        self.enter(root, &mut open, &mut on_way)?;
        while let Some((function, callees)) = open.last_mut() {
            let function = *function;
            match callees.pop() {
                Some(callee) if on_way[callee] => {
                    let first = open.iter().position(|(entered, _)| *entered == callee).unwrap_or(0);
                    let way = open[first..].iter().map(|(entered, _)| *entered).chain([callee]);
                    let functions = way.map(|index| self.functions[index].signature.name.clone()).collect();
                    return Err(FlattenError::Recursive { functions });
                }
                Some(callee) if done[callee] => {}
                Some(callee) => self.enter(callee, &mut open, &mut on_way)?,
                None => {
                    open.pop();
                    on_way[function] = false;
                    done[function] = true;
                    finished.push(function);
                }
            }
        }
        Ok(finished)
    }

    fn enter(
        &mut self,
        function: usize,
        open: &mut Vec<(usize, Vec<usize>)>,
        on_way: &mut [bool],
    ) -> Result<(), FlattenError> {
        if self.bodies[function].is_none() {
            let body = match function == self.top_level() {
                true => self.parse_top_level()?,
                false => self.parse(function)?,
            };
            self.bodies[function] = Some(body);
        }
        let body = self.body(function);
        let calls = body.call_nodes.iter().rev().map(|node| &body.calls[node]);
        let flat = calls.filter(|call| call.stays.is_none());
        let mut callees: Vec<usize> = flat.flat_map(|call| call.callees.iter().rev().copied()).collect();
        callees.dedup();
        on_way[function] = true;
        open.push((function, callees));
        Ok(())
    }

    /// The top level of the graph. Its calls are there to be made flat only where somebody can see that they were: see `top_level`.
    fn parse_top_level(&self) -> Result<Body<'a>, FlattenError> {
        const NAME: &str = "top level";
        let nodes = self.model.nodes();
        let mut body = self.unresolved(NAME, nodes, FunctionDef::default(), HashMap::new())?;
        for node in 0..nodes.len() {
            for input in nodes.inputs(node) {
                let read = top_level_input(&body.by_name, input).ok_or_else(|| FlattenError::BadInput {
                    function: NAME.to_string(),
                    reader: nodes.name(node).to_string(),
                    input: input.to_string(),
                })?;
                if let Read::Control(Local::Node(from)) = read
                    && let Some(call) = body.calls.get_mut(&from)
                {
                    call.is_awaited = true;
                }
                body.inputs.push(read);
            }
            body.inputs.end_row();
        }
        Ok(body)
    }

    /// What is to be made flat: calls at the top level, which is asked for this or that, or a function, which runs as a whole.
    pub fn is_of_top_level(&self) -> bool {
        self.is_of_top_level
    }

    fn parse(&self, function: usize) -> Result<Body<'a>, FlattenError> {
        let (nodes, name) = (self.nodes(function), &self.functions[function].signature.name);
        let frame = self.model.function_frame(&self.functions[function])?;
        let signature = &self.functions[function].signature;
        let mut by_name: HashMap<&'a str, Local> =
            HashMap::with_capacity(nodes.len() + signature.input_arg.len());
        for (index, argument) in (0..).zip(&signature.input_arg) {
            if !argument.number_attr.is_empty() || !argument.type_list_attr.is_empty() {
                let (function, argument) = (name.clone(), argument.name.clone());
                return Err(FlattenError::ListArgument { function, argument });
            }
            by_name.insert(argument.name.as_str(), Local::Argument(index));
        }
        let mut body = self.unresolved(name, nodes, frame, by_name)?;
        self.resolve(name, &mut body)?;
        Ok(body)
    }

    /// A body of which nobody knows yet who reads whom: its names, of which the arguments' are given, and its calls.
    fn unresolved(
        &self,
        name: &str,
        nodes: Nodes<'a>,
        frame: FunctionDef,
        mut by_name: HashMap<&'a str, Local>,
    ) -> Result<Body<'a>, FlattenError> {
        for node in 0..nodes.len() {
            if by_name.insert(nodes.name(node), Local::Node(node as u32)).is_some() {
                let (function, name) = (name.to_string(), nodes.name(node).to_string());
                return Err(FlattenError::DuplicateName { function, name });
            }
        }
        let mut body = Body {
            nodes,
            frame,
            inputs: Rows::with_capacity(nodes.len(), nodes.input_count()),
            returns: Vec::new(),
            effects: Vec::new(),
            says_effects: false,
            calls: HashMap::new(),
            call_nodes: Vec::new(),
            by_name,
        };
        for node in 0..nodes.len() {
            if let Some(call) = self.call(name, nodes, node)? {
                body.calls.insert(node as u32, call);
                body.call_nodes.push(node as u32);
            }
        }
        Ok(body)
    }

    /// What a node calls, if it is a call.
    fn call(&self, function: &str, nodes: Nodes<'a>, node: usize) -> Result<Option<Call>, FlattenError> {
        let op = nodes.op(node);
        let named = |attr: &str| -> Result<(usize, Vec<(String, AttrValue)>), FlattenError> {
            let Some(Value::Func(called)) = nodes.attr(node, attr).and_then(|value| value.value) else {
                return Err(self.missing(function, nodes, node, ""));
            };
            let found = self.find(&called.name);
            let callee = found.ok_or_else(|| self.missing(function, nodes, node, &called.name))?;
            Ok((callee, called.attr.into_iter().collect()))
        };
        let own = NodeAttrs::new(nodes, node);
        let (callees, kind, attrs) = match op {
            "PartitionedCall" | "StatefulPartitionedCall" => {
                let (callee, attrs) = named("f")?;
                (vec![callee], CallKind::Plain, attrs)
            }
            "If" | "StatelessIf" => {
                let callees = vec![named("else_branch")?.0, named("then_branch")?.0];
                if own.attr("Tcond") != Some(Attr::Type(DataType::BOOL)) {
                    return Ok(None);
                }
                (callees, CallKind::If, Vec::new())
            }
            "Case" | "StatelessCase" => {
                let Some(Value::List(list)) = nodes.attr(node, "branches").and_then(|value| value.value)
                else {
                    return Err(self.missing(function, nodes, node, ""));
                };
                let found = list.func.iter().map(|called| {
                    let found = self.find(&called.name);
                    found.ok_or_else(|| self.missing(function, nodes, node, &called.name))
                });
                let callees: Vec<usize> = found.collect::<Result<_, _>>()?;
                if callees.is_empty() {
                    return Ok(None);
                }
                (callees, CallKind::Case, Vec::new())
            }
            "While" | "StatelessWhile" => {
                (vec![named("cond")?.0, named("body")?.0], CallKind::While, Vec::new())
            }
            op => match self.find(op) {
                Some(callee) if OpRegistry::builtin().id(op).is_none() => {
                    let attrs = nodes.decoded(node).unwrap_or_default().attr.into_iter().collect();
                    (vec![callee], CallKind::ByName, attrs)
                }
                _ => return Ok(None),
            },
        };
        let frames: Result<Vec<FunctionDef>, _> =
            callees.iter().map(|&callee| self.model.function_frame(&self.functions[callee])).collect();
        let frames = frames?;
        let marked = |attr: &str| {
            let says = |frame: &FunctionDef| {
                matches!(frame.attr.get(attr).and_then(|value| value.value.as_ref()), Some(Value::B(true)))
            };
            frames.iter().any(says) || own.attr(attr) == Some(Attr::Bool(true))
        };
        let stays = match () {
            // Such functions are mostly marked as not to be inlined too, and this says more.
            () if marked("_XlaMustCompile") => Some("XLA compiles it"),
            () if marked("_noinline") => Some("it is marked as not to be inlined"),
            () => None,
        };
        Ok(Some(Call { callees, kind, stays, attrs, is_awaited: false, is_whole: false }))
    }

    /// Whether an op changes anything that outlives its run.
    pub fn has_effect(&self, op: &str) -> bool {
        self.registry.get(op).is_some_and(|info| info.has_effect())
    }

    fn missing(&self, function: &str, nodes: Nodes<'_>, node: usize, callee: &str) -> FlattenError {
        FlattenError::MissingFunction {
            function: function.to_string(),
            node: nodes.name(node).to_string(),
            callee: callee.to_string(),
        }
    }

    /// Finds what each input, return and control return is.
    fn resolve(&self, name: &str, body: &mut Body<'a>) -> Result<(), FlattenError> {
        let nodes = body.nodes;
        let bad = |reader: &str, input: &str| FlattenError::BadInput {
            function: name.to_string(),
            reader: reader.to_string(),
            input: input.to_string(),
        };
        let mut awaited = Vec::new();
        for node in 0..nodes.len() {
            for input in nodes.inputs(node) {
                let read = match input.strip_prefix('^') {
                    Some(from) => {
                        let from = *body.by_name.get(from).ok_or_else(|| bad(nodes.name(node), input))?;
                        awaited.push(from);
                        Read::Control(from)
                    }
                    None => Read::Data(
                        self.tensor(name, body, input)?.ok_or_else(|| bad(nodes.name(node), input))?,
                    ),
                };
                body.inputs.push(read);
            }
            body.inputs.end_row();
        }
        let returns: Result<Vec<LocalTensor>, FlattenError> = body
            .return_names()
            .map(|wanted| {
                let input = body.frame.ret.get(wanted).map_or("", String::as_str);
                self.tensor(name, body, input)?.ok_or_else(|| bad(wanted, input))
            })
            .collect();
        body.returns = returns?;
        for (key, value) in &body.frame.control_ret {
            match body.by_name.get(value.as_str()) {
                Some(&Local::Node(node)) => body.effects.push(node),
                _ => return Err(bad(key, value)),
            }
        }
        body.effects.sort_unstable();
        body.effects.dedup();
        body.says_effects = !body.frame.control_ret.is_empty();
        if !body.says_effects {
            let has_one = |op: &str| is_update(op) || (self.is_of_top_level && self.has_effect(op));
            let acts = |node: &u32| body.calls.contains_key(node) || has_one(nodes.op(*node as usize));
            body.effects = (0..nodes.len() as u32).filter(acts).collect();
        }
        awaited.extend(body.effects.iter().map(|&node| Local::Node(node)));
        for from in awaited {
            if let Local::Node(node) = from
                && let Some(call) = body.calls.get_mut(&node)
            {
                call.is_awaited = true;
            }
        }
        Ok(())
    }

    /// What `node:argument:index` or `argument` is; none if it is nothing.
    fn tensor(
        &self,
        function: &str,
        body: &Body<'a>,
        input: &str,
    ) -> Result<Option<LocalTensor>, FlattenError> {
        let mut parts = input.splitn(3, ':');
        let Some(&from) = body.by_name.get(parts.next().unwrap_or_default()) else { return Ok(None) };
        let (argument, index) = (parts.next(), parts.next());
        let Local::Node(node) = from else {
            return Ok(argument.is_none().then_some(LocalTensor { from, output: 0 }));
        };
        let (Some(argument), Some(index)) = (argument, index.map_or(Some(0), |index| index.parse().ok()))
        else {
            return Ok(None);
        };
        let first = self.first_output(function, body.nodes, node as usize, argument)?;
        Ok(first.and_then(|first| Some(LocalTensor { from, output: first.checked_add(index)? })))
    }

    /// The first of a node's outputs that belong to an output argument of its op; none if the op has no such argument.
    fn first_output(
        &self,
        function: &str,
        nodes: Nodes<'a>,
        node: usize,
        argument: &str,
    ) -> Result<Option<u32>, FlattenError> {
        let op = nodes.op(node);
        let info = self.registry.get(op).ok_or_else(|| FlattenError::UnknownOp {
            function: function.to_string(),
            node: nodes.name(node).to_string(),
            op: op.to_string(),
        })?;
        let Some(wanted) = info.outputs().iter().position(|output| output.name == argument) else {
            return Ok(None);
        };
        // Most ops have one output argument, and their attributes need not be looked at.
        if wanted == 0 {
            return Ok(Some(0));
        }
        let attrs = NodeAttrs::new(nodes, node);
        let ports =
            info.output_ports(&attrs as &dyn AttrLookup).map_err(|error| FlattenError::Signature {
                function: function.to_string(),
                node: nodes.name(node).to_string(),
                error,
            })?;
        // An argument may stand for no tensor at all; what comes next is then where it would be.
        let first = ports.iter().position(|port| port.arg >= wanted).unwrap_or(ports.len());
        Ok(Some(first as u32))
    }
}

/// What an input of a node of the top level is; none if it is nothing.
fn top_level_input(by_name: &HashMap<&str, Local>, input: &str) -> Option<Read> {
    if let Some(from) = input.strip_prefix('^') {
        return by_name.get(from).map(|&from| Read::Control(from));
    }
    let (name, output) = match input.rsplit_once(':') {
        Some((name, output)) => (name, output.parse().ok()?),
        None => (input, 0),
    };
    by_name.get(name).map(|&from| Read::Data(LocalTensor { from, output }))
}

/// Whether an op changes a resource variable.
pub(super) fn is_update(op: &str) -> bool {
    let family = ["ResourceApply", "ResourceSparseApply", "ResourceScatter", "ResourceStridedSliceAssign"];
    family.iter().any(|family| op.starts_with(family))
        || matches!(op, "AssignVariableOp" | "AssignAddVariableOp" | "AssignSubVariableOp")
}

/// The functions that an undecoded `AttrValue` names.
pub fn functions_in(value: &[u8]) -> Vec<String> {
    const LIST: u32 = 1;
    const FUNCTION: u32 = 10;
    const FUNCTION_IN_LIST: u32 = 9;
    // Hardly any attribute names one, so few are decoded.
    let names_one = Fields::of(value).flatten().any(|field| match field.number {
        FUNCTION => true,
        LIST => field.bytes(LIST).is_some_and(|list| {
            Fields::new(value, list).flatten().any(|field| field.number == FUNCTION_IN_LIST)
        }),
        _ => false,
    });
    if !names_one {
        return Vec::new();
    }
    match AttrValue::decode(value).unwrap_or_default().value {
        Some(Value::Func(function)) => vec![function.name],
        Some(Value::List(list)) => list.func.into_iter().map(|function| function.name).collect(),
        _ => Vec::new(),
    }
}
