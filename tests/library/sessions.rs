//! Sessions: values of every type in and out, and what goes wrong.

use lms_testing::graphs::{Nodes, attr_type, shape};
use prost::Message;
use tf_lms::dtype::DataType;
use tf_lms::proto::tensorflow::ConfigProto;
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::runtime::{Code, Session, SessionError, Tensor, TensorFlow, Values};

fn session(tensorflow: &'static TensorFlow, nodes: &Nodes) -> Result<Session, SessionError> {
    Session::new(tensorflow, &nodes.graph().encode_to_vec(), &ConfigProto::default())
}

/// `x` and its identity `y`.
fn identity(dtype: DataType) -> Nodes {
    let mut nodes = Nodes::default();
    nodes.add("x", "Placeholder", &[], &[("dtype", attr_type(dtype.number()))]);
    nodes.add("y", "Identity", &["x"], &[("T", attr_type(dtype.number()))]);
    nodes
}

#[test]
fn values_of_every_plain_type_come_back() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    for number in 1..=25 {
        let dtype = DataType::new(number);
        let Some(size) = dtype.size_in_bytes() else { continue };
        let session = session(tensorflow, &identity(dtype)).unwrap();
        // 0 and 1 are right for truth values too.
        let bytes: Vec<u8> = (0..6 * size).map(|index| (index % 2) as u8).collect();
        for (shape, bytes) in [(&[2, 3][..], bytes), (&[0, 3], Vec::new())] {
            let tensor = Tensor::new(dtype, shape, bytes).unwrap();
            let fetched = session.run(&[("x", &tensor)], &["y"], &[]);
            let fetched = fetched.unwrap_or_else(|error| panic!("{dtype}: {error}"));
            assert_eq!(fetched, [tensor]);
        }
    }
}

#[test]
fn strings_come_back_whatever_their_bytes() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let session = session(tensorflow, &identity(DataType::STRING)).unwrap();
    let strings = vec![b"short".to_vec(), Vec::new(), vec![0xff, 0, 0xfe], vec![b'l'; 10_000]];
    let tensors = [
        Tensor::strings(&[2, 2], strings).unwrap(),
        Tensor::string("alone"),
        Tensor::strings(&[0], Vec::new()).unwrap(),
    ];
    for tensor in tensors {
        assert_eq!(session.run(&[("x:0", &tensor)], &["y:0"], &[]).unwrap(), [tensor]);
    }
}

#[test]
fn a_fetched_variable_is_a_copy() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let float = || attr_type(DataType::FLOAT.number());
    let mut nodes = Nodes::default();
    nodes.placeholder("x", &[2]);
    nodes.add("v", "VariableV2", &[], &[("dtype", float()), ("shape", Value::Shape(shape(&[2])))]);
    nodes.add("set", "Assign", &["v", "x"], &[("T", float())]);
    let session = session(tensorflow, &nodes).unwrap();
    let set = |values: [f32; 2]| {
        session.run(&[("x", &Tensor::of(&[2], &values).unwrap())], &[], &["set"]).unwrap();
        session.run(&[], &["v"], &[]).unwrap().remove(0)
    };
    let first = set([1.0, 2.0]);
    let second = set([3.0, 4.0]);
    assert_eq!(first.to_vec(), Some(vec![1.0f32, 2.0]));
    assert_eq!(second.to_vec(), Some(vec![3.0f32, 4.0]));
}

#[test]
fn a_resource_can_be_fetched_but_has_no_values() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let mut nodes = Nodes::default();
    let dtype = attr_type(DataType::FLOAT.number());
    nodes.add("v", "VarHandleOp", &[], &[("dtype", dtype), ("shape", Value::Shape(shape(&[2])))]);
    let session = session(tensorflow, &nodes).unwrap();
    let fetched = session.run(&[], &["v"], &[]).unwrap().remove(0);
    assert_eq!((fetched.dtype(), fetched.values()), (DataType::RESOURCE, &Values::Opaque));
    assert!(matches!(session.feed(&fetched), Err(SessionError::Tensor(_))));
}

