//! Random training graphs: a forward part with skips and branches, its gradients, and updates of variables; beside them an evaluation and a
//! gradient that nobody uses.

use std::collections::BTreeMap;

use fastrand::Rng;
use tf_lms::dtype::DataType;
use tf_lms::proto::tensorflow::attr_value::Value;

use super::made_up::{GraphBuilder, shape_proto, type_value};

const SHAPE: &[i64] = &[128, 128];

/// The op that a step is run for.
pub const TRAIN_OP: &str = "train";

enum Layer {
    Relu {
        output: String,
        input: String,
    },
    Tanh {
        output: String,
        input: String,
    },
    Add {
        output: String,
        inputs: [String; 2],
    },
    Mul {
        output: String,
        inputs: [String; 2],
    },
    MatMul {
        output: String,
        input: String,
        weights: String,
        /// What is trained, if anything is.
        variable: Option<String>,
    },
    /// One op or another, as batch normalization is where a placeholder says whether the model learns.
    Choice {
        output: String,
        input: String,
        chosen: String,
        predicate: String,
    },
}

struct Maker {
    rng: Rng,
    builder: GraphBuilder,
    updates: Vec<String>,
    /// What chooses branches.
    predicates: Vec<String>,
}

/// A graph with so many layers.
pub fn random_training_graph(seed: u64, layers: usize) -> Vec<u8> {
    let builder = GraphBuilder { device: "/device:GPU:0".to_string(), ..GraphBuilder::default() };
    let mut maker = Maker { rng: Rng::with_seed(seed), builder, updates: Vec::new(), predicates: Vec::new() };
    let float = type_value(DataType::FLOAT);
    let shape = Value::Shape(shape_proto(SHAPE));
    let input = maker.builder.add("Placeholder", &[], vec![("dtype", float), ("shape", shape)], &[SHAPE]);
    let rate = maker.builder.add(
        "Placeholder",
        &[],
        vec![("dtype", type_value(DataType::FLOAT)), ("shape", Value::Shape(shape_proto(&[])))],
        &[&[]],
    );
    // Of what all needs anyway.
    let shape_of = |maker: &mut Maker| {
        let attrs = vec![("T", type_value(DataType::FLOAT)), ("out_type", type_value(DataType::INT32))];
        maker.builder.add("Size", &[&input], attrs, &[&[]])
    };
    for op in ["Greater", "Less"] {
        let sizes = [shape_of(&mut maker), shape_of(&mut maker)];
        let attrs = vec![("T", type_value(DataType::INT32))];
        let predicate = maker.builder.add(op, &[&sizes[0], &sizes[1]], attrs, &[&[]]);
        maker.predicates.push(predicate);
    }
    let mut tensors = vec![maker.op("Exp", &[&input])];
    let made: Vec<Layer> = (0..layers).map(|_| maker.layer(&mut tensors)).collect();
    let last = tensors.last().cloned().unwrap_or(input);
    maker.op("Softplus", &[&last]);
    let first_gradient = maker.op("OnesLike", &[&last]);
    let mut gradients: BTreeMap<String, Vec<String>> = BTreeMap::from([(last, vec![first_gradient])]);
    for layer in made.iter().rev() {
        maker.gradient(layer, &mut gradients, &rate);
    }
    // What nobody uses.
    for gradient in gradients.values().flatten().cloned().collect::<Vec<_>>() {
        maker.op("Neg", &[&gradient]);
    }
    let updates: Vec<String> = maker.updates.iter().map(|update| format!("^{update}")).collect();
    let inputs: Vec<&str> = updates.iter().map(String::as_str).collect();
    maker.builder.add("NoOp", &inputs, Vec::new(), &[]);
    if let Some(train) = maker.builder.nodes.last_mut() {
        train.name = TRAIN_OP.to_string();
    }
    maker.builder.encode()
}

impl Maker {
    fn op(&mut self, op: &str, inputs: &[&str]) -> String {
        self.builder.add(op, inputs, vec![("T", type_value(DataType::FLOAT))], &[SHAPE])
    }

    /// A tensor in two branches.
    fn switch(&mut self, tensor: &str, predicate: &str) -> [String; 2] {
        let attrs = vec![("T", type_value(DataType::FLOAT))];
        let switch = self.builder.add("Switch", &[tensor, predicate], attrs, &[SHAPE, SHAPE]);
        [switch.clone(), format!("{switch}:1")]
    }

    fn merge(&mut self, off: &str, on: &str) -> String {
        let attrs = vec![("T", type_value(DataType::FLOAT)), ("N", Value::I(2))];
        self.builder.add("Merge", &[off, on], attrs, &[SHAPE, &[]])
    }

