//! Which ops hand on the buffer of a variable, held against TensorFlow.

use lms_testing::graphs::{Nodes, attr_type, shape};
use prost::Message;
use tf_lms::format::{Model, ReadOptions};
use tf_lms::graph::{Graph, RefVariables, TensorId};
use tf_lms::ops::{Fact, OpRegistry};
use tf_lms::proto::tensorflow::attr_value::{ListValue, Value};
use tf_lms::proto::tensorflow::{ConfigProto, GraphDef, GraphOptions, RewriterConfig};
use tf_lms::runtime::{Session, Tensor, TensorFlow};

/// The variable's shape.
const SHAPE: [i64; 4] = [2, 3, 4, 5];
const FLOAT: i32 = 1;
const INT32: i32 = 3;
const INT64: i32 = 9;

/// An op, what it reads (`v` is the variable), and its attributes but for its types.
type Case = (&'static str, &'static [&'static str], Vec<(&'static str, Value)>);

/// Ops that have nothing to do with what they are given.
fn idle() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for op in ["Sum", "Prod", "Max", "Min", "Mean"] {
        cases.push((op, &["v", "no_axes"], vec![("Tidx", attr_type(INT32))]));
    }
    let paddings = || vec![("Tpaddings", attr_type(INT32))];
    let mirror = vec![("Tpaddings", attr_type(INT32)), ("mode", Value::S(b"REFLECT".to_vec()))];
    let blocks = |of: &'static str| vec![("Tblock_shape", attr_type(INT32)), (of, attr_type(INT32))];
    let slices = || vec![("Index", attr_type(INT32))];
    cases.extend([
        ("AddN", &["v"][..], vec![("N", Value::I(1))]),
        ("Pack", &["v"], vec![("N", Value::I(1))]),
        ("BroadcastTo", &["v", "shape"], vec![("Tidx", attr_type(INT32))]),
        ("Pad", &["v", "zeros_4_2"], paddings()),
        ("PadV2", &["v", "zeros_4_2", "zero"], paddings()),
        ("MirrorPad", &["v", "zeros_4_2"], mirror),
        ("SpaceToBatchND", &["v", "ones_2", "zeros_2_2"], blocks("Tpaddings")),
        ("BatchToSpaceND", &["v", "ones_2", "zeros_2_2"], blocks("Tcrops")),
        ("MatrixBandPart", &["v", "minus_one", "minus_one"], vec![("Tindex", attr_type(INT64))]),
        ("Tile", &["v", "ones_4"], vec![("Tmultiples", attr_type(INT32))]),
        ("Transpose", &["v", "axes"], vec![("Tperm", attr_type(INT32))]),
        ("Slice", &["v", "zeros_4", "shape"], slices()),
        ("StridedSlice", &["v", "zeros_4", "shape", "ones_4"], slices()),
        ("Split", &["axis", "v"], vec![("num_split", Value::I(1))]),
        ("SplitV", &["v", "size", "axis"], vec![("num_split", Value::I(1)), ("Tlen", attr_type(INT32))]),
        ("Reshape", &["v", "shape"], vec![("Tshape", attr_type(INT32))]),
        ("ExpandDims", &["v", "axis"], vec![("Tdim", attr_type(INT32))]),
        ("Squeeze", &["v"], vec![]),
        ("Identity", &["v"], vec![]),
        ("StopGradient", &["v"], vec![]),
        ("PreventGradient", &["v"], vec![]),
        ("EnsureShape", &["v"], vec![("shape", Value::Shape(shape(&SHAPE)))]),
        ("GuaranteeConst", &["v"], vec![]),
        ("Snapshot", &["v"], vec![]),
        ("Copy", &["v"], vec![]),
        ("CopyHost", &["v"], vec![]),
        ("CheckNumerics", &["v"], vec![("message", Value::S(Vec::new()))]),
        ("Cast", &["v"], vec![("SrcT", attr_type(FLOAT)), ("DstT", attr_type(FLOAT))]),
        ("Bitcast", &["v"], vec![("type", attr_type(FLOAT))]),
        ("IdentityN", &["v"], vec![("T", types(&[FLOAT]))]),
        ("Print", &["v"], vec![("U", types(&[]))]),
        // These copy all the same.
        ("EuclideanNorm", &["v", "no_axes"], vec![("Tidx", attr_type(INT32))]),
        ("ReverseV2", &["v", "no_axes"], vec![("Tidx", attr_type(INT32))]),
        ("Roll", &["v", "axis", "axis"], vec![("Tshift", attr_type(INT32)), ("Taxis", attr_type(INT32))]),
        ("ResizeBilinear", &["v", "size_2"], vec![]),
        ("Round", &["v"], vec![]),
        ("DeepCopy", &["v"], vec![]),
        ("Unpack", &["v"], vec![("num", Value::I(2))]),
    ]);
    cases
}

