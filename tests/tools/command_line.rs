//! `lms-rewrite` as its users meet it: what it prints, what it writes, how it fails.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use prost::Message;
use serde_json::Value;
use tempfile::TempDir;
use tf_lms::proto::tensorflow::attr_value::{ListValue, Value as AttrKind};
use tf_lms::proto::tensorflow::op_def::ArgDef;
use tf_lms::proto::tensorflow::tensor_info::Encoding;
use tf_lms::proto::tensorflow::{
    AttrValue, FunctionDef, FunctionDefLibrary, GraphDef, MetaGraphDef, NameAttrList, NodeDef, OpDef,
    SavedModel, SignatureDef, TensorInfo,
};

const MODEL: &str = "testdata/mnist_cnn.meta";

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(lms_testing::tool("lms-rewrite"));
    command.args(arguments).env_remove("LMS_TENSORFLOW").output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs what must succeed.
fn succeed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

/// Runs what must fail with exit status 1 and one line that says so; writes nothing.
fn fail(arguments: &[&str], directory: &TempDir) -> String {
    let before = listing(directory.path());
    let output = run(arguments);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
    assert!(message.starts_with("lms-rewrite: "), "{message}");
    // One error; the checker lists what it found below it.
    assert!(message.trim_end().lines().skip(1).all(|line| line.starts_with("  ")), "{message}");
    assert!(output.stdout.is_empty());
    assert_eq!(listing(directory.path()), before, "{arguments:?}");
    message
}

/// All files below a directory with their content.
fn listing(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(listing(&path));
        } else {
            files.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

/// A temporary directory and a way to name files in it.
fn scratch() -> (TempDir, impl Fn(&str) -> String) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().to_path_buf();
    (directory, move |name: &str| path.join(name).display().to_string())
}

#[test]
fn rewrites_checks_and_reports() {
    let (_directory, at) = scratch();
    let text = succeed(&[MODEL, "-o", &at("out.meta")]);
    for fact in ["391 nodes", "levels", "swapped out", "largest op", "learning parameters", "computes what"] {
        assert!(text.contains(fact), "no {fact:?} in:\n{text}");
    }
    let verified = succeed(&["--verify-against", MODEL, &at("out.meta")]);
    assert!(verified.contains("computes what"), "{verified}");
    succeed(&["--strip", &at("out.meta"), "-o", &at("stripped.meta")]);
    assert_eq!(fs::read(at("stripped.meta")).unwrap(), fs::read(MODEL).unwrap());
}

#[test]
fn what_variables_begin_with_is_rewritten_and_restored() {
    let (_directory, at) = scratch();
    let model = "testdata/resnet50_64_b2.meta";
    let budget = ["--gpu-mem", "233MiB", "--memory-ratio", "1", "--device-profile", "soft"];
    let text = succeed(&[&[model, "-o", &at("out.meta")][..], &budget].concat());
    assert!(text.contains("480 initial values"), "{text}");
    let verified = succeed(&["--verify-against", model, &at("out.meta")]);
    assert!(verified.contains("480 initial values by way of the host"), "{verified}");
    succeed(&["--strip", &at("out.meta"), "-o", &at("stripped.meta")]);
    assert!(fs::read(at("stripped.meta")).unwrap() == fs::read(model).unwrap());
}

#[test]
fn json_has_all_documented_keys() {
    let json: Value = serde_json::from_str(&succeed(&[MODEL, "--dry-run", "--json"])).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(
        keys(&json),
        "control_edges devices input largest_op notes output parameters schema seconds strategy swapin_bytes swapins \
         swapout_bytes swapouts verified"
    );
    assert_eq!(keys(&json["input"]), "edges encoding kind levels nodes parameter_bytes unknown_size_tensors");
    assert_eq!(keys(&json["seconds"]), "analyze plan read rewrite size total verify write");
    assert_eq!(keys(&json["devices"][0]), "device swapin_bytes swapins swapout_bytes swapouts");
    assert_eq!(keys(&json["largest_op"]), "bytes name op");
    assert_eq!(json["schema"], 1);
    assert_eq!(json["output"], Value::Null);
    assert_eq!(json["verified"], true);
    assert_eq!(json["parameters"]["swapout_threshold"], 1);
    assert_eq!(json["input"]["nodes"], 391);
    assert_eq!(json["input"]["parameter_bytes"], 4 * 3_274_634);
    assert_eq!(json["swapouts"], json["devices"][0]["swapouts"]);
}

