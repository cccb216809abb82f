//! Which function is the training step.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::error::FlattenError;
use super::library::{functions_in, is_update};
use crate::format::{Function, Model, op_name};
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::tensor_info::Encoding;
use crate::proto::tensorflow::{AttrValue, SignatureDef};

/// How a user says which function is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<'e> {
    /// This one.
    Function(&'e str),
    /// The one that this signature calls.
    Signature(&'e str),
    /// The one that updates variables, of all that signatures call.
    Training,
}

/// The name of the function that is meant. None if no signature of the file updates variables and none was asked for.
///
/// # Errors
///
/// If what was asked for is not there or updates no variable, or more than one signature would do.
pub fn find_entry(model: &Model, entry: Entry<'_>) -> Result<Option<String>, FlattenError> {
    let functions = model.functions()?;
    let training = |function: String| match updating(model, &functions).contains(&function) {
        true => Ok(Some(function)),
        false => Err(FlattenError::NoEffect { function }),
    };
    if let Entry::Function(name) = entry {
        if functions.iter().any(|function| function.signature.name == name) {
            return training(name.to_string());
        }
        let choices = functions.iter().map(|function| function.signature.name.clone()).collect();
        return Err(FlattenError::NoFunction { name: name.to_string(), choices });
    }
    let signatures = model.meta_graph()?.map(|meta_graph| meta_graph.signature_def).unwrap_or_default();
    if let Entry::Signature(name) = entry {
        let Some(signature) = signatures.get(name) else {
            let choices = signatures.into_keys().collect();
            return Err(FlattenError::NoSignature { name: name.to_string(), choices });
        };
        let not_a_call = |what| FlattenError::NotACall { name: name.to_string(), what };
        return called(model, signature).map_err(not_a_call).and_then(training);
    }
    let updating = updating(model, &functions);
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, signature) in &signatures {
        if let Ok(function) = called(model, signature)
            && updating.contains(&function)
        {
            found.push((name.clone(), function));
        }
    }
    let different: BTreeSet<&String> = found.iter().map(|(_, function)| function).collect();
    match different.len() {
        0 => Ok(None),
        1 => Ok(found.pop().map(|(_, function)| function)),
        _ => Err(FlattenError::SeveralSignatures {
            choices: found.into_iter().map(|(name, _)| name).collect(),
        }),
    }
}

/// The function that a signature's outputs come from, or what they come from instead.
fn called(model: &Model, signature: &SignatureDef) -> Result<String, String> {
    let tensors = signature.outputs.values().map(|output| match &output.encoding {
        Some(Encoding::Name(name)) => Ok(op_name(name).to_string()),
        _ => Err("an output of it is no single tensor".to_string()),
    });
    let ops: BTreeSet<String> = tensors.collect::<Result<_, _>>()?;
    let Some(op) = ops.first() else { return Err("it has no outputs".to_string()) };
    if ops.len() > 1 {
        return Err(format!("its outputs come from {} ops", ops.len()));
    }
    let nodes = model.nodes();
    let node = (0..nodes.len()).find(|&node| nodes.name(node) == op);
    let node = node.ok_or_else(|| format!("its op {op:?} is not there"))?;
    callee(nodes.attr(node, "f")).ok_or_else(|| format!("{op:?} is a {}", nodes.op(node)))
}

fn callee(attr: Option<AttrValue>) -> Option<String> {
    match attr?.value {
        Some(Value::Func(function)) => Some(function.name),
        _ => None,
    }
}

/// The names of a model's functions that update variables, themselves or by what they call.
///
/// # Errors
///
/// If the function library is damaged.
pub fn updating_functions(model: &Model) -> Result<BTreeSet<String>, FlattenError> {
    Ok(updating(model, &model.functions()?))
}

/// The functions that update variables, themselves or by what they call.
pub(super) fn updating(model: &Model, functions: &[Function]) -> BTreeSet<String> {
    let names: HashSet<&str> = functions.iter().map(|function| function.signature.name.as_str()).collect();
    let mut callers: HashMap<String, Vec<usize>> = HashMap::new();
    let mut open = Vec::new();
    for (index, function) in functions.iter().enumerate() {
        let nodes = model.function_nodes(function);
        for node in 0..nodes.len() {
            let op = nodes.op(node);
            if is_update(op) {
                open.push(index);
            }
            if names.contains(op) {
                callers.entry(op.to_string()).or_default().push(index);
            }
            for value in nodes.attrs(node).map(|(_, value)| value) {
                for called in functions_in(value) {
                    callers.entry(called).or_default().push(index);
                }
            }
        }
    }
    let mut updating = BTreeSet::new();
    while let Some(index) = open.pop() {
        let name = &functions[index].signature.name;
        if updating.insert(name.clone()) {
            open.extend(callers.get(name).into_iter().flatten());
        }
    }
    updating
}
