//! Calls at the top level of a graph, made flat.
//!
//! A graph of a session may call functions too: `tf.cond` and `tf.while_loop` leave an `If` and a `While` wherever control flow of
//! version 2 is on, as it is in TensorFlow 2 unless somebody turns it off, and a `tf.function` that is called leaves a `PartitionedCall`.
//! [`lowered`] puts what they call in their place, as the session itself does before it runs anything, and leaves all other nodes and
//! their names as they are. As they were, the nodes are kept in the file, so that [`super::restored`] can give them back.
//!
//! Unlike a function, which always runs as a whole, a graph is asked for this or that, so each fetch has to bring the effects that it
//! brought:
//!
//! - A function runs as a whole. Where one has effects, it begins once all is there that it reads, as a call does that is an op, and its
//!   results are read through ops that wait for its effects.
//! - Branches and loops do not: of what is flat a session leaves out what nobody needs, also updates, and so do we.
//! - What can be fetched by a handle that Python gives out, can still be. `tf.cond` and `tf.while_loop` give out an `Identity` of each
//!   result, which stays. A `tf.function` gives out the results of the call itself, so an op takes the call's name: an `Identity` that all
//!   others read through where there is one result, else an `IdentityN` for nobody else. A call without results is a `NoOp`, or a
//!   `Merge`, behind what it did.

use prost::Message;

use super::emit::Emitter;
use super::error::FlattenError;
use super::expand::Expansion;
use super::library::Library;
use super::parts::{FlatNode, Made, MadeInput, of_type, output_of};
use super::unread::without_unread;
use super::whole_calls::result_types;
use super::write_back::check_reversible;
use crate::format::wire::Fields;
use crate::format::{Edits, Model, ReadOptions};
use crate::ops::OpRegistry;
use crate::proto::tensorflow::attr_value::{ListValue, Value};
use crate::proto::tensorflow::{AttrValue, FunctionDef, OpDef};

/// The name of the function of which an attribute has the nodes as they were.
const ORIGINAL_TOP_LEVEL: &str = "lms_original_top_level";

/// That attribute: the nodes, as a GraphDef has them.
const ORIGINAL_NODES: &str = "_lms_nodes";

/// Where an `IdentityN` is that exists to be fetched. On a GPU it would have strings there.
const HOST: &str = "/device:CPU:0";

/// The edits that make all calls at the top level of a graph flat; none if there are none. `registry` must know the functions of the
/// model as ops.
///
/// # Errors
///
/// If a call cannot be made flat, or the file would not come back as it was.
pub fn lowered(model: &Model, registry: &OpRegistry) -> Result<Option<Edits>, FlattenError> {
    let functions = model.functions()?;
    let mut library = Library::of_top_level(model, &functions, registry);
    if functions.is_empty() || !library.has_calls() {
        return Ok(None);
    }
    let top = library.top_level();
    let order = library.read(top)?;
    library.find_whole_calls(&order);
    let mut expansion = Expansion::of(&library, top, &order)?;
    for instance in 0..expansion.instances.len() as u32 {
        lead_results(&mut expansion, registry, instance)?;
    }
    let mut emitter = Emitter::new(&mut expansion, model, &[])?;
    emitter.bodies()?;
    let flat = Model::from_bytes(model.name(), emitter.finish(), &ReadOptions::default())?;
    // What somebody has a handle of stays: all that was there, and what has the name of a call.
    let own = model.nodes();
    let kept = (0..own.len()).map(|node| own.name(node)).collect();
    let trimmed = without_unread(&flat, registry, &kept, "top level")?;
    let nodes = nodes_of(trimmed.as_deref().unwrap_or_else(|| flat.graph_def()));
    let edits = Edits { nodes: Some(nodes), added_functions: vec![kept_nodes(model)], ..Edits::default() };
    check_reversible(model, &edits)?;
    Ok(Some(edits))
}

/// Whether the calls of a graph's top level were made flat in a file.
///
/// # Errors
///
/// If the library is damaged.
pub fn is_lowered(model: &Model) -> Result<bool, FlattenError> {
    Ok(model.functions()?.iter().any(|function| function.signature.name == ORIGINAL_TOP_LEVEL))
}