fn types(numbers: &[i32]) -> Value {
    Value::List(ListValue { r#type: numbers.to_vec(), ..ListValue::default() })
}

/// What the ops are given besides the variable.
fn feeds() -> Vec<(&'static str, Tensor)> {
    let of = |dimensions: &[i64], values: &[i32]| Tensor::of(dimensions, values).unwrap();
    vec![
        ("no_axes", of(&[0], &[])),
        ("shape", of(&[4], &SHAPE.map(|size| size as i32))),
        ("zeros_4_2", of(&[4, 2], &[0; 8])),
        ("zeros_2_2", of(&[2, 2], &[0; 4])),
        ("zeros_4", of(&[4], &[0; 4])),
        ("ones_4", of(&[4], &[1; 4])),
        ("ones_2", of(&[2], &[1; 2])),
        ("axes", of(&[4], &[0, 1, 2, 3])),
        ("size", of(&[1], &[2])),
        ("size_2", of(&[2], &[3, 4])),
        ("axis", of(&[], &[0])),
        ("minus_one", Tensor::of(&[], &[-1i64]).unwrap()),
        ("zero", Tensor::of(&[], &[0.0f32]).unwrap()),
        ("value", Tensor::of(&SHAPE, &[1.0f32; 120]).unwrap()),
        ("other", Tensor::of(&SHAPE, &[7.0f32; 120]).unwrap()),
    ]
}

/// The op on a variable, an update of the variable behind it, and `seen`, which reads the op's output behind the update.
fn graph_of((op, inputs, attrs): &Case) -> GraphDef {
    let mut nodes = Nodes::default();
    let float = || attr_type(FLOAT);
    for (name, tensor) in feeds() {
        let attrs =
            [("dtype", attr_type(tensor.dtype().number())), ("shape", Value::Shape(shape(tensor.shape())))];
        nodes.add(name, "Placeholder", &[], &attrs);
    }
    nodes.add("v", "VariableV2", &[], &[("dtype", float()), ("shape", Value::Shape(shape(&SHAPE)))]);
    nodes.add("initial", "Assign", &["v", "value"], &[("T", float())]);
    let mut attrs = attrs.clone();
    let has_type = OpRegistry::builtin()
        .get(op)
        .is_some_and(|info| info.def().attr.iter().any(|attr| attr.name == "T" && attr.r#type == "type"));
    if has_type {
        attrs.push(("T", float()));
    }
    nodes.add("y", op, inputs, &attrs);
    nodes.add("update", "Assign", &["v", "other", "^y"], &[("T", float())]);
    nodes.add("seen", "Neg", &["y", "^update"], &[("T", float())]);
    nodes.graph()
}

/// Whether who reads the op's output sees what the variable is later.
fn hands_on(tensorflow: &'static TensorFlow, graph: &GraphDef) -> bool {
    let rewrite_options = Some(RewriterConfig { disable_meta_optimizer: true, ..RewriterConfig::default() });
    let graph_options = Some(GraphOptions { rewrite_options, ..GraphOptions::default() });
    let config = ConfigProto { graph_options, ..ConfigProto::default() };
    let session = Session::new(tensorflow, &graph.encode_to_vec(), &config).unwrap();
    let feeds = feeds();
    let feeds: Vec<(&str, &Tensor)> = feeds.iter().map(|(name, tensor)| (*name, tensor)).collect();
    session.run(&feeds, &[], &["initial"]).unwrap();
    let seen = session.run(&feeds, &["seen"], &[]).unwrap().remove(0).to_vec::<f32>().unwrap();
    seen.iter().any(|&value| value == -7.0)
}

#[test]
fn what_hands_on_a_variables_buffer_is_known() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let registry = OpRegistry::builtin();
    let mut handed_on = 0;
    for case in idle() {
        let def = graph_of(&case);
        let model = Model::from_bytes(case.0, def.encode_to_vec(), &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, registry).unwrap();
        let y = graph.node_ids().find(|&node| graph.name(node) == "y").unwrap();
        let output: TensorId = graph.outputs(y).next().unwrap();
        let hands_on = hands_on(tensorflow, &def);
        assert!(hands_on || !graph.op(y).facts().has(Fact::Resizes), "{}", case.0);
        if hands_on {
            handed_on += 1;
            assert!(RefVariables::of(&graph).is_buffer(output), "{}", case.0);
        }
    }
    assert!(handed_on > 25, "{handed_on}");
}
