//! Sizes that nobody knows, and who could say them.

use std::collections::HashSet;

use super::program::buffer;
use crate::dtype::DataType;
use crate::graph::{NodeId, TensorId};
use crate::ops::Fact;
use crate::order::{Place, Placement};
use crate::plan::Analysis;

/// Tensors whose size somebody must say before memory can be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the sizes of {count} tensors that a step keeps on a GPU are unknown ({}{}); {}",
    examples.join(", "),
    if *count > examples.len() { ", …" } else { "" },
    match (placeholders.is_empty(), deciding) {
        (true, Some(op)) if op.contains("(CudnnRNN") => format!(
            "only cuDNN knows how much {op} keeps for its gradient; make it without cuDNN (in Keras, LSTM(…, use_cudnn=False))"
        ),
        (true, Some(op)) if is_list(op) => format!(
            "nobody knows how long the list is that {op} stacks: say how often loops run with --iterations N, or have the program give \
             the list a size that it knows (tf.TensorArray(…, size))"
        ),
        (true, Some(op)) if !fed.is_empty() => format!(
            "what is fed to {} decides what {op} makes; have the program give a size that it knows (x.shape[1] for tf.shape(x)[1]), \
             or tell a tool what is fed (--value {}=N)",
            fed.join(" and "),
            fed.join("=N --value ")
        ),
        (true, Some(op)) => format!(
            "only the data decides what {op} makes, and no shape bounds it; have the program give a size that it knows \
             (x.shape[1] for tf.shape(x)[1], set_shape, num_segments)"
        ),
        (true, None) => "give the free sizes of the graph's placeholders with --batch-size or --shape".to_string(),
        (false, _) => format!(
            "give the free sizes of the graph's placeholders with --batch-size or --shape: {}",
            placeholders.join(", ")
        ),
    }
)]
pub struct UnknownSizes {
    /// How many there are.
    pub count: usize,
    /// Some of them.
    pub examples: Vec<String>,
    /// The placeholders that leave sizes open, with what is known of their shapes.
    pub placeholders: Vec<String>,
    /// An op, with its kind, that makes what is unknown of what is known.
    pub deciding: Option<String>,
    /// The placeholders of single whole numbers, or of a few, that this op reads by way of ops on the host.
    pub fed: Vec<String>,
}

impl UnknownSizes {
    /// Whether it hangs on how long a list gets, which how often loops run may say.
    pub fn is_of_list(&self) -> bool {
        self.deciding.as_deref().is_some_and(is_list)
    }
}

/// Whether an op, with its kind, stacks a list.
fn is_list(op: &str) -> bool {
    op.contains("(TensorListStack")
}

/// How many tensors a message names.
const MOST_EXAMPLES: usize = 3;

/// Whether nobody knows how large a tensor is that could be on a GPU.
fn is_unknown(analysis: &Analysis, tensor: TensorId) -> bool {
    analysis.graph.output_type(tensor).dtype.size_in_bytes().is_some()
        && analysis.sizes.bytes(tensor).is_none()
}

/// The tensors of the host that are copied to a GPU, and of which nobody knows how large they are.
fn unknown_copies(analysis: &Analysis, placement: &Placement, order: &[NodeId]) -> Vec<TensorId> {
    let graph = analysis.graph;
    let mut found: Vec<TensorId> = Vec::new();
    let mut met: HashSet<TensorId> = HashSet::new();
    for &node in order {
        let wanted = graph.data_inputs(node).iter().zip(placement.inputs(node));
        found.extend(wanted.filter(|&(_, &place)| place != Place::Host).map(|(&tensor, _)| tensor).filter(
            |&tensor| {
                // An argument of a function is no node.
                graph.producer(tensor).index() < graph.len()
                    && placement.output(tensor) == Place::Host
                    && is_unknown(analysis, tensor)
                    && met.insert(tensor)
            },
        ));
    }
    found
}

/// What is fed and copied to a GPU, and of which nobody said how large it is: where that decides about nothing else, as of labels, it need
/// not be known, and counts nothing.
pub(super) fn uncounted_feeds(analysis: &Analysis, placement: &Placement, order: &[NodeId]) -> Vec<NodeId> {
    let copies = unknown_copies(analysis, placement, order).into_iter();
    let makers = copies.map(|tensor| analysis.graph.producer(tensor));
    makers.filter(|&node| analysis.graph.op(node).facts().has(Fact::Fed)).collect()
}

