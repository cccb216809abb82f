//! Functions made flat, and written back.
//!
//! A training step of TensorFlow 2 is a function that calls functions. [`flatten`] puts the body of each function in the place of its
//! call, as TensorFlow's runtime does, and makes a graph of its own of what comes out: a [`Model`] that is analysed, planned for,
//! rewritten and checked like any other. [`write_back`] makes one function body of the result, under the function's name, with its
//! arguments and its returns.
//!
//! # The flat graph
//!
//! - A node of the function has its name there; one of a function that the node CALL calls is `CALL/NODE`.
//! - `CALL` itself is a `NoOp` behind all effects of the call, if somebody waits for it, and `CALL/start` one before the whole body, if the
//!   call waits for something.
//! - An argument is a `Placeholder` with its name. A resource is the `VarHandleOp` of its variable, with the name, shape and type that it has at
//!   the graph's top level, and a captured constant is a `Const`. They are found through the calls that lead to the function, or in
//!   the object graph.
//! - A variable of the file that is no argument is a `VarHandleOp` too, which nobody reads: whoever loads the file restores it.
//! - `returns/NAME` is an `Identity` of what the function returns, behind all effects: it stays in memory until the step is done.
//! - `train_step` is a `NoOp` behind all effects and returns.
//!
//! Attributes stay as they are, `_output_shapes` with them. What `_class` names and nobody is called, one of those that name it stands for (see
//! `colocation`). A node's device is its own, and where that leaves something open, the call's; but what works on a variable, or has to be
//! with what does, is where the variable is.
//!
//! An `If` or `Case` that TensorFlow makes branches of becomes branches here too (see `branches`), and a `While` a loop (see `loops`), in
//! which shapes are given by nodes of their own (see `given_shapes`). What a branch saves for its gradient is in no optional any more
//! (see `optionals`).
//!
//! Where Python or another function calls the function, Grappler lists its nodes in an order of its own (see `as_run`).
//!
//! An op without an effect that nobody reads is a `NoOp` that waits for what it read, as Grappler has it (see `unread`).
//!
//! A call of a function that is marked `_noinline` or `_XlaMustCompile` stays one op: [`Flat::kept`].
//!
//! What the top level of a graph calls itself is made flat there, by [`lowered`] (see `top_level`).

mod arguments;
mod as_run;
mod branches;
mod called;
mod colocation;
mod emit;
mod entry;
mod error;
mod expand;
mod given_shapes;
mod library;
mod loops;
mod optionals;
mod parts;
mod top_level;
mod unread;
mod whole_calls;
mod write_back;

pub use as_run::{Caller, as_run};
pub use called::{find_call, loss_of, signature_of, tensor_of};
pub use entry::{Entry, find_entry, updating_functions};
pub use error::FlattenError;
pub use library::functions_in;
pub use parts::KeptCall;
pub use top_level::{is_lowered, lowered};
pub use write_back::{ORIGINAL_PREFIX, original_functions, restored, write_back, write_over};

use arguments::MadeNodes;
use emit::Emitter;
use expand::Expansion;
use library::Library;
use parts::{FlatNode, Made, MadeInput};

use crate::format::{Model, ReadOptions};
use crate::ops::OpRegistry;
use crate::proto::tensorflow::AttrValue;
use crate::proto::tensorflow::attr_value::Value;

/// What the names of the nodes begin with that stand for what a function returns.
const RETURNS: &str = "returns/";

/// A function as a flat graph.
#[derive(Debug)]
pub struct Flat {
    /// The flat graph, a GraphDef.
    pub model: Model,
    /// The function's name.
    pub function: String,
    /// Of each argument the node that stands for it, and its name.
    pub arguments: Vec<(String, String)>,
    /// Of each return the node that stands for it, and its name.
    pub returns: Vec<(String, String)>,
    /// The nodes that stand for variables of the file that the function does not know: they are in memory all the same.
    pub idle: Vec<String>,
    /// The op that a step is run for.
    pub train_step: String,
    /// How many calls were made flat.
    pub calls: usize,
    /// The calls that stay one op.
    pub kept: Vec<KeptCall>,
    /// Whether it is not all of the function: what nobody reads is left out, and tensors are handed on by no op.
    pub is_trimmed: bool,
}

