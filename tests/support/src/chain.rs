//! A training graph for which swapping gains much, and in which all sizes are free: a chain of `Tanh` and its gradients.

use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::proto::tensorflow::{GraphDef, TensorProto};

use super::graphs::{Nodes, attr_type, shape};

/// What to tell `lms-train` of it, as it is a bare GraphDef.
pub const FLAGS: [&str; 6] = ["--train-op", "train", "--loss", "loss", "--init-op", "init"];

const FLOAT: i32 = 1;
const INT32: i32 = 3;

/// The graph. Each image is `[height, width, 1]`. The gradient of each `Tanh` reads its output, so all of them are in memory when
/// the way back begins.
pub fn chain(length: usize) -> GraphDef {
    let float = || ("T", attr_type(FLOAT));
    let reduction = || [float(), ("Tidx", attr_type(INT32)), ("keep_dims", Value::B(false))];
    let variable = || ("dtype", attr_type(FLOAT));
    let mut nodes = Nodes::default();
    nodes.placeholder("images", &[-1, -1, -1, 1]);
    nodes.add("one", "Const", &[], &[variable(), ("value", floats(1.0))]);
    nodes.add("all", "Const", &[], &[("dtype", attr_type(INT32)), ("value", axes(4))]);
    nodes.add("scale", "VarHandleOp", &[], &[variable(), ("shape", Value::Shape(shape(&[])))]);
    nodes.add("init", "AssignVariableOp", &["scale", "one"], &[variable()]);
    nodes.add("scale/read", "ReadVariableOp", &["scale"], &[variable()]);
    nodes.add("tanh0", "Mul", &["images", "scale/read"], &[float()]);
    for layer in 1..=length {
        nodes.add(&format!("tanh{layer}"), "Tanh", &[&format!("tanh{}", layer - 1)], &[float()]);
    }
    let last = format!("tanh{length}");
    nodes.add("loss", "Mean", &[&last, "all"], &reduction());
    nodes.add(&format!("gradient{length}"), "OnesLike", &[&last], &[float()]);
    for layer in (0..length).rev() {
        let (output, gradient) = (format!("tanh{}", layer + 1), format!("gradient{}", layer + 1));
        nodes.add(&format!("gradient{layer}"), "TanhGrad", &[&output, &gradient], &[float()]);
    }
    nodes.add("gradient/scaled", "Mul", &["gradient0", "images"], &[float()]);
    nodes.add("gradient/scale", "Mean", &["gradient/scaled", "all"], &reduction());
    nodes.add("train", "AssignSubVariableOp", &["scale", "gradient/scale"], &[variable()]);
    nodes.graph()
}

fn floats(value: f32) -> Value {
    let tensor = TensorProto {
        dtype: FLOAT,
        tensor_shape: Some(shape(&[])),
        float_val: vec![value],
        ..TensorProto::default()
    };
    Value::Tensor(tensor)
}

/// The numbers of so many dimensions.
fn axes(rank: i32) -> Value {
    let tensor = TensorProto {
        dtype: INT32,
        tensor_shape: Some(shape(&[i64::from(rank)])),
        int_val: (0..rank).collect(),
        ..TensorProto::default()
    };
    Value::Tensor(tensor)
}