/// The nodes of a graph's top level as they were before calls were made flat, and the number of the function that has them; none if they
/// are as they were.
pub(super) fn original_nodes(model: &Model) -> Result<Option<(usize, Vec<u8>)>, FlattenError> {
    let functions = model.functions()?;
    let Some(index) = functions.iter().position(|function| function.signature.name == ORIGINAL_TOP_LEVEL)
    else {
        return Ok(None);
    };
    match model.function_frame(&functions[index])?.attr.remove(ORIGINAL_NODES).and_then(|attr| attr.value) {
        Some(Value::S(nodes)) => Ok(Some((index, nodes))),
        _ => Err(FlattenError::NotReversible {
            what: format!("function {ORIGINAL_TOP_LEVEL:?} does not have the nodes that were there"),
        }),
    }
}

/// The nodes of a GraphDef, as it has them.
fn nodes_of(graph: &[u8]) -> Vec<u8> {
    const GRAPH_NODE: u32 = 1;
    let parts = Fields::of(graph).flatten().filter(|part| part.bytes(GRAPH_NODE).is_some());
    parts.flat_map(|part| &graph[part.span]).copied().collect()
}

/// The function that keeps the nodes as they are.
fn kept_nodes(model: &Model) -> Vec<u8> {
    let nodes = nodes_of(model.graph_def());
    let function = FunctionDef {
        signature: Some(OpDef { name: ORIGINAL_TOP_LEVEL.to_string(), ..OpDef::default() }),
        attr: [(ORIGINAL_NODES.to_string(), AttrValue { value: Some(Value::S(nodes)) })].into(),
        ..FunctionDef::default()
    };
    function.encode_to_vec()
}

/// Leads the results of an instance's calls to those who read them, and at the top level to those who fetch them.
fn lead_results(
    expansion: &mut Expansion<'_, '_>,
    registry: &OpRegistry,
    instance: u32,
) -> Result<(), FlattenError> {
    let body = expansion.body(instance);
    for &node in &body.call_nodes {
        let call = &body.calls[&node];
        let is_fetched = instance == 0 && call.kind.is_plain();
        if call.stays.is_some() || !(is_fetched || call.is_whole) {
            continue;
        }
        let types = result_types(registry, body.nodes, node).unwrap_or_default();
        let scope = expansion.call_scope(instance, node);
        let done = expansion.instances[instance as usize].calls[&node].done;
        let waits = done.filter(|_| call.is_whole).map(|done| MadeInput::Control(FlatNode::Made(done)));
        if is_fetched && !types.is_empty() {
            // The name is for who fetches the results.
            if let Some(done) = done {
                expansion.made[done as usize].name = expansion.free_name(format!("{scope}/done")).into();
            }
            expansion.taken.insert(scope.as_str().into());
        }
        // Who reads what is only looked up once all calls are done.
        let flattened = &expansion.instances[instance as usize].calls[&node];
        let callee = flattened.bodies[0];
        let returned = expansion.body(callee).returns.iter();
        let results: Vec<MadeInput> = (0..)
            .zip(returned)
            .map(|(output, &returned)| match flattened.passed.get(&output) {
                Some(&passed) => MadeInput::Tensor(output_of(passed, 0)),
                None => MadeInput::Data(callee, returned),
            })
            .collect();
        let device = expansion.device(instance, node)?;
        let is_named = is_fetched && types.len() == 1;
        let mut led: Vec<u32> = Vec::new();
        if is_named || call.is_whole {
            for ((output, &dtype), &result) in (0..).zip(&types).zip(&results) {
                let name: String = match is_named {
                    true => scope.clone(),
                    false => expansion.free_name(format!("{scope}/behind_{output}")).into(),
                };
                let inputs = [result].into_iter().chain(waits).collect();
                let (op, device, attrs) = ("Identity".to_string(), device.clone(), vec![of_type(dtype)]);
                let owner = instance;
                led.push(expansion.make(Made { name, op, inputs, device, attrs, owner, ..Made::default() }));
            }
        }
        let mut added = led.clone();
        if is_fetched && types.len() > 1 {
            let inputs = results.iter().copied().chain(waits).collect();
            let numbers = types.iter().map(|dtype| dtype.number()).collect();
            let list = ListValue { r#type: numbers, ..ListValue::default() };
            let attrs = vec![("T", AttrValue { value: Some(Value::List(list)) })];
            let (name, op, device) = (scope, "IdentityN".to_string(), HOST.to_string());
            added.push(expansion.make(Made { name, op, inputs, device, attrs, ..Made::default() }));
        }
        let flattened = expansion.instances[instance as usize].calls.entry(node).or_default();
        flattened.behind.extend(added);
        flattened.passed.extend((0..).zip(led));
    }
    Ok(())
}
