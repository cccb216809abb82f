//! What a report has to say of the order in which images have their channels.

use crate::dtype::DataType;
use crate::graph::NodeId;
use crate::ops::{Attr, AttrLookup, Pass, WorkKind};
use crate::plan::Analysis;

/// What whoever runs the step has to turn off, if TensorFlow would bring its images into the other order on a GPU, which is Grappler's
/// work (`generic_layout_optimizer.cc`). Around each copy it would bring them back, in memory that nobody planned.
pub fn image_order_note(analysis: &Analysis) -> Option<String> {
    let graph = analysis.graph;
    let work = |node: NodeId| graph.op(node).facts().work();
    let has_images = |node: &NodeId| matches!(work(*node), WorkKind::Convolution(_) | WorkKind::Depthwise(_));
    let of_step = || graph.node_ids().filter(|&node| analysis.step.contains(node)).filter(has_images);
    let has_16_bits = |node: &NodeId| {
        matches!(graph.attrs(*node).attr("T"), Some(Attr::Type(DataType::HALF | DataType::BFLOAT16)))
    };
    let has_channels_first = |node: NodeId| {
        graph.attrs(node).string("data_format").is_some_and(|format| format.starts_with(b"NC"))
    };
    let forward = || of_step().filter(|&node| work(node) == WorkKind::Convolution(Pass::Forward));
    // It puts channels last where at least half of the convolutions have 16 bits, and else first.
    let puts_first = 2 * forward().filter(has_16_bits).count() < forward().count();
    let is_turned = of_step().any(|node| has_channels_first(node) != puts_first);
    is_turned.then(|| {
        "TensorFlow's layout optimizer turns images on a GPU, which takes more than is predicted: turn layout_optimizer off where the step \
         is to run (lms-train has it off)"
            .to_string()
    })
}
