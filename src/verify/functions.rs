//! A file in which a function was rewritten.
//!
//! The function as it was is in the file under another name, and one body stands in its place. What has to be shown:
//!
//! * with the original back in its place and without the copy, the file is the original file (`surroundings`, and the rules
//!   about nodes for the top level);
//! * the new function has the old one's name, arguments, results and attributes (`surroundings`);
//! * the old function made flat and the new one made flat are two graphs of which the second computes what the first does: by all the
//!   other rules.
//!
//! Both are made flat from the bytes of the two files, never from what the rewrite had in memory. How calls are made flat is the only
//! knowledge that is shared with the rewrite (`flatten`); the tests hold that against TensorFlow, which runs both.

use std::collections::{BTreeSet, HashMap};

use super::report::{Report, Verified, VerifyError, ViolationKind};
use super::same_file::Compare;
use super::workers::{self, Place};
use super::{CheckOptions, check_graphs};
use crate::flatten::{
    Flat, FlattenError, ORIGINAL_PREFIX, flatten, flatten_whole, original_functions, restored,
};
use crate::format::wire::Fields;
use crate::format::{Function, Model};
use crate::ops::OpRegistry;
use crate::proto::tensorflow::FunctionDef;

/// The functions that were rewritten in a file: those of which it has the original and its own original has not, or of which that has
/// another body.
pub(super) fn rewritten_functions(original: &Model, rewritten: &Model) -> Vec<String> {
    let before: BTreeSet<String> = original_functions(original).unwrap_or_default().into_iter().collect();
    let after = original_functions(rewritten).unwrap_or_default();
    let is_same = |name: &str| body(original, name).is_some_and(|own| Some(own) == body(rewritten, name));
    after.into_iter().filter(|name| !(before.contains(name) && is_same(name))).collect()
}

/// The bytes of a function.
fn body<'m>(model: &'m Model, function: &str) -> Option<&'m [u8]> {
    let functions = model.functions().ok()?;
    let found = functions.iter().find(|candidate| candidate.signature.name == function)?;
    Some(model.function_bytes(found))
}

/// Proves that a file in which functions were rewritten computes what the original does.
pub(super) fn check(
    original: &Model,
    rewritten: &Model,
    functions: &[String],
    ops: &OpRegistry,
) -> Result<Verified, VerifyError> {
    let mut report = Report::default();
    let stripped = match stripped(original, rewritten) {
        Ok(stripped) => stripped,
        Err(error) => {
            damaged(&mut report, &error);
            return Err(report.into_error());
        }
    };
    let around = &stripped;
    let mut all = check_graphs(original, around, ops, &CheckOptions::default(), Place::AroundFunction)?;
    all.nodes = 0;
    let mut keys: HashMap<(i64, i64), String> = workers::keys(around).into_iter().collect();
    for function in functions {
        match check_frame(original, rewritten, function) {
            Ok(true) => {}
            Ok(false) => report.add(ViolationKind::Surroundings, || {
                (
                    [function.as_str()],
                    "a function with the name, arguments, results and attributes that it had".to_string(),
                    "others".to_string(),
                )
            }),
            Err(error) => damaged(&mut report, &error),
        }
        // What a rewrite leaves unread, as an op that runs again, is still an op: what is written is looked at as it stands.
        let both = flatten(original, ops, function)
            .and_then(|before| Ok((before, flatten_whole(rewritten, ops, function)?)));
        let (before, after) = match both {
            Ok(both) => both,
            Err(error) => {
                damaged(&mut report, &error);
                continue;
            }
        };
        if !same_ends(&before, &after) {
            report.add(ViolationKind::Surroundings, || {
                ([function.as_str()], "the same arguments and results".to_string(), "others".to_string())
            });
            continue;
        }
        report.stop()?;
        let options = CheckOptions { train_ops: vec![before.train_step.clone()], is_function: true };
        let check = |before: &Flat| check_graphs(&before.model, &after.model, ops, &options, Place::Function);
        let verified = check(&before).or_else(|error| {
            // A file may have all of the original, as those of earlier versions have.
            let whole = flatten_whole(original, ops, function).ok().filter(|whole| same_ends(whole, &after));
            whole.and_then(|whole| check(&whole).ok()).ok_or(error)
        })?;
        add(&mut all, &verified);
        for (key, name) in workers::keys(&after.model) {
            if let Some(other) = keys.insert(key, name.clone()) {
                report.add(ViolationKind::SharedKey, || {
                    let found = format!("both {}", key.1);
                    ([name.as_str(), other.as_str()], "keys of their own".to_string(), found)
                });
            }
        }
    }
    report.stop()?;
    Ok(all)
}

