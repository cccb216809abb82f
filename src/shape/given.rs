//! Shapes that the user gives: a batch size, and the shape of a placeholder.
//!
//! They are never written to the model. [`GivenShapes::resolve`] checks them against the graph, and
//! [`PlaceholderShapes::graph_def`] makes the copy of the graph from which TensorFlow infers all other shapes.
//!
//! A file may declare shapes for another batch size than its placeholders are now given. TensorFlow would believe them,
//! or refuse the graph. So where a placeholder's own declared shape contradicts what it is given, the declared
//! shapes of all that is computed from it are out of date, and do not count.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;

use prost::Message;

use super::Shapes;
use crate::format::Model;
use crate::format::wire::{Fields, put_length_delimited_header};
use crate::graph::{Graph, NodeId, output_shapes};
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::tensor_shape_proto::Dim;
use crate::proto::tensorflow::{AttrValue, NodeDef, TensorShapeProto};

/// A shape in text that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseShapeError {
    /// No `=`.
    #[error("{0:?} is not NAME=SHAPE, such as images=8x224x224x3")]
    NoName(String),
    /// A dimension that is no number.
    #[error(
        "the dimension {dimension:?} of {shape:?} is neither a number nor ? (a shape is written as 8x224x224x3)"
    )]
    NotANumber {
        /// The shape.
        shape: String,
        /// The dimension.
        dimension: String,
    },
    /// A dimension of 0 or less, -1 aside.
    #[error(
        "the dimension {dimension} of {shape:?} is not at least 1 (one that is unknown is written as ? or -1)"
    )]
    NotPositive {
        /// The shape.
        shape: String,
        /// The dimension.
        dimension: String,
    },
    /// More elements than can be counted.
    #[error("the shape {0:?} has more elements than fit in 63 bits")]
    Overflow(String),
}

/// The shape of one placeholder, as `NAME=1x2000x2000x3` says it. `?` and `-1` leave a dimension open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenShape {
    /// The placeholder's name.
    pub placeholder: String,
    /// Its dimensions, -1 for each unknown one.
    pub dimensions: Vec<i64>,
}

impl FromStr for GivenShape {
    type Err = ParseShapeError;

    fn from_str(text: &str) -> Result<GivenShape, ParseShapeError> {
        let (name, shape) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| ParseShapeError::NoName(text.to_string()))?;
        let name = name.strip_suffix(":0").unwrap_or(name);
        Ok(GivenShape { placeholder: name.to_string(), dimensions: dimensions(shape)? })
    }
}

/// As it is read.
impl fmt::Display for GivenShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |&size: &i64| if size < 0 { "?".to_string() } else { size.to_string() };
        let sizes: Vec<String> = self.dimensions.iter().map(size).collect();
        write!(f, "{}={}", self.placeholder, sizes.join("x"))
    }
}

fn dimensions(shape: &str) -> Result<Vec<i64>, ParseShapeError> {
    let mut dimensions = Vec::new();
    let mut elements = 1i64;
    for dimension in shape.split(['x', 'X']) {
        let digits = dimension.strip_prefix('-').unwrap_or(dimension);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let size = match dimension {
            "?" | "-1" => -1,
            _ if !is_number => {
                return Err(ParseShapeError::NotANumber {
                    shape: shape.to_string(),
                    dimension: dimension.to_string(),
                });
            }
            _ if digits.len() < dimension.len() || digits.bytes().all(|digit| digit == b'0') => {
                return Err(ParseShapeError::NotPositive {
                    shape: shape.to_string(),
                    dimension: dimension.to_string(),
                });
            }
            // Only a number that is too large does not parse here.
            _ => digits.parse().map_err(|_| ParseShapeError::Overflow(shape.to_string()))?,
        };
        elements =
            elements.checked_mul(size.max(1)).ok_or_else(|| ParseShapeError::Overflow(shape.to_string()))?;
        dimensions.push(size);
    }
    Ok(dimensions)
}

/// Dimensions as messages show them: `[?, 224, 224, 3]`.
struct Show<'a>(Option<&'a [i64]>);

