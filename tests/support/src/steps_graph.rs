//! Random graphs as people write them, that TensorFlow can run: one train op or several, on shared layers; ref and resource variables; moving
//! averages that are updated beside the step or before its gradients; random numbers, counters, branches, loops; and ops that no step
//! runs.

use std::collections::BTreeMap;

use fastrand::Rng;
use prost::Message;
use tf_lms::dtype::DataType;
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::proto::tensorflow::collection_def::{self, NodeList};
use tf_lms::proto::tensorflow::{
    CollectionDef, GraphDef, MetaGraphDef, TensorProto, VersionDef, meta_graph_def::MetaInfoDef,
};

use self::loops::Loop;
use super::made_up::{GraphBuilder, shape_proto, type_value};

mod loops;

const WIDTH: i64 = 32;
const SHAPE: &[i64] = &[WIDTH, WIDTH];

/// A graph and what can be done with it.
pub struct StepsGraph {
    /// A MetaGraphDef that names its train ops.
    pub meta_graph: Vec<u8>,
    pub train_ops: Vec<String>,
    /// Ops that give the variables their first values.
    pub init_ops: Vec<String>,
    /// Tensors that read the variables.
    pub variables: Vec<String>,
    /// The losses, which an evaluation fetches alone.
    pub losses: Vec<String>,
    /// Ops that are alive in each run and outside of all loops: anyone may be run alone.
    pub ops: Vec<String>,
    /// What is to be fed: the input, and the truth value that branches are chosen by.
    pub input: String,
    pub choice: String,
}

/// How a layer's gradient is computed.
enum Layer {
    /// By this op, from the output.
    Unary {
        output: String,
        input: String,
        gradient: &'static str,
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
        variable: usize,
    },
    Choice {
        output: String,
        input: String,
        chosen: String,
    },
    /// By a loop that takes off a stack what the layer's own loop kept there.
    Loop {
        output: String,
        input: String,
        own: Loop,
    },
    /// It has none but itself.
    Opaque {
        output: String,
        input: String,
    },
}

struct Variable {
    handle: String,
    read: String,
    is_ref: bool,
}

struct Maker {
    rng: Rng,
    builder: GraphBuilder,
    variables: Vec<Variable>,
    init_ops: Vec<String>,
    /// Updates of moving averages, and counters, of the layers so far.
    side_effects: Vec<String>,
    free_ops: Vec<String>,
    choice: String,
}

fn float() -> (&'static str, Value) {
    ("T", type_value(DataType::FLOAT))
}

/// A graph with about so many layers.
pub fn steps_graph(seed: u64, layers: usize) -> StepsGraph {
    let builder = GraphBuilder { device: "/device:GPU:0".to_string(), ..GraphBuilder::default() };
    let mut maker = Maker {
        rng: Rng::with_seed(seed),
        builder,
        variables: Vec::new(),
        init_ops: Vec::new(),
        side_effects: Vec::new(),
        free_ops: Vec::new(),
        choice: String::new(),
    };
    let dtype = |dtype: DataType| ("dtype", type_value(dtype));
    let shape = |shape: &[i64]| ("shape", Value::Shape(shape_proto(shape)));
    let input = maker.builder.add("Placeholder", &[], vec![dtype(DataType::FLOAT), shape(SHAPE)], &[SHAPE]);
    maker.choice = maker.builder.add("Placeholder", &[], vec![dtype(DataType::BOOL), shape(&[])], &[&[]]);
    let steps = 1 + maker.rng.usize(..3);
    // Of each step the tensors that it may go on from, and its layers.
    let mut trunk = vec![maker.free("Tanh", &[&input])];
    let shared: Vec<Layer> = (0..layers / 2).map(|_| maker.layer(&mut trunk)).collect();
    let of_trunk = std::mem::take(&mut maker.side_effects);
    let (mut train_ops, mut losses) = (Vec::new(), Vec::new());
    for step in 0..steps {
        let mut tensors = trunk.clone();
        let own: Vec<Layer> = (0..1 + layers / 2 / steps).map(|_| maker.layer(&mut tensors)).collect();
        let last = tensors[tensors.len() - 1].clone();
        let axes = maker.constant_ints(&[0, 1]);
        let reduce = vec![float(), ("Tidx", type_value(DataType::INT32))];
        losses.push(maker.builder.add("Mean", &[&last, &axes], reduce, &[&[]]));
        let mut side: Vec<String> = std::mem::take(&mut maker.side_effects);
        side.extend(of_trunk.iter().cloned());
        // With `control_dependencies` around `minimize` all gradients wait for these, else the train op does.
        let before_gradients = maker.rng.bool();
        let waits: Vec<String> = side.iter().map(|op| format!("^{op}")).collect();
        let mut from = vec![last.as_str()];
        if before_gradients {
            from.extend(waits.iter().map(String::as_str));
        }
        let first = maker.free("OnesLike", &from);
        let mut gradients = BTreeMap::from([(last, vec![first])]);
        let mut updates = Vec::new();
        for layer in own.iter().rev().chain(shared.iter().rev()) {
            maker.gradient(layer, &mut gradients, &mut updates);
        }
        let train = format!("train_{step}");
        let waits = updates.iter().map(|update| format!("^{update}")).chain(waits);
        let waits: Vec<String> = waits.collect();
        maker.builder.add("NoOp", &waits.iter().map(String::as_str).collect::<Vec<_>>(), Vec::new(), &[]);
        maker.builder.nodes.last_mut().unwrap().name = train.clone();
        train_ops.push(train);
        // What no step runs: a reader of a variable, an update that nobody asks for.
        for _ in 0..maker.rng.usize(..3) {
            maker.dead(&tensors);
        }
    }
    maker.finish(train_ops, losses, input)
}

