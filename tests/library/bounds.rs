//! The most that tensors can be whose size only the data decides, held against what TensorFlow's kernels make.
//!
//! Skipped, with the reason printed, where no TensorFlow is found and `LMS_REQUIRE_TENSORFLOW` is unset.

use lms_testing::graphs::{Nodes, attr_type, shape};
use prost::Message;
use tf_lms::format::{Model, ReadOptions};
use tf_lms::graph::Graph;
use tf_lms::ops::OpRegistry;
use tf_lms::proto::tensorflow::attr_value::{ListValue, Value};
use tf_lms::proto::tensorflow::{ConfigProto, TensorProto};
use tf_lms::runtime::{Session, Tensor};
use tf_lms::shape::{Shapes, Sizes};

const FLOAT: i32 = 1;
const INT32: i32 = 3;
const STRING: i32 = 7;
const INT64: i32 = 9;

/// A node, its op, what it reads, its attributes, and how many elements its first output has at most.
type Case = (&'static str, &'static str, &'static [&'static str], Vec<(&'static str, Value)>, u64);

/// Twelve numbers, five of them different: what makes tensors of five elements that could have twelve.
const NUMBERS: [i32; 12] = [3, 1, 4, 1, 5, 3, 3, 5, 1, 2, 4, 4];

fn of_floats() -> Vec<(&'static str, Value)> {
    vec![("T", attr_type(FLOAT))]
}

fn with(more: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
    [&of_floats()[..], more].concat()
}

fn index(name: &'static str) -> (&'static str, Value) {
    (name, attr_type(INT32))
}

fn of_places(shrink: i64) -> Vec<(&'static str, Value)> {
    let masks = [("shrink_axis_mask", Value::I(shrink)), ("end_mask", Value::I(1))];
    [&[("T", attr_type(INT64)), index("Index")][..], &masks].concat()
}

fn to_wide() -> Vec<(&'static str, Value)> {
    vec![("SrcT", attr_type(INT32)), ("DstT", attr_type(INT64))]
}

/// Ops that make tensors of no known size, or read such. `rows` has a row of four for each different number.
fn cases() -> Vec<Case> {
    let to_float = || vec![("SrcT", attr_type(INT32)), ("DstT", attr_type(FLOAT))];
    let gather = |from| {
        vec![("Tparams", attr_type(from)), ("Tindices", attr_type(INT32)), ("Taxis", attr_type(INT32))]
    };
    let axis = |axis| ("axis", Value::I(axis));
    let reduction = |keeps| with(&[index("Tidx"), ("keep_dims", Value::B(keeps))]);
    let squeezed = ListValue { i: vec![1], ..ListValue::default() };
    let masks =
        |shrink| with(&[index("Index"), ("shrink_axis_mask", Value::I(shrink)), ("end_mask", Value::I(1))]);
    let mut cases: Vec<Case> = vec![
        ("unique", "Unique", &["numbers"], vec![("T", attr_type(INT32)), index("out_idx")], 12),
        ("float", "Cast", &["unique"], to_float(), 12),
        ("rows", "GatherV2", &["table", "unique", "zero"], gather(FLOAT), 48),
        ("shape", "Shape", &["unique"], vec![("T", attr_type(INT32)), index("out_type")], 1),
        (
            "count",
            "StridedSlice",
            &["shape", "zeros_1", "ones_1", "ones_1"],
            vec![("T", attr_type(INT32)), index("Index"), ("shrink_axis_mask", Value::I(1))],
            1,
        ),
        ("positive", "Greater", &["float", "half"], of_floats(), 12),
        ("where", "Where", &["positive"], vec![("T", attr_type(10))], 12),
        (
            "summed",
            "UnsortedSegmentSum",
            &["data", "unique:1", "count"],
            with(&[index("Tindices"), index("Tnumsegments")]),
            48,
        ),
        ("parted", "DynamicPartition", &["data", "parts"], with(&[("num_partitions", Value::I(2))]), 48),
        (
            "difference",
            "ListDiff",
            &["numbers", "unique"],
            vec![("T", attr_type(INT32)), index("out_idx")],
            12,
        ),
        ("relu", "Relu", &["rows"], of_floats(), 48),
        ("added", "AddV2", &["rows", "row"], of_floats(), 48),
        ("all", "AddN", &["rows", "relu"], with(&[("N", Value::I(2))]), 48),
        ("column_sums", "Sum", &["rows", "zero"], reduction(false), 4),
        ("row_sums", "Mean", &["rows", "one"], reduction(false), 12),
        ("row_means", "Mean", &["rows", "one"], reduction(true), 12),
        ("product", "MatMul", &["rows", "weights"], of_floats(), 36),
        ("turned", "Transpose", &["rows", "swap"], with(&[index("Tperm")]), 48),
        ("inner", "MatMul", &["turned", "weights_5"], with(&[("transpose_a", Value::B(true))]), 60),
        ("joined", "ConcatV2", &["rows", "data", "zero"], with(&[("N", Value::I(2)), index("Tidx")]), 96),
        ("tiled", "Tile", &["float", "three"], with(&[index("Tmultiples")]), 36),
        ("flat", "Reshape", &["rows", "flat_shape"], with(&[index("Tshape")]), 48),
        ("pairs", "Reshape", &["rows", "pairs_shape"], with(&[index("Tshape")]), 48),
        // Of as many as there are in a dimension that the data decide, and the rest in another one.
        (
            "long_shape",
            "ConcatV2",
            &["shape", "flat_shape", "zero"],
            vec![("T", attr_type(INT32)), ("N", Value::I(2)), index("Tidx")],
            2,
        ),
        ("long", "Reshape", &["rows", "long_shape"], with(&[index("Tshape")]), 48),
        ("long_turned", "Transpose", &["long", "swap"], with(&[index("Tperm")]), 48),
        ("long_negative", "Neg", &["long_turned"], of_floats(), 48),
        ("deeper", "ExpandDims", &["rows", "one"], with(&[index("Tdim")]), 48),
        ("batches", "BatchMatMulV2", &["deeper", "weights_3d"], of_floats(), 36),
        ("flatter", "Squeeze", &["deeper"], with(&[("squeeze_dims", Value::List(squeezed))]), 48),
        ("part", "Slice", &["rows", "from_0_1", "size_all_2"], with(&[index("Index")]), 24),
        ("column", "StridedSlice", &["rows", "from_0_1", "to_0_2", "ones_2"], masks(2), 12),
        ("columns", "StridedSlice", &["rows", "from_0_1", "to_0_2", "ones_2"], masks(0), 12),
        ("from", "Mul", &["seven", "count"], vec![("T", attr_type(INT32))], 1),
        ("next", "AddV2", &["count", "one"], vec![("T", attr_type(INT32))], 1),
        ("to", "Mul", &["next", "seven"], vec![("T", attr_type(INT32))], 1),
        ("froms", "Pack", &["from"], vec![("T", attr_type(INT32)), ("N", Value::I(1))], 1),
        ("tos", "Pack", &["to"], vec![("T", attr_type(INT32)), ("N", Value::I(1))], 1),
        ("of_batch", "StridedSlice", &["batch", "froms", "tos", "ones_1"], with(&[index("Index")]), 7),
        ("padded", "Pad", &["float", "padding"], with(&[index("Tpaddings")]), 15),
        (
            "hot",
            "OneHot",
            &["unique", "seven", "half", "half"],
            with(&[("TI", attr_type(INT32)), axis(-1)]),
            84,
        ),
        ("best", "TopKV2", &["rows", "two"], of_floats(), 24),
        ("ones_where", "Cast", &["positive"], vec![("SrcT", attr_type(10)), ("DstT", attr_type(INT32))], 12),
        (
            "how_many",
            "Sum",
            &["ones_where", "zero"],
            vec![("T", attr_type(INT32)), index("Tidx"), ("keep_dims", Value::B(false))],
            1,
        ),
        ("best_of_all", "TopKV2", &["float", "how_many"], of_floats(), 12),
        ("boxes", "NonMaxSuppressionV2", &["rows", "float", "how_many", "half"], vec![], 12),
        ("two_boxes", "NonMaxSuppressionV2", &["rows", "float", "two", "half"], vec![], 2),
        ("chosen", "SelectV2", &["positive", "float", "half"], of_floats(), 12),
        ("halves", "Split", &["one", "rows"], with(&[("num_split", Value::I(2))]), 24),
        ("columns_apart", "Unpack", &["rows"], with(&[("num", Value::I(4)), axis(1)]), 12),
        ("packed", "Pack", &["float", "float"], with(&[("N", Value::I(2)), axis(0)]), 24),
        ("filled", "Fill", &["shape", "half"], with(&[index("index_type")]), 12),
        ("counted", "Range", &["zero", "count", "one"], vec![index("Tidx")], 12),
        (
            "random",
            "RandomUniform",
            &["shape"],
            vec![("dtype", attr_type(FLOAT)), index("T"), ("seed", Value::I(1))],
            12,
        ),
        ("softmax", "Softmax", &["rows"], of_floats(), 48),
        ("largest", "ArgMax", &["rows", "one"], with(&[index("Tidx"), index("output_type")]), 12),
        ("labels", "ZerosLike", &["unique"], vec![("T", attr_type(INT32))], 12),
        (
            "losses",
            "SparseSoftmaxCrossEntropyWithLogits",
            &["rows", "labels"],
            with(&[("Tlabels", attr_type(INT32))]),
            12,
        ),
        ("sums", "Cumsum", &["rows", "zero"], with(&[index("Tidx")]), 48),
        ("biased", "BiasAdd", &["rows", "row"], of_floats(), 48),
        ("place", "StridedSlice", &["where", "from_0_0", "to_0_1", "ones_2"], of_places(2), 12),
        ("segment_sums", "SegmentSum", &["rows", "place"], with(&[("Tindices", attr_type(INT64))]), 48),
        (
            "looked_up",
            "SparseSegmentSum",
            &["table", "unique", "counted"],
            with(&[index("Tidx"), index("Tsegmentids")]),
            48,
        ),
        ("kept_sums", "Sum", &["rows", "axis"], reduction(true), 48),
        ("some_sums", "Sum", &["rows", "axis"], reduction(false), 12),
        ("positive_rows", "Greater", &["rows", "half"], of_floats(), 48),
        ("entries", "Where", &["positive_rows"], vec![("T", attr_type(10))], 96),
        ("entry_rows", "StridedSlice", &["entries", "from_0_0", "to_0_1", "ones_2"], of_places(2), 48),
        ("wide_zero", "Cast", &["zero"], to_wide(), 1),
        ("wide_shape", "Shape", &["rows"], with(&[("out_type", attr_type(INT64))]), 2),
        ("wide_pairs", "Cast", &["pairs_shape"], to_wide(), 2),
        ("reshaped", "SparseReshape", &["entries", "wide_shape", "wide_pairs"], vec![], 96),
        (
            "filled_rows",
            "SparseFillEmptyRows",
            &["entries", "entry_rows", "wide_shape", "wide_zero"],
            vec![("T", attr_type(INT64))],
            120,
        ),
        (
            "entry_values",
            "Cast",
            &["entry_rows"],
            vec![("SrcT", attr_type(INT64)), ("DstT", attr_type(FLOAT))],
            48,
        ),
        ("in_order", "SparseReorder", &["entries", "entry_values", "wide_shape"], of_floats(), 96),
        ("weights_of_entries", "SparseSoftmax", &["in_order", "in_order:1", "wide_shape"], of_floats(), 48),
        (
            "scaled_entries",
            "SparseDenseCwiseMul",
            &["in_order", "in_order:1", "wide_shape", "row"],
            of_floats(),
            48,
        ),
        (
            "side_by_side",
            "SparseConcat",
            &["entries", "in_order", "entry_values", "scaled_entries", "wide_shape", "wide_shape"],
            with(&[("N", Value::I(2)), ("concat_dim", Value::I(0))]),
            192,
        ),
        (
            "both",
            "SparseAdd",
            &["entries", "entry_values", "wide_shape", "in_order", "in_order:1", "wide_shape", "half"],
            with(&[("Treal", attr_type(FLOAT))]),
            192,
        ),
        ("gradient_of_both", "SparseAddGrad", &["both:1", "entries", "in_order", "both"], of_floats(), 48),
    ];
    cases.extend(of_images());
    cases.extend(of_matrices());
    cases
}

/// Ops on images, of which there is one for each different number.
fn of_images() -> Vec<Case> {
    let format = |name: &'static str| ("data_format", Value::S(name.as_bytes().to_vec()));
    let of_blocks = |name| with(&[("block_size", Value::I(2)), format(name)]);
    let in_turn = |margins| with(&[index("Tblock_shape"), index(margins)]);
    vec![
        ("images", "Reshape", &["rows", "squares_shape"], with(&[index("Tshape")]), 48),
        ("bilinear", "ResizeBilinear", &["images", "six_by_eight"], of_floats(), 576),
        ("bilinear_gradient", "ResizeBilinearGrad", &["bilinear", "images"], of_floats(), 48),
        ("nearest", "ResizeNearestNeighbor", &["images", "six_by_eight"], of_floats(), 576),
        ("nearest_gradient", "ResizeNearestNeighborGrad", &["nearest", "twos"], of_floats(), 48),
        ("as_channels", "SpaceToDepth", &["images"], of_blocks("NHWC"), 48),
        ("as_places", "DepthToSpace", &["as_channels"], of_blocks("NHWC"), 48),
        ("rolled", "Roll", &["images", "ones_1", "zeros_1"], with(&[index("Tshift"), index("Taxis")]), 48),
        ("examples", "SpaceToBatchND", &["images", "twos", "margins"], in_turn("Tpaddings"), 192),
        ("places", "BatchToSpaceND", &["examples", "twos", "margins"], in_turn("Tcrops"), 192),
        ("channel_sums", "BiasAddGrad", &["images"], with(&[format("NHWC")]), 1),
    ]
}

/// Ops on matrices and vectors.
fn of_matrices() -> Vec<Case> {
    let equation =
        |text: &'static str| with(&[("N", Value::I(2)), ("equation", Value::S(text.as_bytes().to_vec()))]);
    let slice = || with(&[index("Index"), ("end_mask", Value::I(3))]);
    vec![
        ("row_shape", "Shape", &["rows"], with(&[index("out_type")]), 2),
        (
            "rows_back",
            "StridedSliceGrad",
            &["row_shape", "from_0_0", "to_0_2", "ones_2", "rows"],
            slice(),
            48,
        ),
        ("sums_of_products", "Einsum", &["rows", "weights"], equation("ab,bc->ac"), 36),
        ("sums_of_rows", "Einsum", &["rows", "rows"], equation("ab,ab->a"), 12),
        ("squares", "MatrixDiag", &["rows"], of_floats(), 192),
        ("diagonal", "MatrixDiagPart", &["squares"], of_floats(), 48),
        ("no_diagonal", "MatrixSetDiag", &["squares", "rows"], of_floats(), 192),
        ("counts", "DenseBincount", &["unique", "seven", "no_weights"], with(&[index("Tidx")]), 7),
        (
            "added_to",
            "TensorScatterAdd",
            &["float", "unique_places", "float"],
            with(&[index("Tindices")]),
            12,
        ),
        ("unique_places", "ExpandDims", &["order", "one"], vec![("T", attr_type(INT32)), index("Tdim")], 12),
        ("order", "Range", &["zero", "count", "one"], vec![index("Tidx")], 12),
        ("true_classes", "Cast", &["pairs_of_numbers"], to_wide(), 12),
        ("sampled", "Cast", &["unique"], to_wide(), 12),
        (
            "pairs_of_numbers",
            "Reshape",
            &["numbers", "pairs_shape"],
            vec![("T", attr_type(INT32)), index("Tshape")],
            12,
        ),
        ("hits", "ComputeAccidentalHits", &["true_classes", "sampled"], vec![("num_true", Value::I(6))], 144),
        ("is_among_best", "InTopKV2", &["rows", "labels", "two"], vec![("T", attr_type(INT32))], 12),
        ("read", "TensorArrayReadV3", &["array", "one", "written"], vec![("dtype", attr_type(FLOAT))], 4),
        (
            "some",
            "TensorArrayGatherV3",
            &["array", "unique", "written"],
            vec![("dtype", attr_type(FLOAT))],
            48,
        ),
        (
            "placed",
            "DynamicPartition",
            &["all_places", "parts"],
            vec![("T", attr_type(INT32)), ("num_partitions", Value::I(2))],
            12,
        ),
        (
            "stitched",
            "DynamicStitch",
            &["placed", "placed:1", "parted", "parted:1"],
            with(&[("N", Value::I(2))]),
            48,
        ),
        ("missing", "Sub", &["twelve", "count"], vec![("T", attr_type(INT32))], 1),
        ("behind", "Pack", &["zero", "missing"], vec![("T", attr_type(INT32)), ("N", Value::I(2))], 2),
        ("room", "Pack", &["behind", "from_0_0"], vec![("T", attr_type(INT32)), ("N", Value::I(2))], 4),
        ("filled_up", "Pad", &["rows", "room"], with(&[index("Tpaddings")]), 96),
    ]
}

fn constant(nodes: &mut Nodes, name: &str, sizes: &[i64], values: &[i32]) {
    let tensor = TensorProto {
        dtype: INT32,
        tensor_shape: Some(shape(sizes)),
        int_val: values.to_vec(),
        ..TensorProto::default()
    };
    nodes.add(name, "Const", &[], &[index("dtype"), ("value", Value::Tensor(tensor))]).declares(name, sizes);
}

/// The graph; of no tensor but what is fed and constant the shape is declared.
fn nodes() -> Nodes {
    let mut nodes = Nodes::default();
    let ints = [("dtype", attr_type(INT32)), ("shape", Value::Shape(shape(&[12])))];
    nodes.add("numbers", "Placeholder", &[], &ints).declares("numbers", &[12]);
    nodes.add("parts", "Placeholder", &[], &ints).declares("parts", &[12]);
    let axis = [("dtype", attr_type(INT32)), ("shape", Value::Shape(shape(&[1])))];
    nodes.add("axis", "Placeholder", &[], &axis).declares("axis", &[1]);
    for (name, sizes) in FLOATS {
        nodes.placeholder(name, sizes).declares(name, sizes);
    }
    for (name, sizes, values) in [
        ("zero", &[][..], &[0][..]),
        ("one", &[], &[1]),
        ("two", &[], &[2]),
        ("seven", &[], &[7]),
        ("three", &[1], &[3]),
        ("zeros_1", &[1], &[0]),
        ("ones_1", &[1], &[1]),
        ("ones_2", &[2], &[1, 1]),
        ("swap", &[2], &[1, 0]),
        ("flat_shape", &[1], &[-1]),
        ("pairs_shape", &[2], &[2, -1]),
        ("from_0_0", &[2], &[0, 0]),
        ("to_0_1", &[2], &[0, 1]),
        ("from_0_1", &[2], &[0, 1]),
        ("size_all_2", &[2], &[-1, 2]),
        ("to_0_2", &[2], &[0, 2]),
        ("padding", &[1, 2], &[1, 2]),
        ("squares_shape", &[4], &[-1, 2, 2, 1]),
        ("six_by_eight", &[2], &[6, 8]),
        ("twos", &[2], &[2, 2]),
        ("margins", &[2, 2], &[1, 1, 1, 1]),
    ] {
        constant(&mut nodes, name, sizes, values);
    }
    let places: Vec<i32> = (0..12).collect();
    constant(&mut nodes, "all_places", &[12], &places);
    constant(&mut nodes, "twelve", &[], &[12]);
    let kept = [("dtype", attr_type(FLOAT)), ("clear_after_read", Value::B(false))];
    nodes.add("array", "TensorArrayV3", &["twelve"], &kept);
    nodes.add("written", "TensorArrayScatterV3", &["array", "all_places", "data", "array:1"], &of_floats());
    for (name, op, inputs, attrs, _) in cases() {
        nodes.add(name, op, inputs, &attrs);
    }
    // How many sizes there are the inference knows of any shape.
    nodes.declares("shape", &[1]).declares("count", &[]);
    nodes
        .declares("from", &[])
        .declares("next", &[])
        .declares("to", &[])
        .declares("froms", &[1])
        .declares("tos", &[1]);
    nodes.declares("missing", &[]).declares("behind", &[2]).declares("room", &[2, 2]);
    nodes.declares("wide_shape", &[2]).declares("wide_pairs", &[2]).declares("row_shape", &[2]);
    nodes.declares("long_shape", &[2]);
    nodes
}

/// What is fed besides the numbers.
const FLOATS: [(&str, &[i64]); 9] = [
    ("table", &[20, 4]),
    ("data", &[12, 4]),
    ("row", &[4]),
    ("half", &[]),
    ("weights", &[4, 3]),
    ("weights_5", &[4, 5]),
    ("weights_3d", &[1, 4, 3]),
    ("no_weights", &[0]),
    ("batch", &[40]),
];

fn bounds(name: &str, nodes: &Nodes) -> Vec<(String, Option<u64>)> {
    let bytes = nodes.graph().encode_to_vec();
    let model = Model::from_bytes(name, bytes, &ReadOptions::default()).unwrap();
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    let sizes = Sizes::of(&graph, &Shapes::declared(&graph)).unwrap();
    let tensors = graph.tensor_ids().map(|tensor| {
        let of_element = graph.output_type(tensor).dtype.size_in_bytes();
        let elements = sizes.bytes(tensor).and_then(|bytes| Some(bytes / of_element?));
        (graph.tensor_name(tensor).to_string(), elements)
    });
    tensors.collect()
}

#[test]
fn what_the_data_decides_is_bounded() {
    let found = bounds("bounded", &nodes());
    for (name, op, _, _, most) in cases() {
        let tensor = format!("{name}:0");
        let elements = found.iter().find(|(other, _)| *other == tensor).unwrap().1;
        assert_eq!(elements, Some(most), "{name} ({op})");
    }
}

/// A file may say anything: sizes whose product passes 64 bits have no bound.
#[test]
fn sizes_that_no_tensor_has_are_not_bounded() {
    let mut nodes = nodes();
    constant(&mut nodes, "vast", &[4], &[i32::MAX, i32::MAX, i32::MAX, -1]);
    nodes.add("wide_vast", "Cast", &["vast"], &to_wide()).declares("wide_vast", &[4]);
    nodes.add("vastly", "SparseReshape", &["entries", "wide_shape", "wide_vast"], &[]);
    nodes.add("of_vast", "StridedSlice", &["vastly", "from_0_0", "to_0_1", "ones_2"], &of_places(2));
    let attrs = [("T", attr_type(FLOAT)), ("Tindices", attr_type(INT64))];
    nodes.add("vast_sums", "SegmentSum", &["rows", "of_vast"], &attrs);
    let found = bounds("vast", &nodes);
    let (_, elements) = found.iter().find(|(name, _)| name == "vast_sums:0").unwrap();
    assert_eq!(*elements, None);
}

#[test]
fn tensorflow_makes_no_more() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let nodes = nodes();
    let found = bounds("bounded", &nodes);
    let session = Session::new(tensorflow, &nodes.graph().encode_to_vec(), &ConfigProto::default()).unwrap();
    let mut fed = vec![
        ("numbers", Tensor::of(&[12], &NUMBERS).unwrap()),
        ("axis", Tensor::of(&[1], &[0]).unwrap()),
        ("parts", Tensor::of(&[12], &[0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]).unwrap()),
    ];
    for (name, sizes) in FLOATS {
        let count = sizes.iter().product::<i64>() as usize;
        fed.push((name, Tensor::of(sizes, &vec![0.5f32; count]).unwrap()));
    }
    let fed: Vec<(&str, &Tensor)> = fed.iter().map(|(name, tensor)| (*name, tensor)).collect();
    // Outputs of one or two elements are of no known size because nothing declares it; they say nothing.
    let mut smaller = 0;
    for (name, op, ..) in cases() {
        let tensor = format!("{name}:0");
        let most = found.iter().find(|(other, _)| *other == tensor).unwrap().1.unwrap();
        let made =
            session.run(&fed, &[&tensor], &[]).unwrap_or_else(|error| panic!("{name} ({op}): {error}"));
        let elements = made[0].shape().iter().product::<i64>() as u64;
        assert!(elements <= most, "{name} ({op}) has {elements} elements, more than {most}");
        smaller += usize::from(elements < most);
    }
    assert!(smaller > 25, "only {smaller} tensors are smaller than their bound");
}

