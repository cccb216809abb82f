//! The protocol buffers that the build makes from `proto/`.

use std::collections::BTreeMap;

use prost::Message;
use prost_reflect::DynamicMessage;
use tf_lms::proto::descriptor_pool;
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::proto::tensorflow::collection_def::{Kind, NodeList};
use tf_lms::proto::tensorflow::{
    AttrValue, CollectionDef, DataType, GraphDef, MetaGraphDef, NodeDef, SignatureDef, TensorInfo,
};

/// A meta graph with several entries in each map, put in in the given order.
fn meta_graph(names: &[&str]) -> MetaGraphDef {
    let value = |value| AttrValue { value: Some(value) };
    let node = NodeDef {
        name: "pool".into(),
        op: "MaxPool".into(),
        input: vec!["conv:0".into(), "^ready".into()],
        attr: BTreeMap::from([
            ("T".into(), value(Value::Type(DataType::DtHalf.into()))),
            ("padding".into(), value(Value::S(b"SAME".to_vec()))),
            ("data_format".into(), value(Value::S(b"NHWC".to_vec()))),
        ]),
        ..Default::default()
    };
    let collection = CollectionDef { kind: Some(Kind::NodeList(NodeList { value: vec!["pool:0".into()] })) };
    let signature = SignatureDef {
        outputs: names.iter().map(|&name| (name.into(), TensorInfo::default())).collect(),
        ..Default::default()
    };
    MetaGraphDef {
        graph_def: Some(GraphDef { node: vec![node], ..Default::default() }),
        collection_def: names.iter().map(|&name| (name.into(), collection.clone())).collect(),
        signature_def: names.iter().map(|&name| (name.into(), signature.clone())).collect(),
        ..Default::default()
    }
}

#[test]
fn maps_encode_to_the_same_bytes_whatever_the_order_of_insertion() {
    let bytes = meta_graph(&["losses", "train_op", "variables"]).encode_to_vec();
    assert_eq!(bytes, meta_graph(&["variables", "losses", "train_op"]).encode_to_vec());
}

#[test]
fn decoding_gives_back_what_was_encoded() {
    let meta = meta_graph(&["losses", "train_op"]);
    assert_eq!(MetaGraphDef::decode(meta.encode_to_vec().as_slice()), Ok(meta));
}

#[test]
fn descriptor_pool_holds_the_messages_of_files_and_of_the_c_api() {
    for name in [
        "GraphDef",
        "MetaGraphDef",
        "SavedModel",
        "FunctionDef",
        "OpList",
        "KernelList",
        "ConfigProto",
        "RewriterConfig",
        "RunOptions",
        "RunMetadata",
        "StepStats",
        "CostGraphDef",
        "ServerDef",
    ] {
        let full_name = format!("tensorflow.{name}");
        assert!(descriptor_pool().get_message_by_name(&full_name).is_some(), "{full_name} is missing");
    }
}

#[test]
fn text_format_and_bytes_describe_the_same_message() {
    let graph = descriptor_pool().get_message_by_name("tensorflow.GraphDef").expect("a known message");
    let text = r#"node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }"#;
    let dynamic = DynamicMessage::parse_text_format(graph, text).expect("valid text");
    let decoded: GraphDef = dynamic.transcode_to().expect("the same definitions");
    assert_eq!(decoded.node[0].attr["dtype"].value, Some(Value::Type(DataType::DtFloat.into())));
}