/// Makes a function of a model flat, without what nobody reads: as a step runs it. `registry` must know the functions of the model as ops.
///
/// # Errors
///
/// If the function cannot be made flat: see [`FlattenError`].
pub fn flatten(model: &Model, registry: &OpRegistry, function: &str) -> Result<Flat, FlattenError> {
    let flat = flatten_whole(model, registry, function)?;
    let ends = flat.arguments.iter().chain(&flat.returns).map(|(node, _)| node.as_str());
    let kept = ends.chain([flat.train_step.as_str()]).chain(flat.idle.iter().map(String::as_str)).collect();
    match unread::without_unread(&flat.model, registry, &kept, function)? {
        None => Ok(flat),
        Some(content) => {
            let model = Model::from_bytes(model.name(), content, &ReadOptions::default())?;
            Ok(Flat { model, is_trimmed: true, ..flat })
        }
    }
}

/// Makes a function of a model flat, with all that it has.
///
/// # Errors
///
/// As [`flatten`].
pub fn flatten_whole(model: &Model, registry: &OpRegistry, function: &str) -> Result<Flat, FlattenError> {
    let functions = model.functions()?;
    let mut library = Library::new(model, &functions, registry);
    let root = library.find(function).ok_or_else(|| FlattenError::NoFunction {
        name: function.to_string(),
        choices: functions.iter().map(|function| function.signature.name.clone()).collect(),
    })?;
    let order = library.read(root)?;
    let mut expansion = Expansion::of(&library, root, &order)?;
    let meta_graph = model.meta_graph()?;
    let MadeNodes { arguments, idle } = arguments::make(&mut expansion, model, meta_graph.as_ref())?;
    let (returns, train_step) = add_ends(&mut expansion);

    let named = |expansion: &Expansion<'_, '_>, made: &[u32], names: Vec<String>| -> Vec<(String, String)> {
        made.iter().map(|&made| expansion.made[made as usize].name.clone()).zip(names).collect()
    };
    let body = library.body(root);
    let argument_names = named(&expansion, &arguments, body.argument_names().map(str::to_string).collect());
    let return_names = named(&expansion, &returns, body.return_names().map(str::to_string).collect());
    let idle_names = idle.iter().map(|&made| expansion.made[made as usize].name.to_string()).collect();
    let train_step_name = expansion.made[train_step as usize].name.clone();
    let kept = std::mem::take(&mut expansion.kept);
    let calls = expansion.instances.len() - 1;

    let mut emitter = Emitter::new(&mut expansion, model, &arguments)?;
    for &made in arguments.iter().chain(&idle) {
        emitter.made(made)?;
    }
    emitter.bodies()?;
    for &made in returns.iter().chain([&train_step]) {
        emitter.made(made)?;
    }
    let flat = Model::from_bytes(model.name(), emitter.finish(), &ReadOptions::default())?;
    Ok(Flat {
        model: flat,
        function: function.to_string(),
        arguments: argument_names,
        returns: return_names,
        idle: idle_names,
        train_step: train_step_name,
        calls,
        kept,
        is_trimmed: false,
    })
}

/// Adds what stands for the returns, and the training step.
fn add_ends(expansion: &mut Expansion<'_, '_>) -> (Vec<u32>, u32) {
    let root = expansion.instances[0].function;
    let signature = &expansion.library.functions()[root].signature;
    let body = expansion.body(0);
    let mut returns = Vec::new();
    for (argument, &tensor) in signature.output_arg.iter().zip(&body.returns) {
        let name = expansion.free_name(format!("{RETURNS}{}", argument.name)).into();
        returns.push(expansion.make(Made {
            name,
            op: "Identity".to_string(),
            inputs: vec![MadeInput::Data(0, tensor), MadeInput::EffectsOf(0)],
            attrs: vec![("T", AttrValue { value: Some(Value::Type(argument.r#type)) })],
            ..Made::default()
        }));
    }
    let name = expansion.free_name("train_step".to_string()).into();
    let mut inputs = vec![MadeInput::EffectsOf(0)];
    inputs.extend(returns.iter().map(|&made| MadeInput::Control(FlatNode::Made(made))));
    let train_step = expansion.make(Made { name, op: "NoOp".to_string(), inputs, ..Made::default() });
    (returns, train_step)
}
