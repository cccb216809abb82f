//! What a MetaGraphDef says about its graph.

use prost::Message;

use crate::proto::tensorflow::collection_def::Kind;
use crate::proto::tensorflow::{MetaGraphDef, VariableDef};

/// The names in a collection of ops or tensors, without `:0`.
pub fn collected_ops(meta_graph: &MetaGraphDef, collection: &str) -> Vec<String> {
    let Some(Kind::NodeList(list)) = kind(meta_graph, collection) else { return Vec::new() };
    list.value.iter().map(|name| op_name(name).to_string()).collect()
}

/// The names of the variables' ops in a collection of variables, such as `trainable_variables`.
pub fn collected_variables(meta_graph: &MetaGraphDef, collection: &str) -> Vec<String> {
    let Some(Kind::BytesList(list)) = kind(meta_graph, collection) else { return Vec::new() };
    let name = |variable: &Vec<u8>| {
        Some(op_name(&VariableDef::decode(variable.as_slice()).ok()?.variable_name).to_string())
    };
    list.value.iter().filter_map(name).collect()
}

fn kind<'a>(meta_graph: &'a MetaGraphDef, collection: &str) -> Option<&'a Kind> {
    meta_graph.collection_def.get(collection)?.kind.as_ref()
}

/// The op of a tensor's name: what is before the `:`.
pub fn op_name(tensor: &str) -> &str {
    tensor.split_once(':').map_or(tensor, |(op, _)| op)
}
