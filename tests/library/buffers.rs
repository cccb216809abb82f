//! Which ops hand on the buffer of a variable, or parts of it, held against TensorFlow.

use std::collections::HashSet;

use lms_testing::graphs::{Nodes, attr_type, shape};
use prost::Message;
use tf_lms::format::{Model, ReadOptions};
use tf_lms::graph::{Graph, RefVariables, TensorId};
use tf_lms::ops::{Fact, OpRegistry};
use tf_lms::proto::tensorflow::attr_value::{ListValue, Value};
use tf_lms::proto::tensorflow::{ConfigProto, GraphDef, GraphOptions, RewriterConfig, TensorProto};
use tf_lms::runtime::{Session, Tensor, TensorFlow};
use tf_lms::shape::{Shapes, Sizes};

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
    let placeholders: HashSet<&str> =
        graph.node.iter().filter(|node| node.op == "Placeholder").map(|node| &*node.name).collect();
    let mut feeds = feeds();
    feeds.retain(|(name, _)| placeholders.contains(name));
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

/// An op that may take its input, a variable, apart: what it is given besides, and the shape of what it makes.
struct Part {
    op: &'static str,
    /// Names of constants, and `v`.
    inputs: &'static [&'static str],
    constants: &'static [(&'static str, &'static [i32])],
    attrs: Vec<(&'static str, Value)>,
    shape: &'static [i64],
}

