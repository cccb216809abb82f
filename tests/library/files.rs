//! Files that TensorFlow wrote come back as they were, in every format.

use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use tf_lms::format::{Edits, Encoding, FormatError, Kind, Model, ReadOptions, Source};
use tf_lms::graph::{Device, Graph};
use tf_lms::ops::OpRegistry;
use tf_lms::plan::{Analysis, Plan, tflms};
use tf_lms::proto::tensorflow::{GraphDef, OpList};
use tf_lms::rewrite;
use tf_lms::shape::{Shapes, Sizes};

/// All graphs in `testdata`: files, and the graphs of SavedModel directories.
fn test_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir("testdata").unwrap() {
        let path = entry.unwrap().path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("meta" | "pb" | "pbtxt") => files.push(path),
            _ if path.join("saved_model.pb").is_file() => files.push(path.join("saved_model.pb")),
            _ => {}
        }
    }
    files.sort();
    assert!(files.len() >= 10, "{files:?}");
    files
}

fn read(path: &Path) -> (Vec<u8>, Model) {
    let content = fs::read(path).unwrap();
    let model =
        Model::from_bytes(&path.display().to_string(), content.clone(), &ReadOptions::default()).unwrap();
    (content, model)
}

fn plan(model: &Model) -> (Plan, Edits) {
    let graph = Graph::of_model(model, OpRegistry::builtin()).unwrap();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let analysis = Analysis::new(&graph, &[], shapes, sizes);
    let parameters = tflms::Parameters { sync_mode: 3.try_into().unwrap(), ..tflms::Parameters::default() };
    let plan = tflms::plan(&analysis, &parameters, &Device::parse("/cpu:0").unwrap()).unwrap();
    let edits = rewrite::rewrite(model, &graph, &plan).unwrap().edits;
    (plan, edits)
}

#[test]
fn a_rewrite_that_changes_nothing_returns_an_equal_file() {
    for path in test_files() {
        let (content, model) = read(&path);
        let written = model.edited(&Edits::default(), model.encoding()).unwrap().to_vec();
        assert!(written == content, "{}", path.display());
    }
}

#[test]
fn kinds_and_encodings_are_recognized_from_the_content() {
    for path in test_files() {
        let (_, model) = read(&path);
        let name = path.display().to_string();
        let kind = match name.as_str() {
            name if name.ends_with("saved_model.pb") => Kind::SavedModel,
            name if name.ends_with(".pb") => Kind::GraphDef,
            _ => Kind::MetaGraphDef,
        };
        let encoding = if name.ends_with(".pbtxt") { Encoding::Text } else { Encoding::Binary };
        assert_eq!((model.kind(), model.encoding()), (kind, encoding), "{name}");
        assert!(!model.nodes().is_empty(), "{name}");
    }
}

#[test]
fn strip_returns_the_file_that_was_rewritten() {
    for path in test_files() {
        let (content, model) = read(&path);
        let (plan, edits) = plan(&model);
        if plan.swaps.is_empty() {
            continue;
        }
        let rewritten = model.edited(&edits, model.encoding()).unwrap().to_vec();
        assert!(rewritten != content);
        let rewritten = Model::from_bytes("rewritten", rewritten, &ReadOptions::default()).unwrap();
        let edits = rewrite::strip(&rewritten).unwrap();
        let stripped = rewritten.edited(&edits, model.encoding()).unwrap().to_vec();
        assert!(stripped == content, "{}", path.display());
    }
}

#[test]
fn text_and_binary_give_the_same_graph() {
    for path in test_files() {
        let (_, model) = read(&path);
        let other = match model.encoding() {
            Encoding::Binary => Encoding::Text,
            Encoding::Text => Encoding::Binary,
        };
        let converted = model.edited(&Edits::default(), other).unwrap().to_vec();
        let converted = Model::from_bytes("converted", converted, &ReadOptions::default()).unwrap();
        assert_eq!(converted.encoding(), other);
        assert_eq!(converted.kind(), model.kind());
        let graph = |model: &Model| GraphDef::decode(model.graph_def()).unwrap();
        assert!(graph(&converted) == graph(&model), "{}", path.display());
        assert!(converted.meta_graph().unwrap() == model.meta_graph().unwrap(), "{}", path.display());
    }
}

/// Appends a field that no definition has to each message on the way, as a newer TensorFlow might.
fn with_unknown_fields(graph_def: &[u8]) -> Vec<u8> {
    use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};
    const UNKNOWN: [u8; 4] = [0xfa, 0x7e, 1, b'?']; // field 2031, "?"
    let (mut rest, mut out) = (graph_def, Vec::new());
    while !rest.is_empty() {
        let (number, wire_type) = decode_key(&mut rest).unwrap();
        assert_eq!(wire_type, WireType::LengthDelimited);
        let length = decode_varint(&mut rest).unwrap() as usize;
        let (content, behind) = rest.split_at(length);
        rest = behind;
        let unknown: &[u8] = if number == 1 { &UNKNOWN } else { &[] };
        encode_key(number, wire_type, &mut out);
        encode_varint((content.len() + unknown.len()) as u64, &mut out);
        out.extend_from_slice(content);
        out.extend_from_slice(unknown);
    }
    out.extend_from_slice(&UNKNOWN);
    out
}

