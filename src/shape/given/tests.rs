use std::borrow::Cow;

use prost::Message;

use super::*;
use crate::format::Model;
use crate::format::ReadOptions;
use crate::ops::OpRegistry;
use crate::proto::tensorflow::attr_value::{ListValue, Value};
use crate::proto::tensorflow::tensor_shape_proto::Dim;
use crate::proto::tensorflow::{AttrValue, GraphDef, NodeDef, TensorShapeProto};
use crate::shape::Shapes;

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
    GivenShapes {
        batch_size,
        shapes: shapes.iter().map(|text| text.parse().unwrap()).collect(),
        ..GivenShapes::default()
    }
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
    assert!(parse("training=scalar").unwrap().dimensions.is_empty());
    assert_eq!(parse("training:0=scalar").unwrap().to_string(), "training=scalar");
    for text in ["1x2", "=1x2"] {
        assert_eq!(parse(text), Err(ParseShapeError::NoName(text.to_string())));
    }
    for text in ["x=", "x=1xx2", "x=1,2", "x=1x2 ", "x=--1", "x=+1", "x=1.5", "x=scalarx2"] {
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
    assert_eq!(resolved(None, &["any=scalar"]).unwrap(), [("any".to_string(), vec![])]);
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
fn numbers_that_are_fed_suit_their_placeholder() {
    let parse = |text: &str| text.parse::<GivenValue>().map(|value| (value.placeholder, value.numbers));
    assert_eq!(parse("a/batch:0=32"), Ok(("a/batch".to_string(), vec![32])));
    assert_eq!(parse("shape=300,-1"), Ok(("shape".to_string(), vec![300, -1])));
    for text in ["x", "=1", "x=", "x=1,", "x=1.5", "x=1x2", "x=99999999999999999999"] {
        assert!(parse(text).is_err(), "{text}");
    }
    let number = |name: &str, dtype: i32, dimensions: Option<&[i64]>| {
        let mut attrs: Vec<(&str, Value)> =
            dimensions.map(|dims| (SHAPE, Value::Shape(shape(dims)))).into_iter().collect();
        attrs.push(("dtype", Value::Type(dtype)));
        let mut node = node(name, "Placeholder", &[], &[]);
        node.attr.extend(
            attrs.into_iter().map(|(key, value)| (key.to_string(), AttrValue { value: Some(value) })),
        );
        node
    };
    let nodes = vec![
        number("one", 3, Some(&[])),
        number("few", 9, Some(&[-1])),
        number("any", 3, None),
        number("float", 1, None),
    ];
    let graph = GraphDef { node: nodes, ..GraphDef::default() };
    let model = Model::from_bytes("test", graph.encode_to_vec(), &ReadOptions::default()).unwrap();
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    let resolved = |values: &[&str]| {
        let values = values.iter().map(|text| text.parse().unwrap()).collect();
        let resolved = GivenShapes { values, ..GivenShapes::default() }.resolve(&graph);
        resolved
            .map(|resolved| resolved.iter().map(|(_, shape)| shape.to_vec()).collect::<Vec<_>>())
            .map_err(|error| error.to_string())
    };
    assert_eq!(resolved(&["one=7", "few=7", "any=7"]), Ok(vec![vec![], vec![1], vec![]]));
    assert_eq!(resolved(&["few=7,8", "any=7,8,9"]), Ok(vec![vec![2], vec![3]]));
    let error = |text: &str| resolved(&[text]).unwrap_err();
    assert_eq!(error("one=7,8"), "--value one: 2 numbers for a placeholder of the shape []");
    assert_eq!(error("any=4294967296"), "--value any: 4294967296 does not fit in 32 bits");
    assert_eq!(error("float=7"), "--value float: the placeholder takes no whole numbers of 32 or 64 bits");
    assert!(error("none=7").starts_with("--value none: the graph has no node of that name"));
    assert_eq!(resolved(&["one=7", "one=7"]), Err("--value one: is given twice".to_string()));
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