impl fmt::Display for Show<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(dimensions) = self.0 else { return f.write_str("of unknown rank") };
        f.write_str("[")?;
        for (index, &dimension) in dimensions.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            match dimension {
                ..0 => write!(f, "{comma}?")?,
                _ => write!(f, "{comma}{dimension}")?,
            }
        }
        f.write_str("]")
    }
}

/// Why the shapes that the user gave do not fit the graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GivenShapeError {
    /// No node of this name.
    #[error(
        "--shape {name}: the graph has no node of that name; its placeholders are {}",
        names(placeholders)
    )]
    NoSuchNode {
        /// The name.
        name: String,
        /// The placeholders that there are.
        placeholders: Vec<String>,
    },
    /// A node of another op.
    #[error(
        "--shape {name}: that node is a {op}, not a placeholder; the graph's placeholders are {}",
        names(placeholders)
    )]
    NotAPlaceholder {
        /// The name.
        name: String,
        /// Its op.
        op: String,
        /// The placeholders that there are.
        placeholders: Vec<String>,
    },
    /// Two shapes for one placeholder.
    #[error("--shape {name}: is given twice")]
    Twice {
        /// The placeholder.
        name: String,
    },
    /// A shape that the graph rules out.
    #[error(
        "--shape {name}: {} contradicts the graph, in which the placeholder is {}",
        Show(Some(given)),
        Show(Some(declared))
    )]
    Contradiction {
        /// The placeholder.
        name: String,
        /// The shape that the user gave.
        given: Vec<i64>,
        /// What the graph says, -1 for each free dimension.
        declared: Vec<i64>,
    },
    /// A batch size where none is free.
    #[error("--batch-size {batch_size}: no placeholder has a free first dimension ({})", placeholders.join(", "))]
    NoFreeBatch {
        /// The batch size.
        batch_size: u64,
        /// The placeholders with their shapes.
        placeholders: Vec<String>,
    },
    /// A batch size that cannot be.
    #[error("--batch-size {0}: a batch size is at least 1 and fits in 63 bits")]
    BatchSize(u64),
}

fn names(placeholders: &[String]) -> String {
    const MOST: usize = 10;
    match placeholders {
        [] => "none".to_string(),
        few if few.len() <= MOST => few.join(", "),
        many => format!("{} and {} more", many[..MOST].join(", "), many.len() - MOST),
    }
}

/// All shapes that the user gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenShapes {
    /// The first dimension of each placeholder that leaves it open.
    pub batch_size: Option<u64>,
    /// The shapes of single placeholders.
    pub shapes: Vec<GivenShape>,
}

impl GivenShapes {
    /// Whether nothing is given.
    pub fn is_empty(&self) -> bool {
        self.batch_size.is_none() && self.shapes.is_empty()
    }

    /// Finds the placeholders, and checks that what is given fits them.
    ///
    /// The batch size goes to each placeholder whose first dimension neither the graph nor a shape given for it fixes.
    ///
    /// # Errors
    ///
    /// If a name is no placeholder's, or if what is given contradicts the graph.
    pub fn resolve(&self, graph: &Graph) -> Result<PlaceholderShapes, GivenShapeError> {
        let mut resolved = PlaceholderShapes::default();
        if self.is_empty() {
            return Ok(resolved);
        }
        let placeholders: Vec<NodeId> =
            graph.node_ids().filter(|&node| is_placeholder(graph, node)).collect();
        self.resolve_shapes(graph, &placeholders, &mut resolved)?;
        if let Some(batch_size) = self.batch_size {
            resolve_batch(batch_size, graph, &placeholders, &mut resolved)?;
        }
        resolved.outdated = outdated(graph, &resolved.shapes);
        Ok(resolved)
    }

