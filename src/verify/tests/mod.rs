//! Small graphs, rewritten by hand and at random.

mod alone;
mod files;
mod flow;
mod form;
mod garbage;
mod generate;
mod host_ops;
mod inputs;
mod large;
mod mutate;
mod ordered;
mod recompute;
mod ref_order;
mod second_reads;
mod unseen;
mod work;
mod workers;

use prost::Message;

use super::{Verified, VerifyError, ViolationKind, check};
use crate::dtype::DataType;
use crate::format::{Model, ReadOptions};
use crate::ops::OpRegistry;
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::collection_def::{self, NodeList};
use crate::proto::tensorflow::{AttrValue, CollectionDef, GraphDef, MetaGraphDef, NodeDef};

/// The only host device of a session that is not distributed.
const HOST: &str = "/job:localhost/replica:0/task:0/device:CPU:0";

/// A graph that is being built.
#[derive(Debug, Clone, Default)]
struct Build {
    graph: GraphDef,
    train_ops: Vec<String>,
}

impl Build {
    /// A graph of these nodes: name, op, inputs parted by spaces.
    fn of(nodes: &[(&str, &str, &str)]) -> Build {
        let mut build = Build::default();
        for (name, op, inputs) in nodes {
            build.node(name, op, inputs);
        }
        build
    }

    /// Adds a node whose attributes are floats wherever its op wants a type.
    fn node(&mut self, name: &str, op: &str, inputs: &str) -> &mut Build {
        let inputs: Vec<String> = inputs.split_whitespace().map(str::to_string).collect();
        let mut node =
            NodeDef { name: name.to_string(), op: op.to_string(), input: inputs, ..NodeDef::default() };
        let data = node.input.iter().filter(|input| !input.starts_with('^')).count();
        for attr in OpRegistry::builtin().get(op).map_or(&[][..], |info| &info.def().attr) {
            let value = match attr.name.as_str() {
                "T" | "dtype" => Value::Type(DataType::FLOAT.number()),
                "N" => Value::I(data as i64),
                _ => continue,
            };
            node.attr.insert(attr.name.clone(), AttrValue { value: Some(value) });
        }
        self.graph.node.push(node);
        self
    }

    /// Adds a swap-in of output 0 of a node.
    fn swap_in(&mut self, node: &str, nth: usize, inputs: &str) -> &mut Build {
        self.swap(&format!("lms/swap_in/{node}/0_{nth}"), inputs)
    }

    /// Adds a swap-out of output 0 of a node.
    fn swap_out(&mut self, node: &str) -> &mut Build {
        self.swap(&format!("lms/swap_out/{node}/0"), node)
    }

    fn swap(&mut self, name: &str, inputs: &str) -> &mut Build {
        self.node(name, "PreventGradient", inputs).device(name, HOST)
    }

    /// Adds a copy of a node with these inputs.
    fn recompute(&mut self, node: &str, number: u32, inputs: &str) -> &mut Build {
        let mut copy = self.get(node).clone();
        copy.name = format!("lms/recompute/{node}/{number}");
        copy.input = inputs.split_whitespace().map(str::to_string).collect();
        copy.attr.insert("_lms_recompute".to_string(), AttrValue { value: Some(Value::I(number.into())) });
        self.graph.node.push(copy);
        self
    }

    fn get(&mut self, name: &str) -> &mut NodeDef {
        self.graph.node.iter_mut().find(|node| node.name == name).unwrap()
    }

    fn device(&mut self, name: &str, device: &str) -> &mut Build {
        self.get(name).device = device.to_string();
        self
    }

    fn attr(&mut self, node: &str, name: &str, value: Value) -> &mut Build {
        self.get(node).attr.insert(name.to_string(), AttrValue { value: Some(value) });
        self
    }

    fn inputs(&mut self, name: &str, inputs: &str) -> &mut Build {
        self.get(name).input = inputs.split_whitespace().map(str::to_string).collect();
        self
    }

    /// The only train op.
    fn train_op(&mut self, name: &str) -> &mut Build {
        self.train_ops.clear();
        self.another_train_op(name)
    }

    fn another_train_op(&mut self, name: &str) -> &mut Build {
        self.train_ops.push(name.to_string());
        self
    }

    /// The file: a MetaGraphDef if there is a train op.
    fn encode(&self) -> Vec<u8> {
        if self.train_ops.is_empty() {
            return self.graph.encode_to_vec();
        }
        let list = NodeList { value: self.train_ops.clone() };
        let collection = CollectionDef { kind: Some(collection_def::Kind::NodeList(list)) };
        let meta = MetaGraphDef {
            meta_info_def: Some(Default::default()),
            graph_def: Some(self.graph.clone()),
            collection_def: [("train_op".to_string(), collection)].into(),
            ..MetaGraphDef::default()
        };
        meta.encode_to_vec()
    }

    fn model(&self) -> Model {
        model(self.encode())
    }
}

fn model(bytes: Vec<u8>) -> Model {
    Model::from_bytes("test", bytes, &ReadOptions::default()).unwrap()
}

fn verify(original: &Build, rewritten: &Build) -> Result<Verified, VerifyError> {
    check(&original.model(), &rewritten.model(), OpRegistry::builtin())
}

#[track_caller]
fn accepts(original: &Build, rewritten: &Build) -> Verified {
    match verify(original, rewritten) {
        Ok(verified) => verified,
        Err(error) => panic!("refused: {error}"),
    }
}

/// Checks that the first violation is of this kind and is about this node.
#[track_caller]
fn refuses(original: &Build, rewritten: &Build, kind: ViolationKind, node: &str) -> VerifyError {
    let error = verify(original, rewritten).expect_err("should be refused");
    let first = &error.violations[0];
    assert_eq!(first.kind, kind, "{error}");
    assert!(first.nodes.iter().any(|name| name == node) || node.is_empty(), "{error}");
    error
}

/// A forward and a backward op about a long way: `c` reads `a`, which was made before `b`.
fn chain() -> Build {
    Build::of(&[
        ("x", "Placeholder", ""),
        ("a", "Relu", "x"),
        ("b", "Relu", "a"),
        ("c", "AddV2", "b a"),
        ("d", "Relu", "c ^a"),
    ])
}

/// [`chain`] with `a` swapped for `c`, triggered by `b`.
fn swapped() -> Build {
    let mut build = chain();
    build.swap_in("a", 0, "a ^b").inputs("c", "b lms/swap_in/a/0_0");
    build
}

/// A branch on `p`: `t` and `t2` run if it holds, `f` if not; `m` merges. `out` reads `big` long after it was made.
fn cond() -> Build {
    Build::of(&[
        ("p", "Placeholder", ""),
        ("x", "Placeholder", ""),
        ("big", "Relu", "x"),
        ("s", "Switch", "x p"),
        ("f", "Relu", "s"),
        ("t", "Relu", "s:1"),
        ("t2", "Relu", "t"),
        ("t3", "AddV2", "t2 t"),
        ("m", "Merge", "f t3"),
        ("out", "AddV2", "m big"),
        ("end", "NoOp", "^out ^big"),
    ])
}