impl Maker {
    /// An op that runs whenever it is asked for.
    fn free(&mut self, op: &str, inputs: &[&str]) -> String {
        let name = self.builder.add(op, inputs, vec![float()], &[SHAPE]);
        self.free_ops.push(name.clone());
        name
    }

    fn constant(&mut self, dtype: DataType, shape: &[i64], tensor_content: Vec<u8>) -> String {
        let value = TensorProto {
            dtype: dtype.number(),
            tensor_shape: Some(shape_proto(shape)),
            tensor_content,
            ..TensorProto::default()
        };
        self.builder.add(
            "Const",
            &[],
            vec![("dtype", type_value(dtype)), ("value", Value::Tensor(value))],
            &[shape],
        )
    }

    fn constant_ints(&mut self, values: &[i32]) -> String {
        let content = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        self.constant(DataType::INT32, &[values.len() as i64], content)
    }

    fn constant_float(&mut self, value: f32) -> String {
        self.constant(DataType::FLOAT, &[], value.to_ne_bytes().to_vec())
    }

    fn variable(&mut self) -> usize {
        let values = (0..WIDTH * WIDTH).flat_map(|_| ((self.rng.f32() - 0.5) * 0.2).to_ne_bytes()).collect();
        let initial = self.constant(DataType::FLOAT, SHAPE, values);
        let attrs =
            || vec![("dtype", type_value(DataType::FLOAT)), ("shape", Value::Shape(shape_proto(SHAPE)))];
        let is_ref = self.rng.bool();
        let variable = if is_ref {
            let handle = self.builder.add("VariableV2", &[], attrs(), &[SHAPE]);
            self.init_ops.push(self.builder.add("Assign", &[&handle, &initial], vec![float()], &[SHAPE]));
            let read = self.builder.add("Identity", &[&handle], vec![float()], &[SHAPE]);
            Variable { handle, read, is_ref }
        } else {
            let mut attrs = attrs();
            let name = format!("variable_{}", self.variables.len());
            attrs.push(("shared_name", Value::S(name.into_bytes())));
            let handle = self.builder.add("VarHandleOp", &[], attrs, &[&[]]);
            let dtype = || vec![("dtype", type_value(DataType::FLOAT))];
            self.init_ops.push(self.builder.add("AssignVariableOp", &[&handle, &initial], dtype(), &[]));
            let read = self.builder.add("ReadVariableOp", &[&handle], dtype(), &[SHAPE]);
            Variable { handle, read, is_ref }
        };
        self.variables.push(variable);
        self.variables.len() - 1
    }

    /// Takes something off a variable.
    fn subtract(&mut self, variable: usize, delta: &str) -> String {
        let Variable { handle, is_ref, .. } = &self.variables[variable];
        let (handle, is_ref) = (handle.clone(), *is_ref);
        let rate = self.constant_float(0.01);
        let by_optimizer = self.rng.bool();
        let dtype = ("dtype", type_value(DataType::FLOAT));
        let update = match (is_ref, by_optimizer) {
            (true, true) => {
                self.builder.add("ApplyGradientDescent", &[&handle, &rate, delta], vec![float()], &[SHAPE])
            }
            (true, false) => self.builder.add("AssignSub", &[&handle, delta], vec![float()], &[SHAPE]),
            (false, true) => {
                let inputs = [handle.as_str(), &rate, delta];
                self.builder.add("ResourceApplyGradientDescent", &inputs, vec![float()], &[])
            }
            (false, false) => self.builder.add("AssignSubVariableOp", &[&handle, delta], vec![dtype], &[]),
        };
        self.free_ops.push(update.clone());
        update
    }