    fn resolve_shapes(
        &self,
        graph: &Graph,
        placeholders: &[NodeId],
        resolved: &mut PlaceholderShapes,
    ) -> Result<(), GivenShapeError> {
        if self.shapes.is_empty() {
            return Ok(());
        }
        let by_name: HashMap<&str, NodeId> = graph.node_ids().map(|node| (graph.name(node), node)).collect();
        let known = || placeholders.iter().map(|&node| graph.name(node).to_string()).collect();
        for GivenShape { placeholder, dimensions } in &self.shapes {
            let name = placeholder.clone();
            let Some(&node) = by_name.get(name.as_str()) else {
                return Err(GivenShapeError::NoSuchNode { name, placeholders: known() });
            };
            if !is_placeholder(graph, node) {
                let op = graph.op(node).name().to_string();
                return Err(GivenShapeError::NotAPlaceholder { name, op, placeholders: known() });
            }
            let shape = match declared_shape(graph, node) {
                None => dimensions.clone(),
                Some(declared) => {
                    let merged = super::merge(dimensions, &declared);
                    let given = dimensions.clone();
                    merged.ok_or(GivenShapeError::Contradiction { name: name.clone(), given, declared })?
                }
            };
            if resolved.shapes.insert(node, shape).is_some() {
                return Err(GivenShapeError::Twice { name });
            }
        }
        Ok(())
    }
}

fn resolve_batch(
    batch_size: u64,
    graph: &Graph,
    placeholders: &[NodeId],
    resolved: &mut PlaceholderShapes,
) -> Result<(), GivenShapeError> {
    let size = i64::try_from(batch_size).ok().filter(|&size| size > 0);
    let size = size.ok_or(GivenShapeError::BatchSize(batch_size))?;
    let mut shown = Vec::new();
    let mut is_used = false;
    for &node in placeholders {
        let shape = resolved.shapes.get(&node).cloned().or_else(|| declared_shape(graph, node));
        shown.push(format!("{} {}", graph.name(node), Show(shape.as_deref())));
        let Some(mut shape) = shape else { continue };
        if let Some(first @ ..0) = shape.first_mut() {
            *first = size;
            is_used = true;
            resolved.shapes.insert(node, shape);
        }
    }
    if is_used { Ok(()) } else { Err(GivenShapeError::NoFreeBatch { batch_size, placeholders: shown }) }
}

fn is_placeholder(graph: &Graph, node: NodeId) -> bool {
    matches!(graph.op(node).name(), "Placeholder" | "PlaceholderV2" | "PlaceholderWithDefault")
}

/// The shape that a placeholder asks its feed to have; none if any will do.
fn declared_shape(graph: &Graph, node: NodeId) -> Option<Vec<i64>> {
    graph.attrs(node).shape(SHAPE)
}

/// The attribute that holds a placeholder's shape.
const SHAPE: &str = "shape";
/// The attribute that holds what was inferred from it when the file was written.
const OUTPUT_SHAPES: &str = "_output_shapes";

/// The shapes of some of a graph's placeholders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlaceholderShapes {
    shapes: BTreeMap<NodeId, Vec<i64>>,
    /// The nodes whose declared shapes do not count any more.
    outdated: BTreeSet<NodeId>,
}

/// Which of the shapes that a file declares TensorFlow gets to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declared {
    /// Those that are not out of date.
    Current,
    /// None.
    Nothing,
}

impl PlaceholderShapes {
    /// The placeholders and their dimensions, -1 for each unknown one.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (NodeId, &[i64])> {
        self.shapes.iter().map(|(&node, shape)| (node, shape.as_slice()))
    }

    /// Brings the shapes that a file declares in line with these: what is out of date is forgotten.
    pub fn apply(&self, graph: &Graph, declared: &mut Shapes) {
        for tensor in self.outdated.iter().flat_map(|&node| graph.outputs(node)) {
            declared.set(tensor, None);
        }
        for (node, given) in self.iter() {
            for tensor in graph.outputs(node) {
                declared.set(tensor, Some(given.into()));
            }
        }
    }

    /// The model's GraphDef with these shapes in its placeholders, and with no other declared shapes than asked for.
    pub fn graph_def<'a>(&self, model: &'a Model, declared: Declared) -> Cow<'a, [u8]> {
        const NODE: u32 = 1;
        let whole = model.graph_def();
        if self.shapes.is_empty() && declared == Declared::Current {
            return Cow::Borrowed(whole);
        }
        let mut edited = Vec::with_capacity(whole.len() + 64 * self.shapes.len());
        let mut nodes = (0..).map(NodeId);
        for field in Fields::of(whole).flatten() {
            let node = field.bytes(NODE).zip(nodes.next());
            let Some((content, node)) = node else {
                edited.extend_from_slice(&whole[field.span]);
                continue;
            };
            let shape = self.shapes.get(&node);
            let forgets = declared == Declared::Nothing || self.outdated.contains(&node);
            if shape.is_none() && !forgets {
                edited.extend_from_slice(&whole[field.span]);
                continue;
            }
            let node = with_shape(&whole[content], shape);
            put_length_delimited_header(NODE, node.len() as u64, &mut edited);
            edited.extend(node);
        }
        Cow::Owned(edited)
    }
}