/// The file with all functions as they were: as its copies of them say, or, where the original has such copies too, as they are there.
fn stripped(original: &Model, rewritten: &Model) -> Result<Model, FlattenError> {
    let kept: Vec<String> = original_functions(original)?;
    let mut edits = restored(rewritten)?.unwrap_or_default();
    for (index, function) in rewritten.functions()?.iter().enumerate() {
        let name = function.signature.name.as_str();
        match name.strip_prefix(ORIGINAL_PREFIX) {
            Some(copied) if kept.iter().any(|kept| kept == copied) => {
                edits.functions.remove(&index);
            }
            None if kept.iter().any(|kept| kept == name) => {
                edits.functions.insert(index, body(original, name).map(<[u8]>::to_vec));
            }
            _ => {}
        }
    }
    Ok(rewritten.changed(&edits, rewritten.encoding())?)
}

/// Whether a function has all that it had but for its nodes and where its results come from.
fn check_frame(original: &Model, rewritten: &Model, function: &str) -> Result<bool, FlattenError> {
    let (Some(before), Some(after)) = (frame(original, function)?, frame(rewritten, function)?) else {
        return Ok(false);
    };
    let same_rest = match Compare::of(original, rewritten) {
        Compare::Bytes => before.rest == after.rest,
        Compare::Meaning => before.decoded == after.decoded,
    };
    Ok(same_rest && before.results == after.results)
}

/// A function without its nodes.
struct Frame {
    /// All but nodes and results, as it is encoded.
    rest: Vec<u8>,
    /// The same, decoded.
    decoded: FunctionDef,
    /// The names of results and control results.
    results: Vec<String>,
}

/// None unless there is exactly one function of this name.
fn frame(model: &Model, function: &str) -> Result<Option<Frame>, FlattenError> {
    const NODES_AND_RESULTS: [u32; 3] = [3, 4, 6];
    let functions = model.functions()?;
    let found: Vec<&Function> =
        functions.iter().filter(|candidate| candidate.signature.name == function).collect();
    let [found] = found[..] else { return Ok(None) };
    let mut decoded = model.function_frame(found)?;
    let results: Vec<String> = decoded.ret.keys().chain(decoded.control_ret.keys()).cloned().collect();
    decoded.ret.clear();
    decoded.control_ret.clear();
    let bytes = model.function_bytes(found);
    let parts = Fields::of(bytes).flatten().filter(|part| !NODES_AND_RESULTS.contains(&part.number));
    let rest = parts.flat_map(|part| &bytes[part.span]).copied().collect();
    Ok(Some(Frame { rest, decoded, results }))
}

/// Whether two flat functions have the same arguments, results and step.
fn same_ends(before: &Flat, after: &Flat) -> bool {
    before.arguments == after.arguments
        && before.returns == after.returns
        && before.train_step == after.train_step
}

fn damaged(report: &mut Report, error: &dyn std::error::Error) {
    report.add(ViolationKind::Damaged, || {
        ([], "functions that can be made flat".to_string(), error.to_string())
    });
}

fn add(all: &mut Verified, one: &Verified) {
    all.nodes += one.nodes;
    all.swap_ins += one.swap_ins;
    all.swap_outs += one.swap_outs;
    all.order_ops += one.order_ops;
    all.recomputed_ops += one.recomputed_ops;
    all.recomputed_nodes += one.recomputed_nodes;
    all.initial_values += one.initial_values;
    all.host_ops += one.host_ops;
    all.swapped_tensors += one.swapped_tensors;
    all.rewired_inputs += one.rewired_inputs;
    all.reduces += one.reduces;
    all.reduced_tensors += one.reduced_tensors;
    all.added_control_edges += one.added_control_edges;
}