/// What is fed and left open has no bound, and neither has what is made of it.
#[test]
fn what_is_left_open_stays_unknown() {
    let mut nodes = Nodes::default();
    let ints = [("dtype", attr_type(INT32)), ("shape", Value::Shape(shape(&[-1])))];
    nodes.add("numbers", "Placeholder", &[], &ints).declares("numbers", &[-1]);
    nodes.add("unique", "Unique", &["numbers"], &[("T", attr_type(INT32)), index("out_idx")]);
    let found = bounds("open", &nodes);
    assert!(found.iter().all(|(_, elements)| elements.is_none()), "{found:?}");
}

/// What Python computes on the host has no shape but the one that the program ensures.
#[test]
fn a_shape_that_is_ensured_is_that_of_what_is_read() {
    let mut nodes = Nodes::default();
    nodes.add("written", "Placeholder", &[], &[("dtype", attr_type(STRING))]);
    nodes.add("parsed", "ParseTensor", &["written"], &[("out_type", attr_type(FLOAT))]);
    let ensured = [("T", attr_type(FLOAT)), ("shape", Value::Shape(shape(&[3, 4])))];
    nodes.add("ensured", "EnsureShape", &["parsed"], &ensured).declares("ensured", &[3, 4]);
    nodes.add("parsed_too", "ParseTensor", &["written"], &[("out_type", attr_type(FLOAT))]);
    let found = bounds("ensured", &nodes);
    let elements = |name: &str| found.iter().find(|(other, _)| other == name).unwrap().1;
    assert_eq!((elements("parsed:0"), elements("parsed_too:0")), (Some(12), None));
}

/// What a batch norm's kernel keeps for its gradient has no shape. TensorFlow makes it a single number, which a swap copies too.
#[test]
fn what_a_kernel_keeps_without_a_shape_has_the_size_that_it_makes() {
    let mut nodes = Nodes::default();
    nodes.placeholder("image", &[2, 4, 4, 3]).declares("image", &[2, 4, 4, 3]);
    nodes.placeholder("scale", &[3]).declares("scale", &[3]);
    nodes.placeholder("nothing", &[0]).declares("nothing", &[0]);
    let inputs = ["image", "scale", "scale", "nothing", "nothing"];
    nodes.add("norm", "FusedBatchNormV3", &inputs, &[("T", attr_type(FLOAT)), ("U", attr_type(FLOAT))]);
    let found = bounds("norm", &nodes);
    let kept = found.iter().find(|(name, _)| name == "norm:5").unwrap().1;
    assert_eq!(kept, Some(1));
}
