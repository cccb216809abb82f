//! Random graphs with everything that makes rewriting hard: control edges, branches, loops, devices, ref variables, host
//! memory, nodes in any order.

use fastrand::Rng;
use prost::Message;
use tf_lms::dtype::DataType;
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::proto::tensorflow::{GraphDef, NodeDef, TensorProto};

use super::made_up::{GraphBuilder, shape_proto, type_value};

const SHAPE: &[i64] = &[4, 8];
const DEVICES: [&str; 4] = ["", "/device:GPU:0", "/job:localhost/replica:0/task:0/device:GPU:1", "/cpu:0"];

/// The op that a step of each random graph is run for.
pub const TRAIN_OP: &str = "train";

/// A random graph of about so many nodes.
pub fn random_graph(seed: u64, size: usize) -> Vec<u8> {
    let mut maker =
        Maker { rng: Rng::with_seed(seed), builder: GraphBuilder::default(), variables: Vec::new() };
    let shape = Value::Shape(shape_proto(SHAPE));
    let input = maker.add(
        "Placeholder",
        &[],
        vec![("dtype", type_value(DataType::FLOAT)), ("shape", shape)],
        &[SHAPE],
    );
    let predicate = Value::Shape(shape_proto(&[]));
    let choice = maker.add(
        "Placeholder",
        &[],
        vec![("dtype", type_value(DataType::BOOL)), ("shape", predicate)],
        &[&[]],
    );
    let mut scope = Scope { tensors: vec![input], ops: Vec::new(), choices: vec![choice] };
    while maker.builder.nodes.len() < size {
        maker.step(&mut scope, 0);
    }
    maker.update_variables(&mut scope);
    maker.finish(&scope);
    let mut nodes = maker.builder.nodes;
    maker.rng.shuffle(&mut nodes);
    GraphDef { node: nodes, ..GraphDef::default() }.encode_to_vec()
}

/// The op of an input.
fn op_of(input: &str) -> &str {
    input.split(':').next().unwrap_or(input)
}

/// What can be read or waited for at one place.
#[derive(Clone)]
struct Scope {
    /// Inputs of type float and of the one shape.
    tensors: Vec<String>,
    /// Names of ops.
    ops: Vec<String>,
    /// Inputs of type bool.
    choices: Vec<String>,
}

struct Maker {
    rng: Rng,
    builder: GraphBuilder,
    variables: Vec<String>,
}

impl Maker {
    fn add(&mut self, op: &str, inputs: &[&str], attrs: Vec<(&str, Value)>, shapes: &[&[i64]]) -> String {
        self.builder.device = DEVICES[self.rng.usize(..DEVICES.len())].to_string();
        self.builder.add(op, inputs, attrs, shapes)
    }

    fn float(&mut self, op: &str, inputs: &[&str]) -> String {
        self.add(op, inputs, vec![("T", type_value(DataType::FLOAT))], &[SHAPE])
    }

    fn last(&mut self) -> &mut NodeDef {
        self.builder.nodes.last_mut().expect("a node was just added")
    }

    /// One of the tensors, the newest ones more often.
    fn pick(&mut self, scope: &Scope) -> String {
        let count = scope.tensors.len();
        let back = if self.rng.bool() { self.rng.usize(..count.min(3)) } else { self.rng.usize(..count) };
        scope.tensors[count - 1 - back].clone()
    }

    fn step(&mut self, scope: &mut Scope, depth: usize) {
        let a = self.pick(scope);
        let b = self.pick(scope);
        match self.rng.usize(..14) {
            0..=3 => {
                let name = self.float("Relu", &[&a]);
                self.publish(scope, name);
            }
            4..=6 => {
                let name = self.float("AddV2", &[&a, &b]);
                self.publish(scope, name);
            }
            7 => {
                let name = self.float("Identity", &[&a]);
                self.publish(scope, name);
            }
            8 => {
                // An output in host memory, which must never be swapped.
                let out = ("out_type", type_value(DataType::INT32));
                let shape = self.add("Shape", &[&a], vec![("T", type_value(DataType::FLOAT)), out], &[&[2]]);
                let index = ("Tshape", type_value(DataType::INT32));
                let reshaped = self.add(
                    "Reshape",
                    &[&a, &shape],
                    vec![("T", type_value(DataType::FLOAT)), index],
                    &[SHAPE],
                );
                self.publish(scope, reshaped);
            }
            9 => {
                let axis = self.constant(&a);
                let count = ("num_split", Value::I(2));
                let attrs = vec![("T", type_value(DataType::FLOAT)), count];
                let split = self.add("Split", &[&axis, &a], attrs, &[SHAPE, SHAPE]);
                scope.tensors.push(format!("{split}:1"));
                self.publish(scope, split);
            }
            10 => {
                let name = self.add("NoOp", &[&format!("^{}", op_of(&a))], vec![], &[]);
                scope.ops.push(name);
            }
            11 if depth == 0 => self.read_variable(scope),
            12 if depth < 3 => self.branch(scope, depth),
            13 if depth < 2 => self.repeat(scope, depth),
            _ => {}
        }
    }

    /// Gives a new op some control inputs and lets others read it.
    fn publish(&mut self, scope: &mut Scope, name: String) {
        while !scope.ops.is_empty() && self.rng.usize(..4) == 0 {
            let from = scope.ops[self.rng.usize(..scope.ops.len())].clone();
            if from != name {
                self.last().input.push(format!("^{from}"));
            }
        }
        scope.ops.push(name.clone());
        scope.tensors.push(name);
    }