#[test]
fn two_runs_write_the_same_bytes() {
    let (_directory, at) = scratch();
    for name in ["a", "b"] {
        let plan = at(&format!("{name}.json"));
        succeed(&["testdata/resnet50_64_b2.meta", "-o", &at(name), "--plan-out", &plan, "--sync-mode", "3"]);
    }
    assert_eq!(fs::read(at("a")).unwrap(), fs::read(at("b")).unwrap());
    assert_eq!(fs::read(at("a.json")).unwrap(), fs::read(at("b.json")).unwrap());
}

#[test]
fn a_plan_can_be_carried_out_later() {
    let (_directory, at) = scratch();
    succeed(&[MODEL, "-o", &at("direct"), "--plan-out", &at("plan.json"), "--swapout-threshold", "5"]);
    succeed(&[MODEL, "-o", &at("planned"), "--plan", &at("plan.json")]);
    assert_eq!(fs::read(at("direct")).unwrap(), fs::read(at("planned")).unwrap());
}

/// 82 tensors and 145 swap-ins are what TFLMS 1's own code comes to on this graph.
#[test]
fn the_first_tflms_is_a_strategy_too() {
    let (_directory, at) = scratch();
    let model = "testdata/googlenet_64_b2.meta";
    let (direct, plan) = (at("direct"), at("plan.json"));
    let flags = ["--strategy", "tflms-v1", "--lb", "1", "--n-tensors", "-1"];
    let written = [&[model, "-o", &direct, "--plan-out", &plan, "--json"], &flags[..]].concat();
    let report: Value = serde_json::from_str(&succeed(&written)).unwrap();
    assert_eq!((report["swapouts"].as_u64(), report["swapins"].as_u64()), (Some(82), Some(145)));
    assert_eq!((report["strategy"].as_str(), report["verified"].as_bool()), (Some("tflms-v1"), Some(true)));
    let parameters = &report["parameters"];
    assert_eq!((parameters["n_tensors"].as_i64(), parameters["ub"].as_i64()), (Some(-1), Some(10_000)));
    succeed(&[model, "-o", &at("carried_out"), "--plan", &at("plan.json")]);
    assert_eq!(fs::read(at("direct")).unwrap(), fs::read(at("carried_out")).unwrap());
    let few = succeed(&[model, "--dry-run", "--strategy", "tflms-v1", "--n-tensors", "3"]);
    assert!(few.contains("tflms-v1: n-tensors 3, lb 1, ub 10000"), "{few}");
}

