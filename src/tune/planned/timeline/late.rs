//! What need not run yet.

use super::schedule::Order;
use crate::graph::{FrameId, NodeId};
use crate::ops::Fact;
use crate::order::Place;
use crate::simulate::{Buffer, Origin, Outline, Program, Sharing};

/// The same order, but that some ops run no earlier than somebody needs what they make: those that make more than they need to be
/// there (zeros, one-hot labels, what is added to gradients for the decay of weights), and those that only pass a buffer on under
/// another name or shape.
///
/// The latter take no memory. But a buffer that has only one name when it leaves can be given back under that, and gets its other names
/// behind its return.
pub(in crate::tune::planned) fn with_late_growth(
    outline: &Outline,
    program: &Program,
    order: &[u32],
) -> Order {
    let is_late = late_ops(outline, program, order);
    // For each entry the late ops that it waits for; for each of these how many entries have to be behind it and are not placed yet.
    let mut late_before: Vec<Vec<u32>> = vec![Vec::new(); program.len()];
    let mut unplaced = vec![0u32; program.len()];
    for &op in order.iter().filter(|&&op| is_late[op as usize]) {
        for &next in program.successors(op) {
            late_before[next as usize].push(op);
            unplaced[op as usize] += 1;
        }
    }
    // From the end to the beginning, so that each late op comes as soon as all behind it are there.
    let mut reversed = Vec::with_capacity(order.len());
    let mut open = Vec::new();
    for &op in order.iter().rev() {
        if !is_late[op as usize] || program.successors(op).is_empty() {
            open.push(op);
        }
        while let Some(op) = open.pop() {
            reversed.push(op);
            for &late in &late_before[op as usize] {
                unplaced[late as usize] -= 1;
                if unplaced[late as usize] == 0 {
                    open.push(late);
                }
            }
        }
    }
    reversed.reverse();
    reversed
}

/// For each entry whether it may as well run right before the first that needs it.
fn late_ops(outline: &Outline, program: &Program, order: &[u32]) -> Vec<bool> {
    let flow = &outline.analysis().flow;
    let on_gpu = |tensor: u32| match program.tensor_place(tensor) {
        Place::Gpu(_) => program.tensor_bytes(tensor),
        Place::Host => 0,
    };
    let mut is_late = vec![false; program.len()];
    // For each tensor what has to be there for it to be read late: itself, or what it is made of if that can be done late too.
    let mut needed = vec![0u64; program.tensor_count()];
    for &op in order {
        let reads: Vec<Option<u32>> = program.reads(op).collect();
        let (mut makes, needs) = (0, reads.iter().flatten().map(|&read| needed[read as usize]).sum());
        for tensor in program.outputs(op) {
            needed[tensor as usize] = match program.sharing(op, tensor) {
                // Which input there will be is not known.
                _ if program.buffer(tensor) == Buffer::AnyInput => needs,
                Sharing::Persistent => 0,
                Sharing::PassedOn(read) => needed[read as usize],
                Sharing::MayTakeOver | Sharing::Own => {
                    makes += on_gpu(tensor);
                    on_gpu(tensor)
                }
            };
        }
        let Origin::Op(node) = program.origin(op) else { continue };
        let is_outside_loops = flow.frame(node) == FrameId::TOP && flow.output_frame(node) == FrameId::TOP;
        let makes_something = !program.outputs(op).is_empty() && matches!(program.place(op), Place::Gpu(_));
        let is_worth_it = needs < makes || is_view(outline, program, op, node);
        if is_outside_loops && makes_something && is_worth_it {
            is_late[op as usize] = true;
            if program.successors(op).len() == 1 {
                program
                    .outputs(op)
                    .for_each(|tensor| needed[tensor as usize] = needed[tensor as usize].min(needs));
            }
        }
    }
    is_late
}

/// Whether an op does nothing but to pass on a buffer to those who read it.
fn is_view(outline: &Outline, program: &Program, op: u32, node: NodeId) -> bool {
    let passes_on = outline.analysis().graph.op(node).facts().has(Fact::View);
    let mut on_gpu = program.outputs(op).filter(|&tensor| program.tensor_place(tensor) != Place::Host);
    let is_passed_on = |tensor| matches!(program.buffer(tensor), Buffer::Input(_) | Buffer::AnyInput);
    // One that others only wait for would keep its input for nothing.
    let is_read = program.outputs(op).any(|tensor| program.readers(tensor) > 0);
    passes_on && is_read && on_gpu.all(is_passed_on)
}