    /// A constant at the place of a tensor: in its branch and its loop.
    fn constant(&mut self, tensor: &str) -> String {
        let place = format!("^{}", op_of(tensor));
        let value = TensorProto {
            dtype: DataType::INT32.number(),
            int_val: vec![0],
            tensor_shape: Some(shape_proto(&[])),
            ..TensorProto::default()
        };
        let attrs = vec![("dtype", type_value(DataType::INT32)), ("value", Value::Tensor(value))];
        self.add("Const", &[&place], attrs, &[&[]])
    }

    fn read_variable(&mut self, scope: &mut Scope) {
        let attrs = vec![("dtype", type_value(DataType::FLOAT)), ("shape", Value::Shape(shape_proto(SHAPE)))];
        let variable = self.add("VariableV2", &[], attrs, &[SHAPE]);
        let device = self.last().device.clone();
        let read = self.float("Identity", &[&variable]);
        self.last().device = device;
        let tensor = self.pick(scope);
        let sum = self.float("AddV2", &[&read, &tensor]);
        self.variables.push(variable);
        self.publish(scope, sum);
    }

    /// Updates each variable with something that may or may not depend on its readers.
    fn update_variables(&mut self, scope: &mut Scope) {
        for variable in std::mem::take(&mut self.variables) {
            let value = self.pick(scope);
            let update = self.float("Assign", &[&variable, &value]);
            scope.ops.push(update);
        }
    }

    /// The op that needs some of the updates and some of the rest.
    fn finish(&mut self, scope: &Scope) {
        let needed: Vec<String> =
            scope.ops.iter().filter(|_| self.rng.u8(..3) > 0).map(|op| format!("^{op}")).collect();
        let needed: Vec<&str> = needed.iter().map(String::as_str).collect();
        self.add("NoOp", &needed, vec![], &[]);
        self.last().name = TRAIN_OP.to_string();
    }

    /// `tf.cond` as TensorFlow 1 writes it.
    fn branch(&mut self, scope: &mut Scope, depth: usize) {
        let choice = scope.choices[self.rng.usize(..scope.choices.len())].clone();
        let predicate = self.add("Identity", &[&choice], vec![("T", type_value(DataType::BOOL))], &[&[]]);
        let mut sides = Vec::new();
        let used: Vec<String> = (0..1 + self.rng.usize(..2)).map(|_| self.pick(scope)).collect();
        let switches: Vec<String> = used
            .iter()
            .map(|tensor| {
                let attrs = vec![("T", type_value(DataType::FLOAT))];
                self.add("Switch", &[tensor, &predicate], attrs, &[SHAPE, SHAPE])
            })
            .collect();
        for side in 0..2 {
            let tensors =
                switches.iter().map(|switch| if side == 0 { switch.clone() } else { format!("{switch}:1") });
            let attrs = vec![("T", type_value(DataType::BOOL))];
            let inner_choice =
                self.add("Switch", &[&scope.choices[0].clone(), &predicate], attrs, &[&[], &[]]);
            let inner_choice = if side == 0 { inner_choice } else { format!("{inner_choice}:1") };
            let mut inner =
                Scope { tensors: tensors.collect(), ops: Vec::new(), choices: vec![inner_choice] };
            for _ in 0..self.rng.usize(..5) {
                self.step(&mut inner, depth + 1);
            }
            sides.push(self.pick(&inner));
        }
        let attrs = vec![("T", type_value(DataType::FLOAT)), ("N", Value::I(2))];
        let merge = self.add("Merge", &[&sides[0], &sides[1]], attrs, &[SHAPE, &[]]);
        self.publish(scope, merge);
    }

    /// `tf.while_loop` as TensorFlow 1 writes it.
    fn repeat(&mut self, scope: &mut Scope, depth: usize) {
        let frame = format!("frame_{}", self.builder.nodes.len());
        let first = self.pick(scope);
        let choice = scope.choices[self.rng.usize(..scope.choices.len())].clone();
        let enter = |constant: bool, dtype: DataType| {
            vec![
                ("T", type_value(dtype)),
                ("frame_name", Value::S(frame.clone().into_bytes())),
                ("is_constant", Value::B(constant)),
            ]
        };
        let entered = self.add("Enter", &[&first], enter(false, DataType::FLOAT), &[SHAPE]);
        let entered_choice = self.add("Enter", &[&choice], enter(true, DataType::BOOL), &[&[]]);
        let attrs = vec![("T", type_value(DataType::FLOAT)), ("N", Value::I(2))];
        // The second input is the NextIteration that does not exist yet.
        let head = self.add("Merge", &[&entered, &entered], attrs, &[SHAPE, &[]]);
        let head_place = self.builder.nodes.len() - 1;
        let condition = self.add("LoopCond", &[&entered_choice], vec![], &[&[]]);
        let float = vec![("T", type_value(DataType::FLOAT))];
        let switch = self.add("Switch", &[&head, &condition], float, &[SHAPE, SHAPE]);
        let body_input = self.float("Identity", &[&format!("{switch}:1")]);
        let mut inner =
            Scope { tensors: vec![body_input.clone()], ops: vec![body_input], choices: vec![entered_choice] };
        for _ in 0..self.rng.usize(..4) {
            self.step(&mut inner, depth + 1);
        }
        let last = self.pick(&inner);
        let next = self.float("NextIteration", &[&last]);
        self.builder.nodes[head_place].input[1] = next;
        let exit = self.float("Exit", &[&switch]);
        self.publish(scope, exit);
    }
}