#[test]
fn parameters_of_another_strategy_are_refused() {
    let v1 = ["--strategy", "tflms-v1"];
    let refused = |flags: &[&str], says: &str| {
        let output = run(&[&[MODEL, "--dry-run"], flags].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{flags:?}: {}", stderr(&output));
    };
    refused(&["--lb", "3"], "--lb is a parameter of --strategy tflms-v1");
    refused(
        &["--strategy", "tflms", "--fuse-swapins"],
        "--fuse-swapins is a parameter of --strategy tflms-v1",
    );
    refused(&["--gpu-mem", "1GiB", "--n-tensors", "3"], "--n-tensors is a parameter of --strategy tflms-v1");
    refused(&["--strategy", "planned"], "--strategy planned plans for a budget");
    refused(&[&v1[..], &["--swapout-threshold", "3"]].concat(), "knows none of TFLMSv2's thresholds");
    refused(&[&v1[..], &["--lb", "5", "--ub", "4"]].concat(), "lb 5 is above ub 4");
    refused(&[&v1[..], &["--gpu-mem", "1MiB", "--lb", "5", "--ub", "4"]].concat(), "lb 5 is above ub 4");
    refused(&[&v1[..], &["--n-tensors", "-2"]].concat(), "-2 is not in -1..");
    refused(&[&v1[..], &["--optimizer-scopes", "adam"]].concat(), "no op is in a scope of adam");
    refused(&["--strategy", "tflms-v3"], "planned, tflms, tflms-v1");
}

#[test]
fn pipes_carry_models() {
    let mut child = Command::new(lms_testing::tool("lms-rewrite"))
        .args(["-", "-o", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&fs::read(MODEL).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(stderr(&output).contains("swapped out"));
    let (_directory, at) = scratch();
    succeed(&[MODEL, "-o", &at("out")]);
    assert_eq!(output.stdout, fs::read(at("out")).unwrap());
}

#[test]
fn output_may_be_the_input() {
    let (_directory, at) = scratch();
    fs::copy(MODEL, at("model")).unwrap();
    succeed(&[&at("model"), "-o", &at("model")]);
    succeed(&["--verify-against", MODEL, &at("model")]);
    succeed(&["--strip", &at("model"), "-o", &at("model")]);
    assert_eq!(fs::read(at("model")).unwrap(), fs::read(MODEL).unwrap());
}

#[test]
fn text_stays_text_unless_told_otherwise() {
    let (_directory, at) = scratch();
    let text = "testdata/mnist_cnn_text.pbtxt";
    succeed(&[text, "-o", &at("out.pbtxt")]);
    assert!(fs::read_to_string(at("out.pbtxt")).unwrap().contains("name: \"lms/swap_in/"));
    succeed(&["--verify-against", text, &at("out.pbtxt")]);
    succeed(&[text, "-o", &at("out.meta"), "--output-format", "binary"]);
    succeed(&["--verify-against", text, &at("out.meta")]);
}

#[test]
fn devices_are_written_to_not_replaced() {
    succeed(&[MODEL, "-o", "/dev/null"]);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn saved_model_directories_keep_what_else_is_in_them() {
    let (_directory, at) = scratch();
    let saved_model = PathBuf::from(at("saved"));
    fs::create_dir_all(saved_model.join("variables")).unwrap();
    fs::write(saved_model.join("variables/variables.index"), "values").unwrap();
    fs::write(saved_model.join("fingerprint.pb"), "digest").unwrap();
    // A SavedModel is a version and MetaGraphDefs.
    let meta_graph = fs::read(MODEL).unwrap();
    let mut content = vec![0x08, 1];
    prost::encoding::bytes::encode(2, &meta_graph, &mut content);
    fs::write(saved_model.join("saved_model.pb"), &content).unwrap();

    let text = succeed(&[&at("saved"), "-o", &at("rewritten")]);
    assert!(text.contains("fingerprint.pb"), "{text}");
    assert_eq!(fs::read_to_string(at("rewritten/variables/variables.index")).unwrap(), "values");
    assert!(!Path::new(&at("rewritten/fingerprint.pb")).exists());
    assert!(saved_model.join("fingerprint.pb").exists());
    succeed(&["--verify-against", &at("saved"), &at("rewritten")]);
    // Again over what is there, and in place.
    succeed(&[&at("saved"), "-o", &at("rewritten")]);
    succeed(&["--strip", &at("rewritten"), "-o", &at("rewritten")]);
    assert_eq!(fs::read(at("rewritten/saved_model.pb")).unwrap(), content);
    // Never over something else.
    fs::create_dir(at("other")).unwrap();
    fs::write(at("other/precious"), "data").unwrap();
    let output = run(&[&at("saved"), "-o", &at("other")]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_to_string(at("other/precious")).unwrap(), "data");
}

#[test]
fn bad_files_are_one_clear_error_each() {
    let (directory, at) = scratch();
    let whole = fs::read(MODEL).unwrap();
    let text = fs::read_to_string("testdata/mnist_cnn_text.pbtxt").unwrap();
    let node = text.find("  node {").unwrap();
    let bad_line = text[..node].lines().count() + 2;
    let broken_text = format!("{}  node {{\n    name \"x\"\n  }}\n{}", &text[..node], &text[node..]);
    let syntax = format!(":{bad_line}:10: expected ':' or '{{'");
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty", Vec::new(), "the file is empty"),
        ("cut off", whole[..whole.len() / 2].to_vec(), "damaged or cut off"),
        (
            "noise",
            (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect(),
            "is no TensorFlow graph",
        ),
        ("prose", b"Once upon a time".to_vec(), ":1:6: expected ':' or '{'"),
        ("syntax", broken_text.into_bytes(), &syntax),
    ];
    for (name, content, message) in cases {
        fs::write(at(name), content).unwrap();
        let error = fail(&[&at(name), "-o", &at("out")], &directory);
        assert!(error.contains(message), "{name}: {error}");
        // The input is never touched, also where the output would replace it.
        fail(&[&at(name), "-o", &at(name)], &directory);
    }
    fs::create_dir(at("folder")).unwrap();
    assert!(fail(&[&at("folder"), "-o", &at("out")], &directory).contains("no SavedModel"));
    let error = fail(&[&at("missing"), "-o", &at("out")], &directory);
    assert!(error.contains("cannot be read") && error.matches("No such file").count() == 1, "{error}");
    let error = fail(&[MODEL, "-o", &at("no/such/folder/out")], &directory);
    assert!(error.contains("cannot be written"), "{error}");
}

fn node(name: &str, op: &str, inputs: &[&str]) -> NodeDef {
    let input = inputs.iter().map(|input| input.to_string()).collect();
    NodeDef { name: name.into(), op: op.into(), input, ..NodeDef::default() }
}

/// A node with an attribute.
fn with(mut node: NodeDef, name: &str, value: AttrKind) -> NodeDef {
    node.attr.insert(name.into(), AttrValue { value: Some(value) });
    node
}

fn relu(name: &str, inputs: &[&str]) -> NodeDef {
    with(node(name, "Relu", inputs), "T", AttrKind::Type(1))
}

fn placeholder(name: &str) -> NodeDef {
    with(node(name, "Placeholder", &[]), "dtype", AttrKind::Type(1))
}

#[test]
fn bad_graphs_are_one_clear_error_each() {
    let (directory, at) = scratch();
    let shape = ListValue {
        shape: vec![lms_testing::made_up::shape_proto(&[1 << 40, 1 << 40])],
        ..ListValue::default()
    };
    let huge = with(placeholder("huge"), "_output_shapes", AttrKind::List(shape));
    let many =
        with(with(node("many", "Split", &[]), "num_split", AttrKind::I(i64::MAX)), "T", AttrKind::Type(1));
    let nowhere = NodeDef { device: "/gpu".into(), ..node("a", "NoOp", &[]) };
    let cases: Vec<(&str, Vec<NodeDef>, &str)> = vec![
        ("cycle", vec![relu("a", &["b"]), relu("b", &["a"])], "wait for each other in a circle"),
        ("dangling", vec![relu("a", &["b"])], "reads \"b\", but no node has that name"),
        ("output", vec![placeholder("a"), relu("b", &["a:3"])], "has 1 outputs"),
        ("twice", vec![node("a", "NoOp", &[]), node("a", "NoOp", &[])], "two nodes are called \"a\""),
        ("unknown", vec![node("a", "NoSuchOp", &[])], "nothing defines its op \"NoSuchOp\""),
        ("unnamed", vec![node("", "NoOp", &[])], "has no name"),
        ("control first", vec![placeholder("a"), relu("b", &["^a", "a"])], "after a control input"),
        ("huge", vec![huge], "more than any memory"),
        ("many", vec![many], "more than 1048576"),
        ("untyped", vec![node("a", "Relu", &[])], "`T` is missing"),
        ("device", vec![nowhere], "is no device name"),
    ];
    for (name, nodes, message) in cases {
        fs::write(at(name), GraphDef { node: nodes, ..GraphDef::default() }.encode_to_vec()).unwrap();
        let error = fail(&[&at(name), "-o", &at("out")], &directory);
        assert!(error.contains(message), "{name}: {error}");
    }
}

/// A function of `x`, and of the variable `v`, that does this.
fn step(name: &str, nodes: Vec<NodeDef>, effect: &str) -> FunctionDef {
    let argument = |name: &str, dtype| ArgDef { name: name.into(), r#type: dtype, ..ArgDef::default() };
    FunctionDef {
        signature: Some(OpDef {
            name: name.into(),
            input_arg: vec![argument("x", 1), argument("v", 20)],
            output_arg: vec![argument("loss", 1)],
            control_output: vec![effect.into()],
            is_stateful: true,
            ..OpDef::default()
        }),
        node_def: nodes,
        ret: [("loss".into(), "x".into())].into(),
        control_ret: [(effect.to_string(), effect.to_string())].into(),
        ..FunctionDef::default()
    }
}

/// A call of a function of `x` and `v`.
fn call(name: &str, function: &str, inputs: &[&str]) -> NodeDef {
    let types = |types: &[i32]| AttrKind::List(ListValue { r#type: types.to_vec(), ..ListValue::default() });
    let called = NameAttrList { name: function.into(), ..NameAttrList::default() };
    let node = with(node(name, "StatefulPartitionedCall", inputs), "f", AttrKind::Func(called));
    with(with(node, "Tin", types(&[1, 20])), "Tout", types(&[1]))
}

#[test]
fn steps_that_cannot_be_flat_are_one_clear_error_each() {
    let (directory, at) = scratch();
    let update = || with(node("update", "AssignAddVariableOp", &["v", "x"]), "dtype", AttrKind::Type(1));
    let read = || with(node("read", "ReadVariableOp", &["v"]), "dtype", AttrKind::Type(1));
    let variable = |sizes: &[i64]| {
        let shape = AttrKind::Shape(lms_testing::made_up::shape_proto(sizes));
        with(with(node("w", "VarHandleOp", &[]), "dtype", AttrKind::Type(1)), "shape", shape)
    };
    let calling = |callee: &str| step("step", vec![call("inner", callee, &["x", "v"]), update()], "update");
    let cases = [
        (
            "recursive",
            vec![calling("other"), step("other", vec![call("back", "step", &["x", "v"])], "back")],
            variable(&[4]),
            "functions call each other in a circle, which no flat graph has: step → other → step",
        ),
        (
            "missing",
            vec![calling("nothing")],
            variable(&[4]),
            "calls \"nothing\", which the file does not have",
        ),
        (
            "idle",
            vec![step("step", vec![read()], "read")],
            variable(&[4]),
            "function \"step\" updates no variable: it is no training step",
        ),
        (
            "unknown",
            vec![step("step", vec![update()], "update")],
            variable(&[-1]),
            "the size of the variable of its argument \"v\" cannot be found",
        ),
    ];
    for (name, function, variable, message) in cases {
        let library = Some(FunctionDefLibrary { function, ..FunctionDefLibrary::default() });
        let nodes = vec![placeholder("images"), variable, call("Call", "step", &["images", "w"])];
        let graph = GraphDef { node: nodes, library, ..GraphDef::default() };
        let info = |name: &str| {
            let encoding = Some(Encoding::Name(name.to_string()));
            TensorInfo { dtype: 1, encoding, ..TensorInfo::default() }
        };
        let signature = SignatureDef {
            inputs: [("x".to_string(), info("images:0"))].into(),
            outputs: [("loss".to_string(), info("Call:0"))].into(),
            ..SignatureDef::default()
        };
        let meta_graph = MetaGraphDef {
            graph_def: Some(graph),
            signature_def: [("train".to_string(), signature)].into(),
            ..MetaGraphDef::default()
        };
        let saved = SavedModel { saved_model_schema_version: 1, meta_graphs: vec![meta_graph] };
        fs::create_dir(at(name)).unwrap();
        fs::write(Path::new(&at(name)).join("saved_model.pb"), saved.encode_to_vec()).unwrap();
        for choice in [["--signature", "train"], ["--function", "step"]] {
            let error = fail(&[&at(name), "-o", &at("out"), choice[0], choice[1]], &directory);
            assert!(error.trim_end().ends_with(message) && error.lines().count() == 1, "{name}: {error}");
            let mut tune = Command::new(lms_testing::tool("lms-tune"));
            let flags = ["--gpu-mem", "1GiB", "-o", &at("out"), choice[0], choice[1]];
            let output = tune.arg(at(name)).args(flags).env_remove("LMS_TENSORFLOW").output().unwrap();
            let error = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{name}: {error}");
            assert!(error.trim_end().ends_with(message) && error.lines().count() == 1, "{name}: {error}");
            assert!(!Path::new(&at("out")).exists());
        }
    }
}

#[test]
fn bad_plans_are_one_clear_error_each() {
    let (directory, at) = scratch();
    succeed(&[MODEL, "--dry-run", "--plan-out", &at("plan.json")]);
    let plan: Value = serde_json::from_slice(&fs::read(at("plan.json")).unwrap()).unwrap();
    let other = fail(&["testdata/cond_cnn.meta", "-o", &at("out"), "--plan", &at("plan.json")], &directory);
    assert!(other.contains("the plan is for another graph"), "{other}");
    let mut cases: Vec<(Value, &str)> = Vec::new();
    let mut changed = |change: &dyn Fn(&mut Value), message: &'static str| {
        let mut plan = plan.clone();
        change(&mut plan);
        cases.push((plan, message));
    };
    changed(&|plan| plan["schema"] = 99.into(), "schema 99");
    changed(&|plan| plan["swaps"][0]["tensor"] = "no_such:0".into(), "no such tensor");
    changed(&|plan| plan["swaps"][0]["tensor"] = "images:0".into(), "does not read it");
    changed(&|plan| plan["swaps"][1] = plan["swaps"][0].clone(), "twice");
    changed(&|plan| plan["swaps"][0]["swap_ins"][0]["consumers"][0] = "gone".into(), "no such node");
    changed(&|plan| plan["swaps"][0]["swap_ins"][0]["triggers"][0] = "gone".into(), "no such node");
    changed(&|plan| plan["host_device"] = "nowhere".into(), "no device name");
    changed(&|plan| plan["swaps"] = 7.into(), "is no plan");
    // A trigger that needs what it starts: the checker finds the cycle.
    changed(
        &|plan| {
            let consumer = plan["swaps"][0]["swap_ins"][0]["consumers"][0].clone();
            plan["swaps"][0]["swap_ins"][0]["triggers"][0] = consumer;
        },
        "cycle",
    );
    for (plan, message) in cases {
        fs::write(at("bad.json"), plan.to_string()).unwrap();
        let error = fail(&[MODEL, "-o", &at("out"), "--plan", &at("bad.json")], &directory);
        assert!(error.contains(message), "{message}: {error}");
    }
}

#[test]
fn a_rewritten_graph_is_not_rewritten_again() {
    let (directory, at) = scratch();
    succeed(&[MODEL, "-o", &at("once")]);
    let error = fail(&[&at("once"), "-o", &at("twice")], &directory);
    assert!(error.contains("--strip"), "{error}");
    let error = fail(&["--strip", MODEL, "-o", &at("out")], &directory);
    assert!(error.contains("has no LMS ops"), "{error}");
}

#[test]
fn the_checker_says_no() {
    let (directory, at) = scratch();
    succeed(&[MODEL, "-o", &at("good")]);
    let error = fail(&["--verify-against", "testdata/cond_cnn.meta", &at("good")], &directory);
    assert!(error.contains("does not compute what"), "{error}");
}

#[test]
fn wrong_usage_is_status_2() {
    for arguments in [
        &[MODEL][..],
        &["-o", "x"],
        &[MODEL, "-o", "-", "--json"],
        &[MODEL, "--sync-mode", "4", "--dry-run"],
        &[MODEL, "--serialization", "a:b", "--dry-run"],
        &[MODEL, "--serialization-by-size", "much", "--dry-run"],
        &[MODEL, "--no-such-flag"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn help_has_examples_and_shells_have_completions() {
    assert!(succeed(&["--help"]).contains("Examples:"));
    assert!(succeed(&["--completions", "bash"]).contains("lms-rewrite"));
    assert!(succeed(&["--man-page"]).contains(".TH"));
    assert!(succeed(&["--version"]).starts_with("lms-rewrite "));
}
