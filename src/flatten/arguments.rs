//! What stands for the arguments of the function in the flat graph.
//!
//! What is fed is a `Placeholder`. What was captured is what the top level of the graph captured: a variable's handle, a
//! table, a constant. It is found through the calls that lead to the function, or in the object graph. Where neither knows it, the
//! reads of a variable tell its type and shape.

use std::collections::{HashMap, HashSet};

use super::error::FlattenError;
use super::expand::Expansion;
use super::library::{Library, is_update};
use super::parts::{FlatNode, Made, MadeInput, Tensor};
use crate::dtype::DataType;
use crate::format::{Function, Model, Nodes};
use crate::graph::{ARGUMENT_ATTR, NodeAttrs, output_shapes};
use crate::ops::{Attr, AttrLookup};
use crate::proto::tensorflow::attr_value::{ListValue, Value};
use crate::proto::tensorflow::saved_object::Kind;
use crate::proto::tensorflow::tensor_shape_proto::Dim;
use crate::proto::tensorflow::{
    AttrValue, MetaGraphDef, SavedObject, SavedObjectGraph, SavedVariable, TensorShapeProto,
};

/// Where an argument comes from.
enum Source {
    /// A node of the top level.
    TopLevel(usize),
    /// A variable of the object graph, and its place there.
    Variable(i32, Box<SavedVariable>),
    Unknown,
}

impl Source {
    /// What tells whether two arguments are one thing.
    fn identity(&self) -> Option<(bool, i64)> {
        match self {
            Source::TopLevel(node) => Some((true, *node as i64)),
            Source::Variable(object, _) => Some((false, i64::from(*object))),
            Source::Unknown => None,
        }
    }
}

/// What stands for arguments, and for what is there beside them.
pub(super) struct MadeNodes {
    /// The nodes of the arguments, in their order.
    pub arguments: Vec<u32>,
    /// Those of the file's other variables: whoever loads it restores them too.
    pub idle: Vec<u32>,
}