/// All nodes whose declared shapes are out of date once the placeholders have these shapes.
fn outdated(graph: &Graph, given: &BTreeMap<NodeId, Vec<i64>>) -> BTreeSet<NodeId> {
    let is_contradicted = |node: NodeId, given: &[i64]| {
        let declared = output_shapes(&graph.attrs(node)).and_then(|mut shapes| shapes.next()).flatten();
        declared.is_some_and(|declared| super::merge(&declared, given).is_none())
    };
    let mut next: Vec<NodeId> =
        given.iter().filter(|(node, given)| is_contradicted(**node, given)).map(|(&node, _)| node).collect();
    let mut reached = BTreeSet::new();
    while let Some(node) = next.pop() {
        if reached.insert(node) {
            let readers = graph.outputs(node).flat_map(|tensor| graph.uses(tensor));
            next.extend(readers.map(|reader| reader.node));
        }
    }
    reached
}

/// A NodeDef without declared shapes, and with another shape if it is a placeholder that is given one.
fn with_shape(node: &[u8], dimensions: Option<&Vec<i64>>) -> Vec<u8> {
    const ATTR: u32 = 5;
    let is_dropped = |attr: &[u8]| {
        let key = Fields::of(attr).flatten().filter_map(|field| field.bytes(1)).last();
        key.is_some_and(|key| match &attr[key] {
            key if key == SHAPE.as_bytes() => dimensions.is_some(),
            key => key == OUTPUT_SHAPES.as_bytes(),
        })
    };
    let mut edited = Vec::with_capacity(node.len() + 64);
    for field in Fields::of(node).flatten() {
        if !field.bytes(ATTR).is_some_and(|attr| is_dropped(&node[attr])) {
            edited.extend_from_slice(&node[field.span]);
        }
    }
    if let Some(dimensions) = dimensions {
        let dim = dimensions.iter().map(|&size| Dim { size, name: String::new() }).collect();
        let shape = Value::Shape(TensorShapeProto { dim, unknown_rank: false });
        let attr = BTreeMap::from([(SHAPE.to_string(), AttrValue { value: Some(shape) })]);
        // A message is the sum of its fields: this appends one attribute.
        edited.extend(NodeDef { attr, ..NodeDef::default() }.encode_to_vec());
    }
    edited
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ReadOptions;
    use crate::ops::OpRegistry;
    use crate::proto::tensorflow::GraphDef;
    use crate::proto::tensorflow::attr_value::ListValue;

    fn shape(dimensions: &[i64]) -> TensorShapeProto {
        let dim = dimensions.iter().map(|&size| Dim { size, name: String::new() }).collect();
        TensorShapeProto { dim, unknown_rank: false }
    }

    fn node(name: &str, op: &str, input: &[&str], attrs: &[(&str, Value)]) -> NodeDef {
        let attr = attrs
            .iter()
            .map(|(key, value)| (key.to_string(), AttrValue { value: Some(value.clone()) }))
            .chain(
                [("dtype", 1), ("T", 1)]
                    .map(|(key, number)| (key.to_string(), AttrValue { value: Some(Value::Type(number)) })),
            )
            .collect();
        NodeDef {
            name: name.to_string(),
            op: op.to_string(),
            input: input.iter().map(ToString::to_string).collect(),
            attr,
            ..NodeDef::default()
        }
    }

    fn outputs(dimensions: &[i64]) -> (&'static str, Value) {
        (OUTPUT_SHAPES, Value::List(ListValue { shape: vec![shape(dimensions)], ..ListValue::default() }))
    }

    /// `free` with an unknown batch that is declared as 64, `fixed`, `any` of unknown rank, and what is computed from the first two.
    fn model() -> Model {
        let nodes = vec![
            node("free", "Placeholder", &[], &[(SHAPE, Value::Shape(shape(&[-1, 8]))), outputs(&[64, 8])]),
            node("after_free", "Relu", &["free"], &[outputs(&[64, 8])]),
            node("fixed", "Placeholder", &[], &[(SHAPE, Value::Shape(shape(&[4, 8]))), outputs(&[4, 8])]),
            node("after_fixed", "Relu", &["fixed"], &[outputs(&[4, 8])]),
            node("any", "Placeholder", &[], &[]),
        ];
        let graph = GraphDef { node: nodes, ..GraphDef::default() };
        Model::from_bytes("test", graph.encode_to_vec(), &ReadOptions::default()).unwrap()
    }

    fn with_graph<T>(test: impl FnOnce(&Model, &Graph) -> T) -> T {
        let model = model();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        test(&model, &graph)
    }

    fn given(batch_size: Option<u64>, shapes: &[&str]) -> GivenShapes {
        GivenShapes { batch_size, shapes: shapes.iter().map(|text| text.parse().unwrap()).collect() }
    }

    /// What is given resolves to: each placeholder by name, with its shape.
    fn resolved(batch_size: Option<u64>, shapes: &[&str]) -> Result<Vec<(String, Vec<i64>)>, String> {
        with_graph(|_, graph| {
            let resolved = given(batch_size, shapes).resolve(graph).map_err(|error| error.to_string())?;
            Ok(resolved.iter().map(|(node, shape)| (graph.name(node).to_string(), shape.to_vec())).collect())
        })
    }

    #[test]
    fn shapes_are_read_as_people_write_them() {
        let parse = |text: &str| text.parse::<GivenShape>();
        let parsed = parse("a/images:0=1x2000x2000x3").unwrap();
        assert_eq!((parsed.placeholder.as_str(), parsed.dimensions), ("a/images", vec![1, 2000, 2000, 3]));
        assert_eq!(parse("x=?x-1X5").unwrap().dimensions, [-1, -1, 5]);
        assert_eq!(parse("x:0=?x-1X5").unwrap().to_string(), "x=?x?x5");
        for text in ["1x2", "=1x2"] {
            assert_eq!(parse(text), Err(ParseShapeError::NoName(text.to_string())));
        }
        for text in ["x=", "x=1xx2", "x=1,2", "x=1x2 ", "x=--1", "x=+1", "x=1.5"] {
            assert!(matches!(parse(text), Err(ParseShapeError::NotANumber { .. })), "{text}");
        }
        for text in ["x=0", "x=1x-2", "x=00", "x=-0"] {
            assert!(matches!(parse(text), Err(ParseShapeError::NotPositive { .. })), "{text}");
        }
        for text in ["x=99999999999999999999", "x=4294967296x4294967296"] {
            assert!(matches!(parse(text), Err(ParseShapeError::Overflow(_))), "{text}");
        }
    }

    #[test]
    fn the_batch_size_goes_to_what_is_free() {
        let free = |shape: &[i64]| ("free".to_string(), shape.to_vec());
        assert_eq!(resolved(Some(32), &[]).unwrap(), [free(&[32, 8])]);
        let any = ("any".to_string(), vec![32, 5]);
        assert_eq!(resolved(Some(32), &["any=?x5"]).unwrap(), [free(&[32, 8]), any]);
        let error = resolved(Some(32), &["free=2x8"]).unwrap_err();
        assert_eq!(
            error,
            "--batch-size 32: no placeholder has a free first dimension (free [2, 8], fixed [4, 8], any of unknown rank)"
        );
        assert!(resolved(Some(0), &[]).unwrap_err().contains("at least 1"));
        assert!(resolved(Some(u64::MAX), &[]).unwrap_err().contains("63 bits"));
    }

    #[test]
    fn given_shapes_fill_in_but_never_contradict() {
        let fixed = |shape: &[i64]| ("fixed".to_string(), shape.to_vec());
        assert_eq!(resolved(None, &["fixed=?x?"]).unwrap(), [fixed(&[4, 8])]);
        assert_eq!(
            resolved(None, &["fixed=5x8"]).unwrap_err(),
            "--shape fixed: [5, 8] contradicts the graph, in which the placeholder is [4, 8]"
        );
        assert!(resolved(None, &["free=5x8x1"]).unwrap_err().contains("in which the placeholder is [?, 8]"));
        assert!(resolved(None, &["free=5x8", "free=5x8"]).unwrap_err().contains("given twice"));
        assert_eq!(
            resolved(None, &["nothing=1"]).unwrap_err(),
            "--shape nothing: the graph has no node of that name; its placeholders are free, fixed, any"
        );
        assert!(resolved(None, &["after_free=1"]).unwrap_err().contains("is a Relu, not a placeholder"));
    }

    #[test]
    fn the_copy_differs_only_where_it_must() {
        with_graph(|model, graph| {
            let nothing = GivenShapes::default().resolve(graph).unwrap();
            assert!(matches!(nothing.graph_def(model, Declared::Current), Cow::Borrowed(_)));

            let original = GraphDef::decode(model.graph_def()).unwrap();
            let copy = |batch_size, declared| {
                let given = given(Some(batch_size), &[]).resolve(graph).unwrap();
                GraphDef::decode(given.graph_def(model, declared).as_ref()).unwrap()
            };
            let expected = |batch_size, undeclared: &[usize]| {
                let mut graph = original.clone();
                let given = AttrValue { value: Some(Value::Shape(shape(&[batch_size, 8]))) };
                graph.node[0].attr.insert(SHAPE.to_string(), given);
                for &node in undeclared {
                    graph.node[node].attr.remove(OUTPUT_SHAPES);
                }
                graph
            };
            assert_eq!(copy(64, Declared::Current), expected(64, &[0]));
            assert_eq!(copy(32, Declared::Current), expected(32, &[0, 1]));
            assert_eq!(copy(32, Declared::Nothing), expected(32, &[0, 1, 2, 3]));
        });
    }

    #[test]
    fn declared_shapes_that_are_out_of_date_do_not_count() {
        with_graph(|_, graph| {
            let shapes_with = |batch_size| {
                let mut shapes = Shapes::declared(graph);
                given(Some(batch_size), &[]).resolve(graph).unwrap().apply(graph, &mut shapes);
                graph.tensor_ids().map(|tensor| shapes.get(tensor).map(<[i64]>::to_vec)).collect::<Vec<_>>()
            };
            let fixed = || Some(vec![4, 8]);
            assert_eq!(shapes_with(32), [Some(vec![32, 8]), None, fixed(), fixed(), None]);
            assert_eq!(shapes_with(64), [Some(vec![64, 8]), Some(vec![64, 8]), fixed(), fixed(), None]);
        });
    }

    #[test]
    fn refining_merges_and_finds_contradictions() {
        with_graph(|_, graph| {
            let tensors: Vec<_> = graph.tensor_ids().collect();
            let mut shapes = Shapes::unknown(graph);
            shapes.set(tensors[0], Some([-1, 8].into()));
            shapes.set(tensors[1], Some([3].into()));
            let mut inferred = Shapes::unknown(graph);
            inferred.set(tensors[0], Some([5, -1].into()));
            inferred.set(tensors[2], Some([7].into()));
            shapes.refine(graph, inferred).unwrap();
            assert_eq!(shapes.get(tensors[0]), Some(&[5, 8][..]));
            assert_eq!(shapes.get(tensors[1]), Some(&[3][..]));
            assert_eq!(shapes.get(tensors[2]), Some(&[7][..]));

            let mut other = Shapes::unknown(graph);
            other.set(tensors[1], Some([4].into()));
            let error = shapes.refine(graph, other).unwrap_err();
            assert!(
                error.to_string().starts_with("tensor after_free:0 is declared with the shape [3]"),
                "{error}"
            );
        });
    }
}
