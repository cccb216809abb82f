//! What all workers' gradients come to is copied to a GPU when there is room for it there.
//!
//! One worker's gradient is there from when it is made until it is applied, which is at once, and then gone. Of several workers' gradients the
//! mean is made on the host, some time later, and TensorFlow copies it to the GPU as soon as it is made: in the midst of the backward
//! phase, where it may add to the peak. How much later that is depends on the other workers and on the network, so nobody can choose a
//! place for it by the clock. A plan for a budget counts these copies like all others. A plan that was made by thresholds knows no memory;
//! this gives it what keeps it at one worker's peak: each mean waits for the first op behind which it is room for it up to the step's end,
//! whenever it comes. The backward phase gives back what the forward phase has kept, so that most of them wait for little.

use super::holds::Holds;
use crate::graph::{Condition, FrameId, NodeId, TensorId, Use};
use crate::order::Place;
use crate::plan::{Draft, TensorSwap, TensorUse, returnable};
use crate::simulate::{Machine, Outline, Program};
use crate::tune::planned::timeline::{Course, Id as _, Position, natural};

/// How many times longer than predicted a copy may be under way.
const SLOWER: f64 = 4.0;

/// Of how many ops it is asked whether a mean may wait for one of them.
const MOST_TRIED: usize = 64;

/// A mean that comes to a GPU.
struct Mean {
    tensor: TensorId,
    gpu: u16,
    bytes: i64,
    /// The place at which it could come.
    made: Position,
    /// The last place at which it is read.
    end: Position,
    consumers: Vec<NodeId>,
}

/// Has a plan hold all workers' means back while they would add to the peak. Where there are none, or no room for one anywhere, it stays as it is.
pub fn hold_back_means(outline: &Outline, machine: &Machine, draft: &mut Draft) {
    let machine = machine.with_memory(Vec::new());
    let program = Program::new(outline, draft);
    let order = natural(&program, &machine);
    let mut course = Course::new(outline, &program, order, machine.host_op_seconds);
    let means = means(&course, draft);
    if means.is_empty() {
        return;
    }
    let holds = Holds::new(&course, 0);
    // What is there beside the means: one worker's step.
    for mean in &means {
        course.rooms[usize::from(mean.gpu)].add(mean.made, mean.end.next(), -mean.bytes);
    }
    let end = course.end();
    let peaks: Vec<i64> = course.rooms.iter().map(|room| room.most(Position::new(0), end)).collect();
    for mean in means {
        let gpu = usize::from(mean.gpu);
        let above = course.rooms[gpu].last_above(mean.made, end, peaks[gpu] - mean.bytes);
        // The place at which it may come first.
        let mut from = mean.made;
        if let Some(above) = above {
            let behind = (above.number()..end.number()).map(Position::new);
            let mut tried = behind.filter(|&place| holds.may_hold(mean.gpu, place)).take(MOST_TRIED);
            let may_all =
                |&place: &Position| mean.consumers.iter().all(|&node| holds.may_wait(&course, node, place));
            if let Some(place) = tried.find(may_all)
                && let Some(trigger) = course.node_at(place)
            {
                from = place.next();
                let back = TensorUse { consumers: mean.consumers, triggers: vec![trigger] };
                match draft.swaps.iter_mut().find(|swap| swap.tensor == mean.tensor) {
                    Some(swap) => swap.uses.push(back),
                    None => draft.swaps.push(TensorSwap {
                        tensor: mean.tensor,
                        waiting: Vec::new(),
                        uses: vec![back],
                    }),
                }
            }
        }
        let copy = machine.link_latency_seconds + mean.bytes as f64 / machine.in_bytes_per_second;
        let begin = course.seconds.get(from).copied().unwrap_or(f64::INFINITY);
        let is_under_way = |&seconds: &f64| seconds <= begin + SLOWER * copy;
        let gone = Position::of(course.seconds.as_slice().partition_point(is_under_way));
        course.rooms[gpu].add(from, gone.max(mean.end.next()), mean.bytes);
    }
}

/// The means that come to GPUs in each step, the first to come first; those aside of which a plan decides already.
fn means(course: &Course, draft: &Draft) -> Vec<Mean> {
    let analysis = course.outline.analysis();
    let (graph, placement) = (analysis.graph, course.outline.placement());
    let mut of_all = vec![false; graph.len()];
    for &node in graph.topological().iter().filter(|node| node.index() < graph.len()) {
        let reads = |tensor: &TensorId| of_all.get(graph.producer(*tensor).index()) == Some(&true);
        let is_on_host = graph.device(node).is_cpu();
        of_all[node.index()] = is_on_host
            && (graph.op(node).name().starts_with("Collective") || graph.data_inputs(node).iter().any(reads));
    }
    let is_planned = |tensor: TensorId| draft.swaps.iter().any(|swap| swap.tensor == tensor);
    let is_in_each_step = |&node: &NodeId| {
        analysis.step.certainly_contains(node)
            && analysis.flow.condition(node) == Condition::ALWAYS
            && analysis.flow.frame(node) == FrameId::TOP
    };
    let mut means: Vec<Mean> = Vec::new();
    for (&(tensor, place), &life) in &course.brought {
        let (Place::Gpu(gpu), life) = (place, &course.lives[life]) else { continue };
        let is_mean = of_all.get(graph.producer(tensor).index()) == Some(&true);
        if !is_mean || is_planned(tensor) || returnable(graph, &analysis.ref_variables, tensor).is_err() {
            continue;
        }
        let reads_copy = |reader: &&Use| {
            placement.op(reader.node) == place
                && placement.inputs(reader.node).get(reader.slot as usize) == Some(&place)
                && analysis.step.contains(reader.node)
        };
        let mut consumers: Vec<NodeId> =
            graph.uses(tensor).iter().filter(reads_copy).map(|reader| reader.node).collect();
        consumers.sort_unstable();
        consumers.dedup();
        if consumers.iter().all(is_in_each_step) {
            let (bytes, made, end) = (life.bytes as i64, life.made, life.end());
            means.push(Mean { tensor, gpu, bytes, made, end, consumers });
        }
    }
    means.sort_unstable_by_key(|mean| (mean.made, mean.tensor, mean.gpu));
    means
}