    fn layer(&mut self, tensors: &mut Vec<String>) -> Layer {
        let input = tensors[tensors.len() - 1].clone();
        let other = tensors[self.rng.usize(..tensors.len())].clone();
        let layer = match self.rng.usize(..8) {
            0 | 1 => Layer::Relu { output: self.op("Relu", &[&input]), input },
            2 => Layer::Tanh { output: self.op("Tanh", &[&input]), input },
            3 => Layer::Add { output: self.op("AddV2", &[&input, &other]), inputs: [input, other] },
            4 => Layer::Mul { output: self.op("Mul", &[&input, &other]), inputs: [input, other] },
            5 | 6 => {
                let predicate = self.predicates[self.rng.usize(..self.predicates.len())].clone();
                let [off, on] = self.switch(&input, &predicate);
                let (off, chosen) = (self.op("Neg", &[&off]), self.op("Elu", &[&on]));
                let output = self.merge(&off, &chosen);
                Layer::Choice { output, input, chosen, predicate }
            }
            _ => {
                let dtype = || ("dtype", type_value(DataType::FLOAT));
                let shape = ("shape", Value::Shape(shape_proto(SHAPE)));
                // Two in three are not trained.
                let kind = self.rng.usize(..3);
                let (variable, weights) = if kind == 0 {
                    (None, self.builder.add("Const", &[], vec![dtype()], &[SHAPE]))
                } else {
                    let variable = self.builder.add("VarHandleOp", &[], vec![dtype(), shape], &[&[]]);
                    let weights = self.builder.add("ReadVariableOp", &[&variable], vec![dtype()], &[SHAPE]);
                    (Some(variable).filter(|_| kind == 1), weights)
                };
                let output = self.op("MatMul", &[&input, &weights]);
                Layer::MatMul { output, input, weights, variable }
            }
        };
        let (Layer::Relu { output, .. }
        | Layer::Tanh { output, .. }
        | Layer::Add { output, .. }
        | Layer::Mul { output, .. }
        | Layer::MatMul { output, .. }
        | Layer::Choice { output, .. }) = &layer;
        tensors.push(output.clone());
        layer
    }

    fn gradient(&mut self, layer: &Layer, gradients: &mut BTreeMap<String, Vec<String>>, rate: &str) {
        let (Layer::Relu { output, .. }
        | Layer::Tanh { output, .. }
        | Layer::Add { output, .. }
        | Layer::Mul { output, .. }
        | Layer::MatMul { output, .. }
        | Layer::Choice { output, .. }) = layer;
        let Some(parts) = gradients.remove(output) else { return };
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let float = || type_value(DataType::FLOAT);
        let sum = match parts[..] {
            [only] => only.to_string(),
            _ => {
                let attrs = vec![("T", float()), ("N", Value::I(parts.len() as i64))];
                self.builder.add("AddN", &parts, attrs, &[SHAPE])
            }
        };
        let mut give = |tensor: &str, gradient: String| {
            gradients.entry(tensor.to_string()).or_default().push(gradient);
        };
        match layer {
            Layer::Relu { output, input } => give(input, self.op("ReluGrad", &[&sum, output])),
            Layer::Tanh { output, input } => give(input, self.op("TanhGrad", &[output, &sum])),
            Layer::Add { inputs, .. } => inputs.iter().for_each(|input| give(input, sum.clone())),
            Layer::Mul { inputs: [a, b], .. } => {
                give(a, self.op("Mul", &[&sum, b]));
                give(b, self.op("Mul", &[&sum, a]));
            }
            Layer::Choice { input, chosen, predicate, .. } => {
                let [off, on] = self.switch(&sum, predicate);
                let read = if self.rng.bool() { chosen } else { input };
                let (off, on) = (self.op("Neg", &[&off]), self.op("EluGrad", &[&on, read]));
                give(input, self.merge(&off, &on));
            }
            Layer::MatMul { input, weights, variable, .. } => {
                let of_input = vec![("T", float()), ("transpose_b", Value::B(true))];
                give(input, self.builder.add("MatMul", &[&sum, weights], of_input, &[SHAPE]));
                let Some(variable) = variable else { return };
                let of_weights = vec![("T", float()), ("transpose_a", Value::B(true))];
                let gradient = self.builder.add("MatMul", &[input, &sum], of_weights, &[SHAPE]);
                let update = ["ResourceApplyGradientDescent"];
                let inputs = [variable.as_str(), rate, &gradient];
                self.updates.push(self.builder.add(update[0], &inputs, vec![("T", float())], &[]));
            }
        }
    }
}

/// So many cheap ops in a row on a GPU. The last also reads the one in the middle, and one behind that, for a moment, leaves no
/// room for it.
pub fn long_chain(length: usize) -> Vec<u8> {
    let builder = GraphBuilder { device: "/device:GPU:0".to_string(), ..GraphBuilder::default() };
    let mut maker = Maker { rng: Rng::with_seed(0), builder, updates: Vec::new(), predicates: Vec::new() };
    let shape = Value::Shape(shape_proto(SHAPE));
    let float = ("dtype", type_value(DataType::FLOAT));
    let mut last = maker.builder.add("Placeholder", &[], vec![float, ("shape", shape)], &[SHAPE]);
    let (mut middle, mut side) = (last.clone(), last.clone());
    for place in 0..length {
        last = match place == length * 3 / 4 + 10 {
            true => maker.op("AddV2", &[&last, &side]),
            false => maker.op("Relu", &[&last]),
        };
        if place == length / 2 {
            middle.clone_from(&last);
        } else if place == length * 3 / 4 {
            side.clone_from(&last);
        }
    }
    maker.op("AddV2", &[&last, &middle]);
    if let Some(train) = maker.builder.nodes.last_mut() {
        train.name = TRAIN_OP.to_string();
    }
    maker.builder.encode()
}