/// Makes a node for each argument, and for each variable of the file that is none.
pub(super) fn make(
    expansion: &mut Expansion<'_, '_>,
    model: &Model,
    meta_graph: Option<&MetaGraphDef>,
) -> Result<MadeNodes, FlattenError> {
    let root = expansion.instances[0].function;
    let body = expansion.body(0);
    let signature = &expansion.library.functions()[root].signature;
    let sources = Sources::of(model, expansion.library, meta_graph);
    let mut made_of: HashMap<(bool, i64), u32> = HashMap::new();
    let mut made = Vec::with_capacity(signature.input_arg.len());
    let mut of_unknown_variables = Vec::new();
    // The variables of the object graph that are arguments; none if there is one of which nobody knows which it is.
    let mut captured = Some(HashSet::new());
    for (index, argument) in signature.input_arg.iter().enumerate() {
        let dtype = DataType::new(argument.r#type);
        let (source, object) = sources.find(root, index);
        let top = model.nodes();
        if dtype == DataType::RESOURCE {
            match (&mut captured, object) {
                (Some(captured), Some(object)) => _ = captured.insert(object),
                (_, None) if is_variable(top, &source) => captured = None,
                _ => {}
            }
        }
        let known = source.identity().and_then(|identity| made_of.get(&identity).copied());
        let node = match (&source, known) {
            (_, Some(first)) => {
                let first = Tensor { node: FlatNode::Made(first), output: 0 };
                Made {
                    name: argument.name.clone(),
                    op: "Identity".to_string(),
                    inputs: vec![MadeInput::Tensor(first)],
                    attrs: vec![("T", AttrValue { value: Some(Value::Type(dtype.number())) })],
                    ..Made::default()
                }
            }
            (Source::TopLevel(node), _) if is_kept(top, *node) => Made {
                name: top.name(*node).to_string(),
                op: top.op(*node).to_string(),
                device: top.device(*node).to_string(),
                like: Some(*node),
                ..Made::default()
            },
            (Source::Variable(_, variable), _) => Made {
                name: if variable.name.is_empty() { argument.name.clone() } else { variable.name.clone() },
                device: variable.device.clone(),
                ..handle(&argument.name, variable.dtype, variable.shape.clone().unwrap_or_default())
            },
            (source, _) if dtype == DataType::RESOURCE => {
                if matches!(source, Source::Unknown) {
                    of_unknown_variables.push(index);
                }
                placeholder(&argument.name, dtype, None)
            }
            (source, _) => {
                let declared = body.frame.arg_attr.get(&(index as u32)).and_then(|attrs| {
                    match attrs.attr.get("_output_shapes")?.value.as_ref()? {
                        Value::List(list) => list.shape.first().cloned(),
                        _ => None,
                    }
                });
                let shape = declared.or_else(|| match source {
                    Source::TopLevel(node) => declared_shape(top, *node),
                    _ => None,
                });
                placeholder(&argument.name, dtype, shape)
            }
        };
        let number = expansion.make(node);
        if let Some(identity) = source.identity() {
            made_of.entry(identity).or_insert(number);
        }
        made.push(number);
    }
    for (index, &number) in made.iter().enumerate() {
        // An argument's name is taken by itself.
        let wanted = expansion.made[number as usize].name.clone();
        if wanted != signature.input_arg[index].name {
            expansion.made[number as usize].name = expansion.free_name(wanted).into();
        }
        expansion.set_argument(index, Tensor { node: FlatNode::Made(number), output: 0 });
    }
    let found = if of_unknown_variables.is_empty() { HashMap::new() } else { read_variables(expansion)? };
    for index in of_unknown_variables {
        let number = made[index];
        let argument = &signature.input_arg[index].name;
        if let Some((dtype, shape)) = found.get(&number) {
            let name = expansion.made[number as usize].name.clone();
            expansion.made[number as usize] = Made { name, ..handle(argument, *dtype, shape.clone()) };
        }
    }
    check_sizes(expansion, &made, signature.name.as_str(), model)?;
    let idle = captured.map_or_else(Vec::new, |captured| sources.other_variables(&captured));
    let idle = idle.into_iter().map(|variable| {
        let name = expansion.free_name(variable.name.clone());
        let device = variable.device.clone();
        let node =
            Made { device, ..handle(&name, variable.dtype, variable.shape.clone().unwrap_or_default()) };
        expansion.make(node)
    });
    Ok(MadeNodes { idle: idle.collect(), arguments: made })
}

/// Whether an argument is, or may be, the handle of a variable.
fn is_variable(top: Nodes<'_>, source: &Source) -> bool {
    match source {
        Source::TopLevel(node) => top.op(*node) == "VarHandleOp",
        Source::Variable(..) | Source::Unknown => true,
    }
}

/// Whether a node of the top level stays from step to step, and can stand for itself.
fn is_kept(nodes: Nodes<'_>, node: usize) -> bool {
    nodes.inputs(node).len() == 0 && !nodes.op(node).starts_with("Placeholder")
}

fn handle(name: &str, dtype: i32, shape: TensorShapeProto) -> Made {
    let attr = |value| AttrValue { value: Some(value) };
    let scalar = ListValue { shape: vec![TensorShapeProto::default()], ..ListValue::default() };
    Made {
        name: name.to_string(),
        op: "VarHandleOp".to_string(),
        attrs: vec![
            ("_output_shapes", attr(Value::List(scalar))),
            ("dtype", attr(Value::Type(dtype))),
            ("shape", attr(Value::Shape(shape))),
            ("shared_name", attr(Value::S(name.as_bytes().to_vec()))),
        ],
        ..Made::default()
    }
}

fn placeholder(name: &str, dtype: DataType, shape: Option<TensorShapeProto>) -> Made {
    let attr = |value| AttrValue { value: Some(value) };
    let shape = shape.unwrap_or(TensorShapeProto { unknown_rank: true, ..TensorShapeProto::default() });
    let listed = ListValue { shape: vec![shape.clone()], ..ListValue::default() };
    Made {
        name: name.to_string(),
        op: "Placeholder".to_string(),
        attrs: vec![
            (ARGUMENT_ATTR, attr(Value::B(true))),
            ("_output_shapes", attr(Value::List(listed))),
            ("dtype", attr(Value::Type(dtype.number()))),
            ("shape", attr(Value::Shape(shape))),
        ],
        ..Made::default()
    }
}

/// The shape that a node of the top level declares for its first output.
fn declared_shape(nodes: Nodes<'_>, node: usize) -> Option<TensorShapeProto> {
    match nodes.attr(node, "_output_shapes")?.value? {
        Value::List(list) => list.shape.into_iter().next(),
        _ => None,
    }
}

/// The type and shape of the variables whose values are read somewhere, by the node made for the argument.
fn read_variables(
    expansion: &mut Expansion<'_, '_>,
) -> Result<HashMap<u32, (i32, TensorShapeProto)>, FlattenError> {
    let mut found = HashMap::new();
    for instance in 0..expansion.instances.len() as u32 {
        let body = expansion.body(instance);
        for node in (0..body.nodes.len()).filter(|&node| body.nodes.op(node) == "ReadVariableOp") {
            let Some(read) = body.data_input(node as u32, 0) else { continue };
            let attrs = NodeAttrs::new(body.nodes, node);
            let Some(Attr::Type(dtype)) = attrs.attr("dtype") else { continue };
            let Some(Some(sizes)) = output_shapes(&attrs).and_then(|mut shapes| shapes.next()) else {
                continue;
            };
            let FlatNode::Made(made) = expansion.origin(instance, read)?.node else { continue };
            let dim = sizes.into_iter().map(|size| Dim { size, name: String::new() }).collect();
            found.entry(made).or_insert((dtype.number(), TensorShapeProto { dim, unknown_rank: false }));
        }
    }
    Ok(found)
}

/// Refuses variables that are written to and of which nothing is known.
fn check_sizes(
    expansion: &mut Expansion<'_, '_>,
    made: &[u32],
    function: &str,
    model: &Model,
) -> Result<(), FlattenError> {
    let mut unknown: HashSet<u32> = HashSet::new();
    for &number in made {
        let node = &expansion.made[number as usize];
        let is_known = match (node.op.as_str(), node.like) {
            ("VarHandleOp", Some(like)) => NodeAttrs::new(model.nodes(), like)
                .shape("shape")
                .is_some_and(|shape| shape.iter().all(|&size| size >= 0)),
            ("VarHandleOp", None) => node.attrs.iter().any(|(_, attr)| match &attr.value {
                Some(Value::Shape(shape)) => !shape.unknown_rank && shape.dim.iter().all(|dim| dim.size >= 0),
                _ => false,
            }),
            // A handle of something that is no variable: a table, an iterator.
            ("Placeholder", _) => false,
            _ => true,
        };
        if !is_known {
            unknown.insert(number);
        }
    }
    if unknown.is_empty() {
        return Ok(());
    }
    // What is fed leaves its sizes open for whoever asks; a variable that is worked on must have one.
    for instance in 0..expansion.instances.len() as u32 {
        let body = expansion.body(instance);
        for node in 0..body.nodes.len() as u32 {
            let op = body.nodes.op(node as usize);
            if op != "ReadVariableOp" && op != "ResourceGather" && !is_update(op) {
                continue;
            }
            for index in 0..body.inputs.row(node as usize).len() {
                let Some(read) = body.data_input(node, index) else { break };
                let FlatNode::Made(number) = expansion.origin(instance, read)?.node else { continue };
                let is_handle =
                    matches!(expansion.made[number as usize].op.as_str(), "VarHandleOp" | "Placeholder")
                        && is_resource(expansion, made, number);
                if is_handle && unknown.contains(&number) {
                    let index = made.iter().position(|&made| made == number).unwrap_or_default();
                    let argument = expansion.body(0).argument_names().nth(index).unwrap_or_default();
                    return Err(FlattenError::UnknownArgument {
                        function: function.to_string(),
                        argument: argument.to_string(),
                        why: "the size of the variable",
                    });
                }
            }
        }
    }
    Ok(())
}

fn is_resource(expansion: &Expansion<'_, '_>, made: &[u32], number: u32) -> bool {
    let arguments = &expansion.library.functions()[expansion.instances[0].function].signature.input_arg;
    let index = made.iter().position(|&made| made == number);
    let argument = index.and_then(|index| arguments.get(index));
    argument.is_some_and(|argument| DataType::new(argument.r#type) == DataType::RESOURCE)
}

/// The place in the object graph of what was captured, if that is a variable.
fn object_of(captured: &Option<Source>) -> Option<i32> {
    match captured {
        Some(Source::Variable(object, _)) => Some(*object),
        _ => None,
    }
}

/// Who calls whom with what.
struct Sources<'s> {
    top: Nodes<'s>,
    top_names: HashMap<&'s str, usize>,
    model: &'s Model,
    functions: &'s [Function],
    /// Of each function the nodes that call it: in which function, none for the top level, and which node.
    callers: HashMap<usize, Vec<(Option<usize>, usize)>>,
    objects: Option<&'s SavedObjectGraph>,
}

impl<'s> Sources<'s> {
    fn of(model: &'s Model, library: &Library<'s>, meta_graph: Option<&'s MetaGraphDef>) -> Sources<'s> {
        let top = model.nodes();
        let mut sources = Sources {
            top,
            top_names: (0..top.len()).map(|node| (top.name(node), node)).collect(),
            model,
            functions: library.functions(),
            callers: HashMap::new(),
            objects: meta_graph.and_then(|meta_graph| meta_graph.object_graph_def.as_ref()),
        };
        sources.add_calls(library, None, top);
        for function in 0..library.functions().len() {
            sources.add_calls(library, Some(function), library.nodes(function));
        }
        sources
    }

    fn add_calls(&mut self, library: &Library<'s>, caller: Option<usize>, nodes: Nodes<'s>) {
        for node in 0..nodes.len() {
            let callee = match nodes.op(node) {
                "PartitionedCall" | "StatefulPartitionedCall" => match nodes.attr(node, "f").map(|f| f.value)
                {
                    Some(Some(Value::Func(called))) => library.find(&called.name),
                    _ => None,
                },
                op => library.find(op),
            };
            if let Some(callee) = callee {
                self.callers.entry(callee).or_default().push((caller, node));
            }
        }
    }

    /// Where an argument of a function comes from: what the call that leads to it from the top level has there, else what the object
    /// graph says. And the variable that it is in the object graph.
    fn find(&self, function: usize, argument: usize) -> (Source, Option<i32>) {
        let mut seen = HashSet::new();
        let mut open = vec![(function, argument)];
        let mut captured = None;
        while let Some((function, argument)) = open.pop() {
            if !seen.insert((function, argument)) {
                continue;
            }
            captured = captured.or_else(|| self.captured(function, argument));
            for &(caller, node) in self.callers.get(&function).into_iter().flatten() {
                match caller {
                    None => {
                        let input = self.top.inputs(node).nth(argument).unwrap_or_default();
                        let name = input.strip_suffix(":0").unwrap_or(input);
                        if let Some(&node) = self.top_names.get(name) {
                            return (Source::TopLevel(node), object_of(&captured));
                        }
                    }
                    Some(caller) => {
                        let called = &self.functions[caller];
                        let input = self.model.function_nodes(called).inputs(node).nth(argument);
                        let mut arguments = called.signature.input_arg.iter();
                        let passed = arguments.position(|other| Some(other.name.as_str()) == input);
                        open.extend(passed.map(|argument| (caller, argument)));
                    }
                }
            }
        }
        let object = object_of(&captured);
        (captured.unwrap_or(Source::Unknown), object)
    }

    /// The variables of the object graph that are none of these. What our own rewrites add to a file is at its top level alone.
    fn other_variables(&self, known: &HashSet<i32>) -> Vec<&'s SavedVariable> {
        let nodes = self.objects.map_or(&[][..], |objects| &objects.nodes);
        let variable = |(object, node): (i32, &'s SavedObject)| match node.kind.as_ref() {
            Some(Kind::Variable(variable)) if !known.contains(&object) => Some(variable),
            _ => None,
        };
        (0..).zip(nodes).filter_map(variable).collect()
    }

    /// What the object graph says that a function has captured.
    fn captured(&self, function: usize, argument: usize) -> Option<Source> {
        let signature = &self.functions[function].signature;
        let concrete = self.objects?.concrete_functions.get(&signature.name)?;
        let first = signature.input_arg.len().checked_sub(concrete.bound_inputs.len())?;
        let object = *concrete.bound_inputs.get(argument.checked_sub(first)?)?;
        match self.objects?.nodes.get(usize::try_from(object).ok()?)?.kind.as_ref()? {
            Kind::Variable(variable) => Some(Source::Variable(object, Box::new(variable.clone()))),
            Kind::Constant(constant) => {
                self.top_names.get(constant.operation.as_str()).map(|&node| Source::TopLevel(node))
            }
            _ => None,
        }
    }
}