/// Whether all sizes that matter are known.
///
/// # Errors
///
/// If some are not.
pub(super) fn check_sizes(
    analysis: &Analysis,
    placement: &Placement,
    order: &[NodeId],
) -> Result<(), UnknownSizes> {
    let graph = analysis.graph;
    let is_made_there = |node: NodeId, tensor: TensorId| {
        placement.output(tensor) != Place::Host && buffer(graph, &analysis.sizes, node, tensor).may_be_own()
    };
    let mut unknown: Vec<TensorId> = Vec::new();
    for &node in order {
        let made = graph.outputs(node).filter(|&tensor| is_made_there(node, tensor));
        unknown.extend(made.filter(|&tensor| is_unknown(analysis, tensor)));
    }
    let is_computed = |tensor: &TensorId| !graph.op(graph.producer(*tensor)).facts().has(Fact::Fed);
    unknown.extend(unknown_copies(analysis, placement, order).into_iter().filter(is_computed));
    if unknown.is_empty() {
        return Ok(());
    }
    let is_open = |node: &NodeId| {
        // A table's handle has no size that anybody could give.
        let is_sizeless = |tensor: TensorId| {
            analysis.sizes.bytes(tensor).is_none()
                && graph.output_type(tensor).dtype.size_in_bytes().is_some()
        };
        graph.op(*node).facts().has(Fact::Fed) && graph.outputs(*node).any(is_sizeless)
    };
    let shape_of =
        |node: NodeId| match graph.outputs(node).next().and_then(|tensor| analysis.shapes.get(tensor)) {
            Some(shape) => {
                let sizes: Vec<String> = shape
                    .iter()
                    .map(|&size| if size < 0 { "?".to_string() } else { size.to_string() })
                    .collect();
                format!("{}={}", graph.name(node), sizes.join("x"))
            }
            None => graph.name(node).to_string(),
        };
    let is_sized = |tensor: TensorId| {
        analysis.sizes.bytes(tensor).is_some()
            || graph.output_type(tensor).dtype.size_in_bytes().is_none()
            || graph.producer(tensor).index() >= graph.len()
    };
    let decides = |node: &NodeId| {
        graph.outputs(*node).any(|tensor| !is_sized(tensor))
            && graph
                .data_inputs(*node)
                .iter()
                .all(|&input| is_sized(input) || graph.is_back_edge(graph.producer(input), *node))
    };
    let deciding = order.iter().copied().find(decides);
    let fed = deciding.map(|node| fed_sizes(analysis, node)).unwrap_or_default();
    Err(UnknownSizes {
        count: unknown.len(),
        deciding: deciding.map(|node| format!("{} ({})", graph.name(node), graph.op(node).name())),
        fed: fed.into_iter().map(|node| graph.name(node).to_string()).collect(),
        examples: unknown
            .iter()
            .take(MOST_EXAMPLES)
            .map(|&tensor| graph.tensor_name(tensor).to_string())
            .collect(),
        placeholders: order.iter().copied().filter(is_open).map(shape_of).collect(),
    })
}

/// The most numbers that count as sizes.
const MOST_SIZES: u64 = 16;

/// The placeholders of a few whole numbers that an op's whole numbers come from.
fn fed_sizes(analysis: &Analysis, node: NodeId) -> Vec<NodeId> {
    let graph = analysis.graph;
    let mut seen = vec![node];
    let mut looked_at = 0;
    while let Some(&node) = seen.get(looked_at) {
        looked_at += 1;
        let inputs = graph.data_inputs(node).iter().filter(|&&input| {
            let output_type = graph.output_type(input);
            let size = output_type.dtype.size_in_bytes().unwrap_or(u64::MAX);
            matches!(output_type.dtype, DataType::INT32 | DataType::INT64)
                && analysis.sizes.bytes(input).is_some_and(|bytes| bytes / size <= MOST_SIZES)
        });
        let makers: Vec<NodeId> =
            inputs.map(|&input| graph.producer(input)).filter(|from| from.index() < graph.len()).collect();
        for from in makers {
            if !seen.contains(&from) && seen.len() < MOST_LOOKED_AT {
                seen.push(from);
            }
        }
    }
    seen.retain(|&node| graph.op(node).facts().has(Fact::Fed));
    seen
}

