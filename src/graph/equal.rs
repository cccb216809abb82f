//! Ops that compute the same: of one kind, with the same inputs and attributes, and without a state.
//!
//! TensorFlow merges them, on each device by itself, before it runs a step (`OptimizerCSE`), also with Grappler's arithmetic
//! optimization and constant folding off: two `Relu` of one tensor, or the padding of one tensor for two convolutions, run once, and who reads
//! the second reads the first. Ops that wait for different ops are not equal, nor are those that differ in an attribute, be it only the name of
//! what they are colocated with. Each is compared with one other alone, the first of all that are equal but for what they wait for: two in an
//! iteration of one loop remain two, if there was such an op in another loop before.

use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash as _, Hasher};

use rustc_hash::{FxHashMap as HashMap, FxHasher};

use super::{Graph, NodeId};
use crate::ops::Fact;

/// An attribute that TensorFlow takes away when it reads a graph.
const SHAPES_ATTR: &[u8] = b"_output_shapes";

/// How sure it is that ops are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// No two ops are told apart that TensorFlow could merge. Attributes are compared of constants alone, and not what ops wait for.
    Possible,
    /// They make the same, whatever they wait for.
    Value,
    /// All that TensorFlow compares is the same, in the same order. (It also merges sums of the same in another order.)
    Certain,
}

/// What an op waits for: its class, or itself where that is not known yet.
type Wait = (Option<usize>, NodeId);

/// Ops sorted by what they compute.
#[derive(Debug)]
pub struct Classes {
    likeness: Likeness,
    /// The class of each node, as far as they were gone through.
    of: Vec<Option<usize>>,
    /// How many nodes each has.
    members: Vec<u32>,
}

impl Classes {
    /// All ops of a graph, sorted.
    pub fn of(graph: &Graph, likeness: Likeness) -> Classes {
        let mut classes = Classes { likeness, of: vec![None; graph.len()], members: Vec::new() };
        // The first of each kind: its class, and what it waits for.
        let mut known: HashMap<u64, (usize, Vec<Wait>)> = HashMap::default();
        for &node in graph.topological() {
            let new = classes.members.len();
            let (key, waits) = match likeness {
                Likeness::Possible => (classes.key(graph, node, FxHasher::default()), Vec::new()),
                Likeness::Value => (classes.key(graph, node, DefaultHasher::new()), Vec::new()),
                Likeness::Certain => {
                    (classes.key(graph, node, DefaultHasher::new()), classes.waits(graph, node))
                }
            };
            let own = match key.map(|key| known.entry(key)) {
                Some(Entry::Occupied(first)) if first.get().1 == waits => first.get().0,
                Some(Entry::Vacant(place)) => place.insert((new, waits)).0,
                Some(Entry::Occupied(_)) | None => new,
            };
            if own == new {
                classes.members.push(0);
            }
            classes.of[node.index()] = Some(own);
            classes.members[own] += 1;
        }
        classes
    }

    /// How many classes there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The class of a node; none of an argument.
    pub fn get(&self, node: NodeId) -> Option<usize> {
        self.of.get(node.index()).copied().flatten()
    }

    /// The class of a node that is equal to others.
    pub fn shared(&self, node: NodeId) -> Option<usize> {
        self.get(node).filter(|&class| self.members[class] > 1)
    }

    /// What equal ops have in common; none if an op is equal to no other.
    fn key(&self, graph: &Graph, node: NodeId, mut hasher: impl Hasher) -> Option<u64> {
        let op = graph.op(node);
        let inputs = graph.data_inputs(node);
        let has_reference = || inputs.iter().any(|&input| graph.output_type(input).is_ref);
        if op.is_stateful() || op.facts().has(Fact::Fed) || has_reference() {
            return None;
        }
        graph.op_id(node).hash(&mut hasher);
        match self.likeness {
            Likeness::Value | Likeness::Certain => attrs_key(graph, node).hash(&mut hasher),
            Likeness::Possible if inputs.is_empty() => {
                let attrs = graph.attrs(node);
                (attrs.raw("dtype"), attrs.raw("value")?).hash(&mut hasher);
            }
            Likeness::Possible => {}
        }
        for &input in inputs {
            match self.get(graph.producer(input)) {
                Some(class) => (class, graph.output_index(input)).hash(&mut hasher),
                // What leads back into a loop is not known yet, and an argument of a function is itself.
                None => (input, "alone").hash(&mut hasher),
            }
        }
        Some(hasher.finish())
    }

    /// What an op waits for without reading it.
    fn waits(&self, graph: &Graph, node: NodeId) -> Vec<Wait> {
        let wait = |&before: &NodeId| match self.get(before) {
            Some(class) => (Some(class), NodeId(0)),
            None => (None, before),
        };
        let mut waits: Vec<_> = graph.control_inputs(node).iter().map(wait).collect();
        waits.sort_unstable();
        waits.dedup();
        waits
    }
}

