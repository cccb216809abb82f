//! Ops of TensorFlow and of files, seen from outside this folder.

use std::collections::BTreeMap;
use std::iter::repeat_n;

use super::*;
use crate::dtype::DataType;
use crate::proto::tensorflow::attr_value::{ListValue, Value};
use crate::proto::tensorflow::op_def::ArgDef;
use crate::proto::tensorflow::{AttrValue, OpDef, OpList};

type Attrs = BTreeMap<String, AttrValue>;

fn attrs<const N: usize>(entries: [(&str, Value); N]) -> Attrs {
    entries.into_iter().map(|(name, value)| (name.to_owned(), AttrValue { value: Some(value) })).collect()
}

fn int(value: i64) -> Value {
    Value::I(value)
}

fn dtype(value: DataType) -> Value {
    Value::Type(value.number())
}

fn dtypes(values: &[DataType]) -> Value {
    let r#type = values.iter().map(|value| value.number()).collect();
    Value::List(ListValue { r#type, ..Default::default() })
}

fn op(name: &str) -> &'static OpInfo {
    OpRegistry::builtin().get(name).unwrap_or_else(|| panic!("{name} is an op of TensorFlow"))
}

fn port(arg: usize, dtype: DataType) -> Port {
    Port { arg, dtype, is_ref: false }
}

#[test]
fn a_count_repeats_an_argument() {
    let attrs = attrs([("num_split", int(3)), ("T", dtype(DataType::HALF))]);
    let split = op("Split");
    assert_eq!(
        split.input_ports(&attrs),
        Ok(vec![port(0, DataType::INT32), port(1, DataType::HALF)]),
        "the axis, then the value"
    );
    assert_eq!(split.output_ports(&attrs), Ok(vec![port(0, DataType::HALF); 3]));
}

#[test]
fn arguments_after_a_repeated_one_follow_it() {
    let attrs = attrs([("N", int(2)), ("T", dtype(DataType::FLOAT)), ("Tidx", dtype(DataType::INT64))]);
    let values = repeat_n(port(0, DataType::FLOAT), 2);
    let expected: Vec<_> = values.chain([port(1, DataType::INT64)]).collect();
    assert_eq!(op("ConcatV2").input_ports(&attrs), Ok(expected));
}

#[test]
fn the_op_s_default_counts_where_the_node_has_no_attribute() {
    let attrs = attrs([("N", int(1)), ("T", dtype(DataType::FLOAT))]);
    assert_eq!(
        op("ConcatV2").input_ports(&attrs),
        Ok(vec![port(0, DataType::FLOAT), port(1, DataType::INT32)])
    );
}

#[test]
fn a_list_of_types_gives_one_port_each() {
    let types = [DataType::FLOAT, DataType::STRING, DataType::INT64];
    let expected = types.map(|dtype| port(0, dtype)).to_vec();
    assert_eq!(op("IdentityN").output_ports(&attrs([("T", dtypes(&types))])), Ok(expected));
    assert_eq!(op("IdentityN").output_ports(&attrs([("T", dtypes(&[]))])), Ok(vec![]));
}

#[test]
fn a_variable_s_output_is_a_ref() {
    let attrs = attrs([("dtype", dtype(DataType::FLOAT))]);
    let expected = Port { arg: 0, dtype: DataType::FLOAT, is_ref: true };
    assert_eq!(op("VariableV2").output_ports(&attrs), Ok(vec![expected]));
    assert!(op("VariableV2").is_stateful());
    assert!(!op("Conv2D").is_stateful());
}

#[test]
fn impossible_counts_are_errors() {
    let with_count = |count| attrs([("num_split", int(count)), ("T", dtype(DataType::FLOAT))]);
    let split = op("Split");
    assert!(matches!(
        split.output_ports(&with_count(-1)),
        Err(OpError::NegativeCount { value: -1, attr, .. }) if attr == "num_split"
    ));
    let most = i64::try_from(MAX_PORTS).expect("a small number");
    for count in [most + 1, i64::MAX] {
        assert!(matches!(split.output_ports(&with_count(count)), Err(OpError::TooManyPorts { .. })));
    }
    assert_eq!(split.output_ports(&with_count(most)).map(|ports| ports.len()), Ok(MAX_PORTS));
}

#[test]
fn the_limit_holds_for_all_arguments_together() {
    let arg = ArgDef { number_attr: "N".into(), r#type: DataType::FLOAT.number(), ..Default::default() };
    let twice = OpInfo::from(OpDef { output_arg: vec![arg.clone(), arg], ..Default::default() });
    let half = i64::try_from(MAX_PORTS / 2).expect("a small number");
    assert!(twice.output_ports(&attrs([("N", int(half))])).is_ok());
    assert!(twice.output_ports(&attrs([("N", int(half + 1))])).is_err());
}

#[test]
fn missing_and_mistaken_attributes_are_errors() {
    let split = op("Split");
    assert_eq!(
        split.output_ports(&attrs([("T", dtype(DataType::FLOAT))])),
        Err(OpError::MissingAttr { op: "Split".into(), attr: "num_split".into() })
    );
    // In a function's body the caller gives the type: the default must not be taken for it.
    let placeholder = attrs([("out_type", Value::Placeholder("out".into()))]);
    assert_eq!(
        op("Shape").output_ports(&placeholder),
        Err(OpError::WrongKind { op: "Shape".into(), attr: "out_type".into(), expected: "a data type" })
    );
    let untyped = OpInfo::from(OpDef { output_arg: vec![ArgDef::default()], ..Default::default() });
    assert!(matches!(untyped.output_ports(&Attrs::new()), Err(OpError::UntypedArg { .. })));
}

#[test]
fn an_unknown_op_is_not_found() {
    assert!(OpRegistry::builtin().get("NoSuchOp").is_none());
}

#[test]
fn a_file_s_ops_add_to_the_built_in_ones() {
    let named = |name: &str, is_stateful| OpDef { name: name.into(), is_stateful, ..Default::default() };
    let registry = OpRegistry::with_extra(&OpList {
        op: vec![named("Conv2D", true), named("Mine", true), named("Mine", false)],
    });
    assert_eq!(registry.len(), OpRegistry::builtin().len() + 1);
    assert_eq!(registry.iter().count(), registry.len());
    assert_eq!(registry.get("Conv2D"), OpRegistry::builtin().get("Conv2D"));
    assert_eq!(registry.id("Conv2D"), OpRegistry::builtin().id("Conv2D"));
    let mine = registry.id("Mine").expect("it was added");
    assert!(registry.op(mine).is_stateful(), "the first definition counts");
}

#[test]
fn every_built_in_op_is_at_its_place() {
    let registry = OpRegistry::builtin();
    for op in registry.iter() {
        assert_eq!(registry.get(op.name()), Some(op));
    }
    // Old graphs and TensorFlow's own partitions use these.
    for name in ["Variable", "TopK", "BatchNormWithGlobalNormalization", "RefSwitch", "_Send", "_Recv"] {
        op(name);
    }
}

#[test]
fn shape_leaves_its_output_in_host_memory() {
    let kernel = op("Shape").gpu_kernel(&attrs([("T", dtype(DataType::FLOAT))])).expect("it has one");
    assert!(kernel.host_memory_arg("output"));
    assert!(!kernel.host_memory_arg("input"));
}

#[test]
fn a_convolution_runs_on_a_gpu_for_the_types_it_is_made_for() {
    let kernel = |value| op("Conv2D").gpu_kernel(&attrs([("T", dtype(value))]));
    for value in [DataType::HALF, DataType::FLOAT, DataType::DOUBLE] {
        assert!(kernel(value).is_some_and(|kernel| !kernel.host_memory_arg("output")), "{value}");
    }
    assert!(kernel(DataType::STRING).is_none());
    assert!(op("Conv2D").gpu_kernel(&Attrs::new()).is_none(), "a node without a type has no kernel");
}

#[test]
fn ops_without_a_gpu_kernel_of_their_own_use_the_one_for_any_device() {
    assert!(op("NoOp").gpu_kernel(&Attrs::new()).is_some());
    let read = op("ReadVariableOp").gpu_kernel(&attrs([("dtype", dtype(DataType::FLOAT))]));
    assert!(
        read.is_some_and(|kernel| kernel.host_memory_arg("resource") && !kernel.host_memory_arg("value"))
    );
    let gradient_args = op("BroadcastGradientArgs").gpu_kernel(&attrs([("T", dtype(DataType::INT32))]));
    assert!(gradient_args.is_some_and(|kernel| kernel.host_memory_arg("r0")));
}

#[test]
fn an_op_for_the_cpu_only_has_no_gpu_kernel() {
    assert!(op("DecodeJpeg").gpu_kernel(&Attrs::new()).is_none());
}

#[test]
fn constraints_on_other_values_than_types_hold_too() {
    let gather = |policy: &[u8]| {
        op("GatherNd").gpu_kernel(&attrs([
            ("Tparams", dtype(DataType::FLOAT)),
            ("Tindices", dtype(DataType::INT32)),
            ("bad_indices_policy", Value::S(policy.to_vec())),
        ]))
    };
    assert!(gather(b"IGNORE").is_some());
    assert!(gather(b"ERROR").is_none());
}

#[test]
fn a_labelled_kernel_is_taken_only_when_asked_for() {
    let mut node = attrs([("T", dtype(DataType::FLOAT))]);
    let label = |node: &Attrs| op("MaxPool").gpu_kernel(node).map(|kernel| kernel.def().label.as_str());
    assert_eq!(label(&node), Some(""));
    node.extend(attrs([("_kernel", Value::S(b"eigen_tensor".to_vec()))]));
    assert_eq!(label(&node), Some("eigen_tensor"));
}