    fn switch(&mut self, tensor: &str) -> [String; 2] {
        let choice = self.choice.clone();
        let switch = self.builder.add("Switch", &[tensor, &choice], vec![float()], &[SHAPE, SHAPE]);
        [switch.clone(), format!("{switch}:1")]
    }

    fn merge(&mut self, off: &str, on: &str) -> String {
        let merge = self.builder.add("Merge", &[off, on], vec![float(), ("N", Value::I(2))], &[SHAPE, &[]]);
        self.free_ops.push(merge.clone());
        merge
    }

    fn unary(&mut self, op: &str, input: &str) -> String {
        self.builder.add(op, &[input], vec![float()], &[SHAPE])
    }

    fn layer(&mut self, tensors: &mut Vec<String>) -> Layer {
        let input = tensors[tensors.len() - 1].clone();
        let other = tensors[self.rng.usize(..tensors.len())].clone();
        let layer = match self.rng.usize(..14) {
            0 | 1 => Layer::Unary { output: self.free("Relu", &[&input]), input, gradient: "ReluGrad" },
            2 | 3 => Layer::Unary { output: self.free("Tanh", &[&input]), input, gradient: "TanhGrad" },
            4 => Layer::Add { output: self.free("AddV2", &[&input, &other]), inputs: [input, other] },
            5 => Layer::Mul { output: self.free("Mul", &[&input, &other]), inputs: [input, other] },
            6..=8 => {
                let variable = self.variable();
                let read = self.variables[variable].read.clone();
                Layer::MatMul { output: self.free("MatMul", &[&input, &read]), input, variable }
            }
            9 => {
                let [off, on] = self.switch(&input);
                let (off, chosen) = (self.unary("Neg", &off), self.unary("Elu", &on));
                Layer::Choice { output: self.merge(&off, &chosen), input, chosen }
            }
            10 => Layer::Opaque { output: self.with_noise(&input), input },
            11 => Layer::Opaque { output: self.counted(&input), input },
            12 => {
                let own = self.in_a_loop(&input);
                // Nothing is drawn for it: each seed's graph has the layers that it had before loops had gradients.
                match self.builder.nodes.len() % 4 {
                    1.. => Layer::Loop { output: own.output.clone(), input, own },
                    0 => Layer::Opaque { output: own.output, input },
                }
            }
            _ => Layer::Opaque { output: self.normalized(&input), input },
        };
        let (Layer::Unary { output, .. }
        | Layer::Add { output, .. }
        | Layer::Mul { output, .. }
        | Layer::MatMul { output, .. }
        | Layer::Choice { output, .. }
        | Layer::Loop { output, .. }
        | Layer::Opaque { output, .. }) = &layer;
        tensors.push(output.clone());
        layer
    }

    /// Other random numbers in each run, of a generator of its own.
    fn with_noise(&mut self, input: &str) -> String {
        let shape = self.constant_ints(&[WIDTH as i32, WIDTH as i32]);
        let attrs = vec![
            ("dtype", type_value(DataType::FLOAT)),
            ("T", type_value(DataType::INT32)),
            ("seed", Value::I(7)),
            ("seed2", Value::I(self.builder.nodes.len() as i64)),
        ];
        let noise = self.builder.add("RandomUniform", &[&shape], attrs, &[SHAPE]);
        self.free_ops.push(noise.clone());
        self.free("Mul", &[input, &noise])
    }

    /// Counts runs of a layer, by an op that what comes after it may wait for.
    fn counted(&mut self, input: &str) -> String {
        let variable = self.variable();
        let tenth = self.unary("Tanh", input);
        let count = self.subtract(variable, &tenth);
        if self.rng.bool() {
            self.side_effects.push(count.clone());
            return self.free("Tanh", &[input]);
        }
        self.free("Tanh", &[input, &format!("^{count}")])
    }

    /// A moving average of the input, which is updated beside it.
    fn normalized(&mut self, input: &str) -> String {
        let average = self.variable();
        let read = self.variables[average].read.clone();
        let difference = self.free("Sub", &[&read, input]);
        let tenth = self.constant_float(0.1);
        let delta = self.free("Mul", &[&difference, &tenth]);
        let update = self.subtract(average, &delta);
        self.side_effects.push(update);
        self.free("Tanh", &[input])
    }