/// What nodes with the same attributes have in common, in whatever order the file has these.
fn attrs_key(graph: &Graph, node: NodeId) -> u64 {
    let attrs = graph.attrs(node).all().filter(|(name, _)| *name != SHAPES_ATTR);
    let key = |attr: (&[u8], &[u8])| {
        let mut hasher = DefaultHasher::new();
        attr.hash(&mut hasher);
        hasher.finish()
    };
    attrs.map(key).fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Model, ReadOptions};
    use crate::ops::OpRegistry;

    /// A file of nodes as `name op inputs`, with a type, and further attributes as the text format has them.
    fn model(nodes: &[(&str, &str, &str, &str)]) -> Model {
        let node = |(name, op, inputs, attrs): &(&str, &str, &str, &str)| {
            let inputs: String =
                inputs.split_whitespace().map(|input| format!("input: \"{input}\" ")).collect();
            let dtype = if *op == "Const" || *op == "Placeholder" { "dtype" } else { "T" };
            let typed = format!("attr {{ key: \"{dtype}\" value {{ type: DT_FLOAT }} }}");
            let typed = if *op == "NoOp" { String::new() } else { typed };
            format!("node {{ name: \"{name}\" op: \"{op}\" {inputs} {typed} {attrs} }}\n")
        };
        let text: String = nodes.iter().map(node).collect();
        Model::from_bytes("a graph", text.into_bytes(), &ReadOptions::default()).unwrap()
    }

    /// The names of what is equal, each class by itself.
    fn equal<'g>(graph: &'g Graph, likeness: Likeness) -> Vec<Vec<&'g str>> {
        let classes = Classes::of(graph, likeness);
        let mut found = vec![Vec::new(); classes.len()];
        for node in graph.node_ids() {
            if let Some(class) = classes.shared(node) {
                found[class].push(graph.name(node));
            }
        }
        found.retain(|names| !names.is_empty());
        found
    }

    const OTHER_CLASS: &str = r#"attr { key: "_class" value { list { s: "loc:@x" } } }"#;
    const SHAPES: &str = r#"attr { key: "_output_shapes" value { list { shape { unknown_rank: true } } } }"#;
    const ONE: &str =
        r#"attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 1 } } }"#;
    const TWO: &str =
        r#"attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 2 } } }"#;

    #[test]
    fn all_that_tensorflow_compares_decides() {
        let model = model(&[
            ("x", "Placeholder", "", ""),
            ("y", "Placeholder", "", ""),
            ("gate", "NoOp", "^y", ""),
            ("relu", "Relu", "x", ""),
            ("again", "Relu", "x", SHAPES),
            ("behind", "Exp", "again", ""),
            ("before", "Exp", "relu", ""),
            ("beside", "Relu", "x", OTHER_CLASS),
            ("waits", "Relu", "x ^gate", ""),
            ("waits_too", "Relu", "x ^gate", ""),
            ("first", "Exp", "x ^relu", ""),
            ("like_it", "Exp", "x ^relu", ""),
            ("late", "Exp", "x ^gate", ""),
            ("as_late", "Exp", "x ^gate", ""),
            ("of_y", "Relu", "y", ""),
            ("one", "Const", "", ONE),
            ("one_too", "Const", "", ONE),
            ("two", "Const", "", TWO),
        ]);
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let certain = equal(&graph, Likeness::Certain);
        let expected: [&[&str]; 4] =
            [&["relu", "again"], &["behind", "before"], &["first", "like_it"], &["one", "one_too"]];
        for class in expected {
            assert!(certain.contains(&class.to_vec()), "{class:?} in {certain:?}");
        }
        assert_eq!(certain.len(), expected.len(), "{certain:?}");
        // `waits_too` is compared with `relu` alone, and `as_late` with `first`.
        let value = equal(&graph, Likeness::Value);
        assert!(value.contains(&vec!["relu", "again", "waits", "waits_too"]), "{value:?}");
        assert!(value.contains(&vec!["first", "like_it", "late", "as_late"]), "{value:?}");
        let possible = equal(&graph, Likeness::Possible);
        assert!(possible.contains(&vec!["relu", "again", "beside", "waits", "waits_too"]), "{possible:?}");
    }

    #[test]
    fn what_has_a_state_is_equal_to_nothing() {
        let seeded = r#"attr { key: "dtype" value { type: DT_FLOAT } }"#;
        let model = model(&[
            ("shape", "Const", "", ONE),
            ("random", "RandomUniform", "shape", seeded),
            ("random_too", "RandomUniform", "shape", seeded),
            ("exp", "Exp", "random", ""),
            ("exp_too", "Exp", "random_too", ""),
        ]);
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        for likeness in [Likeness::Possible, Likeness::Certain] {
            assert_eq!(equal(&graph, likeness), Vec::<Vec<&str>>::new());
        }
    }
}