#[test]
fn fields_of_a_newer_tensorflow_are_kept() {
    let (_, model) = read(Path::new("testdata/mnist_cnn.meta"));
    let content = with_unknown_fields(model.graph_def());
    let model = Model::from_bytes("newer", content.clone(), &ReadOptions::default()).unwrap();
    let (plan, edits) = plan(&model);
    assert!(!plan.swaps.is_empty());
    let rewritten = model.edited(&edits, Encoding::Binary).unwrap().to_vec();
    let count = |bytes: &[u8]| bytes.windows(4).filter(|window| *window == [0xfa, 0x7e, 1, b'?']).count();
    assert_eq!(count(&rewritten), count(&content));
    let rewritten = Model::from_bytes("rewritten", rewritten, &ReadOptions::default()).unwrap();
    let edits = rewrite::strip(&rewritten).unwrap();
    assert!(rewritten.edited(&edits, Encoding::Binary).unwrap().to_vec() == content);
    // What would lose them is refused.
    let lossy = model.edited(&Edits::default(), Encoding::Text);
    assert!(matches!(lossy, Err(FormatError::LossyConversion { .. })));
}

#[test]
fn unknown_fields_in_text_are_kept() {
    let text = fs::read_to_string("testdata/mnist_cnn_text.pbtxt").unwrap();
    let text = text.replacen("    name: ", "    of_the_future { deep: [1, 2] }\n    name: ", 3);
    let model = Model::from_bytes("newer", text.clone().into_bytes(), &ReadOptions::default()).unwrap();
    let (_, edits) = plan(&model);
    let rewritten = model.edited(&edits, Encoding::Text).unwrap().to_vec();
    assert_eq!(String::from_utf8_lossy(&rewritten).matches("of_the_future").count(), 3);
    let rewritten = Model::from_bytes("rewritten", rewritten, &ReadOptions::default()).unwrap();
    let edits = rewrite::strip(&rewritten).unwrap();
    assert!(rewritten.edited(&edits, Encoding::Text).unwrap().to_vec() == text.into_bytes());
    let lossy = model.edited(&Edits::default(), Encoding::Binary);
    assert!(matches!(lossy, Err(FormatError::LossyConversion { .. })));
}

#[test]
fn the_body_of_a_function_is_a_graph() {
    let (_, model) = read(Path::new("testdata/mnist_cnn_tf2/saved_model.pb"));
    let functions = model.functions().unwrap();
    let signatures = OpList { op: functions.iter().map(|function| function.signature.clone()).collect() };
    let registry = OpRegistry::with_extra(&signatures);
    let mut trains = false;
    for function in &functions {
        let graph = Graph::of_function(&model, function, &registry).unwrap();
        assert_eq!(graph.topological().len(), graph.len());
        trains |= graph.node_ids().any(|node| graph.op(node).name() == "Conv2DBackpropFilter");
    }
    assert!(trains, "{} functions", functions.len());
}

#[test]
fn nodes_in_a_list_are_nodes() {
    let text = "node: [{ name: \"a\" op: \"NoOp\" }, { name: \"b\" op: \"NoOp\" input: [\"^a\"] }] versions { producer: 7 }";
    let model = Model::from_bytes("list", text.into(), &ReadOptions::default()).unwrap();
    assert_eq!(model.nodes().len(), 2);
    let mut edits = Edits::default();
    edits.inputs.insert(1, vec!["^a".into(), "^c".into()]);
    let c = tf_lms::proto::tensorflow::NodeDef { name: "c".into(), op: "NoOp".into(), ..Default::default() };
    edits.added.push(c);
    let edited = model.edited(&edits, Encoding::Text).unwrap().to_vec();
    let edited = Model::from_bytes("edited", edited, &ReadOptions::default()).unwrap();
    let nodes: Vec<String> = (0..3)
        .map(|node| {
            format!("{} {:?}", edited.nodes().name(node), edited.nodes().inputs(node).collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(nodes, ["a []", "b [\"^a\", \"^c\"]", "c []"]);
}

#[test]
fn what_is_cut_off_or_flipped_is_an_error_or_another_graph_but_never_a_panic() {
    for name in ["mnist_cnn.meta", "mnist_cnn_noshapes.pb", "mnist_cnn_text.pbtxt"] {
        let content = fs::read(Path::new("testdata").join(name)).unwrap();
        let open = |content: Vec<u8>| {
            let model = Model::from_bytes(name, content, &ReadOptions::default())?;
            let _ = model.meta_graph()?;
            if Graph::of_model(&model, OpRegistry::builtin()).is_ok() {
                let _ = plan(&model);
            }
            Ok::<(), FormatError>(())
        };
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let _ = open(content[..random.usize(..content.len())].to_vec());
            let mut flipped = content.clone();
            for _ in 0..1 + random.usize(..4) {
                let place = random.usize(..flipped.len());
                flipped[place] ^= 1 << random.u32(..8);
            }
            let _ = open(flipped);
        }
        let cut = content[..content.len() / 2].to_vec();
        let error = open(cut).unwrap_err().to_string();
        assert!(error.starts_with(name), "{error}");
    }
}

#[test]
fn sources_are_files_and_directories() {
    let read = |path: &str| Source::Path(path.into()).read(&ReadOptions::default());
    assert!(matches!(read("testdata/no_such_file"), Err(FormatError::Read { .. })));
    assert!(matches!(read("testdata"), Err(FormatError::NoSavedModel { .. })));
    assert!(read("testdata/mnist_cnn.meta").is_ok());
}