    fn gradient(
        &mut self,
        layer: &Layer,
        gradients: &mut BTreeMap<String, Vec<String>>,
        updates: &mut Vec<String>,
    ) {
        let (Layer::Unary { output, .. }
        | Layer::Add { output, .. }
        | Layer::Mul { output, .. }
        | Layer::MatMul { output, .. }
        | Layer::Choice { output, .. }
        | Layer::Loop { output, .. }
        | Layer::Opaque { output, .. }) = layer;
        let Some(parts) = gradients.remove(output) else { return };
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let sum = match parts[..] {
            [only] => only.to_string(),
            _ => {
                let attrs = vec![float(), ("N", Value::I(parts.len() as i64))];
                self.builder.add("AddN", &parts, attrs, &[SHAPE])
            }
        };
        let mut give = |tensor: &str, gradient: String| {
            gradients.entry(tensor.to_string()).or_default().push(gradient);
        };
        match layer {
            Layer::Unary { output, input, gradient } => {
                let inputs =
                    if *gradient == "TanhGrad" { [output.as_str(), &sum] } else { [sum.as_str(), output] };
                give(input, self.free(gradient, &inputs));
            }
            Layer::Add { inputs, .. } => inputs.iter().for_each(|input| give(input, sum.clone())),
            Layer::Mul { inputs: [a, b], .. } => {
                give(a, self.free("Mul", &[&sum, b]));
                give(b, self.free("Mul", &[&sum, a]));
            }
            Layer::Choice { input, chosen, .. } => {
                let [off, on] = self.switch(&sum);
                let off = self.unary("Neg", &off);
                let on = self.builder.add("EluGrad", &[&on, chosen], vec![float()], &[SHAPE]);
                give(input, self.merge(&off, &on));
            }
            Layer::Loop { input, own, .. } => give(input, self.back_through(own, &sum)),
            Layer::Opaque { input, .. } => give(input, sum.clone()),
            Layer::MatMul { input, variable, .. } => {
                let read = self.variables[*variable].read.clone();
                let of_input = vec![float(), ("transpose_b", Value::B(true))];
                let of_input = self.builder.add("MatMul", &[&sum, &read], of_input, &[SHAPE]);
                let of_weights = vec![float(), ("transpose_a", Value::B(true))];
                let of_weights = self.builder.add("MatMul", &[input, &sum], of_weights, &[SHAPE]);
                // As TensorFlow does, so that nothing reads the variable behind its update.
                let both = [format!("^{of_input}"), format!("^{of_weights}")];
                let gate = self.builder.add("NoOp", &[&both[0], &both[1]], Vec::new(), &[]);
                let gate = format!("^{gate}");
                give(input, self.free("Identity", &[&of_input, &gate]));
                let gated = self.free("Identity", &[&of_weights, &gate]);
                updates.push(self.subtract(*variable, &gated));
            }
        }
    }

    /// What no step runs.
    fn dead(&mut self, tensors: &[String]) {
        let tensor = tensors[self.rng.usize(..tensors.len())].clone();
        let Some(variable) = self.variables.len().checked_sub(1) else { return };
        let variable = self.rng.usize(..=variable);
        let read = self.variables[variable].read.clone();
        let product = self.free("MatMul", &[&tensor, &read]);
        if self.rng.bool() {
            let squashed = self.free("Tanh", &[&product]);
            self.subtract(variable, &squashed);
        }
    }

    fn finish(self, train_ops: Vec<String>, losses: Vec<String>, input: String) -> StepsGraph {
        let variables = self.variables.iter().map(|variable| variable.read.clone()).collect();
        let list = NodeList { value: train_ops.clone() };
        let collection = CollectionDef { kind: Some(collection_def::Kind::NodeList(list)) };
        let versions = Some(VersionDef { producer: 2000, ..VersionDef::default() });
        let mut nodes = self.builder.nodes;
        // Inputs are written data first.
        for node in &mut nodes {
            node.input.sort_by_key(|input| input.starts_with('^'));
        }
        let meta_graph = MetaGraphDef {
            meta_info_def: Some(MetaInfoDef::default()),
            graph_def: Some(GraphDef { node: nodes, versions, ..GraphDef::default() }),
            collection_def: [("train_op".to_string(), collection)].into(),
            ..MetaGraphDef::default()
        };
        StepsGraph {
            meta_graph: meta_graph.encode_to_vec(),
            train_ops,
            init_ops: self.init_ops,
            variables,
            losses,
            ops: self.free_ops,
            input,
            choice: self.choice,
        }
    }
}