/// Ops on variables of a shape.
fn parts() -> Vec<(&'static [i64], Part)> {
    const ROWS: &[i64] = &[4, 8, 4];
    const UNEVEN: &[i64] = &[4, 5];
    const VECTOR: &[i64] = &[64];
    const FLAT: &[i64] = &[1, 8, 1, 4];
    let index = || vec![("Index", attr_type(INT32))];
    let masks = |masks: &[(&'static str, i64)]| {
        let masks = masks.iter().map(|&(name, mask)| (name, Value::I(mask)));
        index().into_iter().chain(masks).collect::<Vec<_>>()
    };
    let part = |op, inputs, constants, attrs, shape| Part { op, inputs, constants, attrs, shape };
    let strided =
        |constants, attrs, shape| part("StridedSlice", &["v", "from", "to", "by"], constants, attrs, shape);
    let slice = |constants, shape| part("Slice", &["v", "from", "size"], constants, index(), shape);
    let transpose = |constants, shape| {
        part("Transpose", &["v", "order"], constants, vec![("Tperm", attr_type(INT32))], shape)
    };
    let unpack = |axis, num, shape| {
        part("Unpack", &["v"], &[], vec![("axis", Value::I(axis)), ("num", Value::I(num))], shape)
    };
    let split =
        |constants, shape| part("Split", &["at", "v"], constants, vec![("num_split", Value::I(2))], shape);
    let split_v = |constants, shape| {
        let attrs = vec![("num_split", Value::I(2)), ("Tlen", attr_type(INT32))];
        part("SplitV", &["v", "sizes", "at"], constants, attrs, shape)
    };
    vec![
        (ROWS, unpack(0, 4, &[8, 4])),
        (ROWS, unpack(-3, 4, &[8, 4])),
        (ROWS, unpack(1, 8, &[4, 4])),
        (UNEVEN, unpack(0, 4, &[5])),
        (ROWS, split(&[("at", &[0])], &[2, 8, 4])),
        (ROWS, split(&[("at", &[-3])], &[2, 8, 4])),
        (ROWS, split(&[("at", &[1])], &[4, 4, 4])),
        (VECTOR, split(&[("at", &[0])], &[32])),
        (UNEVEN, split(&[("at", &[0])], &[2, 5])),
        (ROWS, split_v(&[("sizes", &[3, 1]), ("at", &[0])], &[3, 8, 4])),
        (UNEVEN, split_v(&[("sizes", &[3, 1]), ("at", &[0])], &[3, 5])),
        (ROWS, slice(&[("from", &[1, 0, 0]), ("size", &[2, 8, 4])], &[2, 8, 4])),
        (ROWS, slice(&[("from", &[1, 0, 0]), ("size", &[2, -1, -1])], &[2, 8, 4])),
        (ROWS, slice(&[("from", &[0, 1, 0]), ("size", &[4, 7, 4])], &[4, 7, 4])),
        (UNEVEN, slice(&[("from", &[1, 0]), ("size", &[2, 5])], &[2, 5])),
        (VECTOR, slice(&[("from", &[16]), ("size", &[32])], &[32])),
        (VECTOR, slice(&[("from", &[4]), ("size", &[32])], &[32])),
        (
            ROWS,
            strided(
                &[("from", &[1]), ("to", &[2]), ("by", &[1])],
                masks(&[("shrink_axis_mask", 1)]),
                &[8, 4],
            ),
        ),
        (
            ROWS,
            strided(
                &[("from", &[-1]), ("to", &[0]), ("by", &[1])],
                masks(&[("shrink_axis_mask", 1)]),
                &[8, 4],
            ),
        ),
        (ROWS, strided(&[("from", &[0]), ("to", &[3]), ("by", &[1])], index(), &[3, 8, 4])),
        (ROWS, strided(&[("from", &[0]), ("to", &[4]), ("by", &[2])], index(), &[2, 8, 4])),
        (ROWS, strided(&[("from", &[3]), ("to", &[-5]), ("by", &[-1])], index(), &[4, 8, 4])),
        (
            ROWS,
            strided(
                &[("from", &[0, 1]), ("to", &[0, 2]), ("by", &[1, 1])],
                masks(&[("begin_mask", 1), ("end_mask", 1), ("shrink_axis_mask", 2)]),
                &[4, 4],
            ),
        ),
        (
            ROWS,
            strided(
                &[("from", &[0, 0]), ("to", &[0, 2]), ("by", &[1, 1])],
                masks(&[("new_axis_mask", 1)]),
                &[1, 2, 8, 4],
            ),
        ),
        (
            ROWS,
            strided(
                &[("from", &[0, 0]), ("to", &[0, 3]), ("by", &[1, 1])],
                masks(&[("ellipsis_mask", 1)]),
                &[4, 8, 3],
            ),
        ),
        (ROWS, strided(&[("from", &[0]), ("to", &[4]), ("by", &[1])], index(), &[4, 8, 4])),
        (VECTOR, strided(&[("from", &[16]), ("to", &[32]), ("by", &[1])], index(), &[16])),
        (VECTOR, strided(&[("from", &[-16]), ("to", &[0]), ("by", &[1])], masks(&[("end_mask", 1)]), &[16])),
        (VECTOR, strided(&[("from", &[1]), ("to", &[64]), ("by", &[1])], index(), &[63])),
        (UNEVEN, strided(&[("from", &[1]), ("to", &[3]), ("by", &[1])], index(), &[2, 5])),
        (ROWS, transpose(&[("order", &[0, 1, 2])], &[4, 8, 4])),
        (ROWS, transpose(&[("order", &[0, 2, 1])], &[4, 4, 8])),
        (FLAT, transpose(&[("order", &[1, 0, 2, 3])], &[8, 1, 1, 4])),
        (FLAT, transpose(&[("order", &[0, 3, 2, 1])], &[1, 4, 1, 8])),
        (ROWS, part("Cast", &["v"], &[], vec![("SrcT", attr_type(FLOAT)), ("DstT", attr_type(FLOAT))], ROWS)),
        (ROWS, part("Cast", &["v"], &[], vec![("SrcT", attr_type(FLOAT)), ("DstT", attr_type(INT32))], ROWS)),
    ]
}

/// A constant of whole numbers; a vector, but `at`.
fn constant(name: &str, numbers: &[i32]) -> Vec<(&'static str, Value)> {
    let dimensions = if name == "at" { vec![] } else { vec![numbers.len() as i64] };
    let tensor = TensorProto {
        dtype: INT32,
        tensor_shape: Some(shape(&dimensions)),
        int_val: numbers.to_vec(),
        ..TensorProto::default()
    };
    vec![("dtype", attr_type(INT32)), ("value", Value::Tensor(tensor))]
}

/// The variable, the op on it, an update of the variable behind it, and `seen`, which reads the op's first output behind the update.
fn graph_of_part(of: &[i64], part: &Part) -> GraphDef {
    let mut nodes = Nodes::default();
    let float = || attr_type(FLOAT);
    for (name, number) in [("value", 1.0), ("other", 7.0)] {
        let tensor = TensorProto {
            dtype: FLOAT,
            tensor_shape: Some(shape(of)),
            float_val: vec![number],
            ..TensorProto::default()
        };
        nodes.add(name, "Const", &[], &[("dtype", float()), ("value", Value::Tensor(tensor))]);
    }
    for &(name, numbers) in part.constants {
        nodes.add(name, "Const", &[], &constant(name, numbers));
        let dimensions = [numbers.len() as i64];
        nodes.declares(name, if name == "at" { &[] } else { &dimensions });
    }
    nodes.add("v", "VariableV2", &[], &[("dtype", float()), ("shape", Value::Shape(shape(of)))]);
    nodes.declares("v", of);
    nodes.add("initial", "Assign", &["v", "value"], &[("T", float())]);
    let mut attrs = part.attrs.clone();
    if part.op != "Cast" {
        attrs.push(("T", float()));
    }
    nodes.add("y", part.op, part.inputs, &attrs);
    // Of the others the input's shape says all.
    if matches!(part.op, "Slice" | "StridedSlice") {
        nodes.declares("y", part.shape);
    }
    nodes.add("update", "Assign", &["v", "other", "^y"], &[("T", float())]);
    let made = attrs.iter().find(|(name, _)| *name == "DstT").map_or(float(), |(_, made)| made.clone());
    nodes.add("as_float", "Cast", &["y", "^update"], &[("SrcT", made), ("DstT", float())]);
    nodes.add("seen", "Neg", &["as_float"], &[("T", float())]);
    nodes.graph()
}

/// What makes parts of its input copies nothing where TensorFlow copies nothing, and nowhere else: who reads them sees what the variable
/// is later.
#[test]
fn what_makes_parts_of_its_input_is_known() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let mut handed_on = 0;
    for (of, part) in parts() {
        let def = graph_of_part(of, &part);
        let model = Model::from_bytes(part.op, def.encode_to_vec(), &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let sizes = Sizes::of(&graph, &Shapes::declared(&graph)).unwrap();
        let y = graph.node_ids().find(|&node| graph.name(node) == "y").unwrap();
        let input = sizes.handed_on(&graph, y).map(|slot| part.inputs[slot as usize]);
        let expected = hands_on(tensorflow, &def).then_some("v");
        assert_eq!(input, expected, "{} of {of:?}, {:?}, {:?}", part.op, part.constants, part.attrs);
        handed_on += usize::from(expected.is_some());
    }
    assert!(handed_on > 12, "{handed_on}");
}
