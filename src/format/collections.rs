//! What a MetaGraphDef says about its graph.

use std::collections::HashSet;

use prost::Message;

use crate::proto::tensorflow::collection_def::Kind;
use crate::proto::tensorflow::{MetaGraphDef, VariableDef};

/// The names in a collection of ops or tensors, without `:0`, each once.
///
/// A program that adds its train op to the collection, where TensorFlow's optimizers put it already, trains once in a step.
pub fn collected_ops(meta_graph: &MetaGraphDef, collection: &str) -> Vec<String> {
    let Some(Kind::NodeList(list)) = kind(meta_graph, collection) else { return Vec::new() };
    let mut seen = HashSet::new();
    let names = list.value.iter().map(|name| op_name(name));
    names.filter(|&name| seen.insert(name)).map(str::to_string).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::tensorflow::CollectionDef;
    use crate::proto::tensorflow::collection_def::NodeList;

    #[test]
    fn what_is_named_twice_is_there_once() {
        let value = ["b", "a:0", "b", "a"].map(str::to_string).to_vec();
        let list = CollectionDef { kind: Some(Kind::NodeList(NodeList { value })) };
        let meta_graph = MetaGraphDef {
            collection_def: [("train_op".to_string(), list)].into(),
            ..MetaGraphDef::default()
        };
        assert_eq!(collected_ops(&meta_graph, "train_op"), ["b", "a"]);
    }
}