/// How many ops are looked at in search of what is fed.
const MOST_LOOKED_AT: usize = 256;

#[cfg(test)]
mod tests {
    use super::super::{OpCost, Outline, Unpredictable};
    use super::*;
    use crate::format::{Model, ReadOptions};
    use crate::graph::Graph;
    use crate::ops::OpRegistry;
    use crate::shape::{Shapes, Sizes};

    /// A step that sums up on a GPU what is on the host: which sizes are asked for, or what counts nothing.
    fn asked(summed: &str) -> Result<Vec<String>, Vec<String>> {
        let attr = |name: &str, value: &str| format!("attr {{ key: '{name}' value {{ {value} }} }}");
        let node = |name: &str, op: &str, rest: &str| format!("node {{ name: '{name}' op: '{op}' {rest} }} ");
        let sum = [
            format!("input: '{summed}' input: 'axis'"),
            attr("T", "type: DT_FLOAT"),
            attr("Tidx", "type: DT_INT32"),
            attr("_output_shapes", "list { shape { } }"),
        ];
        let axis = [
            attr("dtype", "type: DT_INT32"),
            attr("value", "tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 }"),
        ];
        let nodes = [
            node("written", "Placeholder", &attr("dtype", "type: DT_STRING")),
            node("fed", "Placeholder", &attr("dtype", "type: DT_FLOAT")),
            node(
                "parsed",
                "ParseTensor",
                &format!("input: 'written' {}", attr("out_type", "type: DT_FLOAT")),
            ),
            node("axis", "Const", &axis.concat()),
            node("sum", "Sum", &sum.concat()),
        ];
        let content = nodes.concat().into_bytes();
        let model = Model::from_bytes("a step", content, &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let targets: Vec<_> = graph.node_ids().filter(|&node| graph.name(node) == "sum").collect();
        let shapes = Shapes::declared(&graph);
        let sizes = Sizes::of(&graph, &shapes).unwrap();
        let analysis = Analysis::new(&graph, &targets, shapes, sizes);
        let placement = Placement::of(&graph);
        let name = |node: NodeId| graph.name(node).to_string();
        match Outline::new(&analysis, &placement, |_| OpCost::default()) {
            Ok(outline) => Ok(outline.uncounted_feeds().into_iter().map(name).collect()),
            Err(Unpredictable::Sizes(unknown)) => Err(unknown.examples),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn the_size_of_what_is_copied_to_a_gpu_is_asked_for_unless_it_is_fed() {
        assert_eq!(asked("parsed"), Err(vec!["parsed:0".to_string()]));
        assert_eq!(asked("fed"), Ok(vec!["fed".to_string()]));
    }

    /// What is fed is asked for by name, and only where it decides; else it is the program that must say more.
    #[test]
    fn who_can_say_a_size_is_asked() {
        let told_of = |deciding: &str, fed: &[&str]| {
            let unknown = UnknownSizes {
                count: 1,
                examples: vec!["zeros:0".to_string()],
                placeholders: Vec::new(),
                deciding: Some(deciding.to_string()),
                fed: fed.iter().map(ToString::to_string).collect(),
            };
            unknown.to_string()
        };
        let told = |fed: &[&str]| told_of("zeros (Fill)", fed);
        assert!(
            told(&[]).ends_with("(x.shape[1] for tf.shape(x)[1], set_shape, num_segments)"),
            "{}",
            told(&[])
        );
        let both = told(&["batch", "units"]);
        assert!(both.contains("what is fed to batch and units decides what zeros (Fill) makes"), "{both}");
        assert!(both.ends_with("(--value batch=N --value units=N)"), "{both}");
        let list = told_of("whole (TensorListStack)", &["places"]);
        assert!(list.contains("how long the list is that whole (TensorListStack) stacks"), "{list}");
        assert!(list.contains("--iterations N"), "{list}");
    }
}