#[test]
fn devices_are_as_many_as_configured() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let config = ConfigProto { device_count: [("CPU".to_string(), 3)].into(), ..ConfigProto::default() };
    let graph = identity(DataType::FLOAT).graph().encode_to_vec();
    let session = Session::new(tensorflow, &graph, &config).unwrap();
    let devices = session.devices().unwrap();
    let cpus: Vec<_> = devices.iter().filter(|device| device.device_type == "CPU").collect();
    assert_eq!(cpus.len(), 3, "{devices:?}");
    assert!(cpus[2].name.ends_with("/device:CPU:2") && cpus[2].memory_bytes > 0, "{devices:?}");
}

#[test]
fn running_out_of_memory_is_recognized() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let mut nodes = Nodes::default();
    nodes.add("dims", "Placeholder", &[], &[("dtype", attr_type(DataType::INT64.number()))]);
    nodes.add("value", "Placeholder", &[], &[("dtype", attr_type(DataType::FLOAT.number()))]);
    let attrs =
        [("T", attr_type(DataType::FLOAT.number())), ("index_type", attr_type(DataType::INT64.number()))];
    nodes.add("fill", "Fill", &["dims", "value"], &attrs);
    let session = session(tensorflow, &nodes).unwrap();
    // More than a process can address.
    let dims = Tensor::of(&[1], &[1i64 << 46]).unwrap();
    let value = Tensor::of(&[], &[1.0f32]).unwrap();
    let error = session.run(&[("dims", &dims), ("value", &value)], &[], &["fill"]).unwrap_err();
    assert!(error.is_out_of_memory(), "{error:?}");
    assert_eq!(error.status().unwrap().code, Code::ResourceExhausted);
    assert!(error.to_string().starts_with("RESOURCE_EXHAUSTED: "), "{error}");
    // The session goes on.
    let dims = Tensor::of(&[1], &[2i64]).unwrap();
    let filled = session.run(&[("dims", &dims), ("value", &value)], &["fill"], &[]).unwrap().remove(0);
    assert_eq!(filled.to_vec(), Some(vec![1.0f32; 2]));
}

#[test]
fn what_is_wrong_is_said() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let session = session(tensorflow, &identity(DataType::FLOAT)).unwrap();
    let say =
        |fetches: &[&str], targets: &[&str]| session.run(&[], fetches, targets).unwrap_err().to_string();
    assert_eq!(say(&["z"], &[]), "the graph has no operation \"z\"");
    assert_eq!(say(&[], &["z\0"]), "the graph has no operation \"z\\0\"");
    for name in ["y:1", "y:-1", "y:x", "y:99999999999"] {
        assert_eq!(
            say(&[name], &[]),
            format!("the graph has no tensor {name:?}: that operation has 1 outputs")
        );
    }
    let not_fed = session.run(&[], &["y"], &[]).unwrap_err();
    assert_eq!(not_fed.status().map(|status| status.code), Some(Code::InvalidArgument), "{not_fed:?}");
    let wrong_type = Tensor::of(&[1], &[1i32]).unwrap();
    assert!(matches!(session.run(&[("x", &wrong_type)], &["y"], &[]), Err(SessionError::Run(_))));
    let step = session.step(&["x"], &["y"], &[]).unwrap();
    assert!(matches!(step.run(&[]), Err(SessionError::FeedCount { expected: 1, given: 0 })));

    let no_graph = Session::new(tensorflow, b"no graph", &ConfigProto::default()).unwrap_err();
    assert!(matches!(no_graph, SessionError::Setup(_)), "{no_graph:?}");
    let error = tensorflow.load_device_plugin("/no/such/plugin.so".as_ref()).unwrap_err();
    assert!(
        error.to_string().starts_with("/no/such/plugin.so: TensorFlow cannot use this plug-in"),
        "{error}"
    );
}
