//! What no plan can go below.

use super::Outcome;
use super::buffers::Sharing;
use super::program::{NONE, Program};
use crate::order::Place;

/// The limits of physics for one GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Floors {
    /// What is persistent, and what the most demanding op reads, writes and needs as scratch. No swapping goes below it.
    pub memory_bytes: u64,
    /// The op that sets it: an entry of the program.
    pub memory_op: Option<u32>,
    /// How long it takes to compute each op once.
    pub step_seconds: f64,
}

/// For each GPU the floors of a step. `program` is the step without a plan, but with what can be on the host there; `unlimited` what came
/// of the graph as it is when memory had no end.
pub fn floors(program: &Program, unlimited: &Outcome) -> Vec<Floors> {
    let persistent: Vec<u64> = program.persistent_bytes().collect();
    let mut floors: Vec<Floors> =
        persistent.iter().map(|&memory_bytes| Floors { memory_bytes, ..Floors::default() }).collect();
    let buffers = buffers(program);
    let mut seen: Vec<u32> = Vec::new();
    for (op, entry) in program.ops.iter().enumerate() {
        let Place::Gpu(gpu) = entry.to else { continue };
        seen.clear();
        // Two names of one buffer are one buffer.
        let read = program.reads.row(op).iter().filter(|&&tensor| tensor != NONE);
        seen.extend(read.map(|&tensor| buffers[tensor as usize]).filter(|&buffer| buffer != NONE));
        seen.sort_unstable();
        seen.dedup();
        let on_gpu = |tensor: u32| {
            let tensor = &program.tensors[tensor as usize];
            if tensor.place == entry.to { tensor.bytes } else { 0 }
        };
        let read: u64 = seen.iter().map(|&tensor| on_gpu(tensor)).sum();
        let outputs = entry.first_tensor..entry.first_tensor + entry.tensors;
        let made = outputs.map(|tensor| match program.sharing(op as u32, tensor) {
            Sharing::Own => on_gpu(tensor),
            Sharing::MayTakeOver if !seen.iter().any(|&input| on_gpu(input) == on_gpu(tensor)) => {
                on_gpu(tensor)
            }
            _ => 0,
        });
        let bytes = persistent[usize::from(gpu)] + read + made.sum::<u64>() + entry.workspace.bytes();
        let floor = &mut floors[usize::from(gpu)];
        if bytes > floor.memory_bytes {
            (floor.memory_bytes, floor.memory_op) = (bytes, Some(op as u32));
        }
    }
    for (floor, gpu) in floors.iter_mut().zip(&unlimited.gpus) {
        floor.step_seconds = gpu.compute_seconds;
    }
    floors
}

/// For each tensor the one whose buffer it is in; none for what is there in each step anyway.
fn buffers(program: &Program) -> Vec<u32> {
    let mut buffers: Vec<u32> = (0..program.tensor_count() as u32).collect();
    // Ops of the graph come in an order in which each input is known, and copies have buffers of their own.
    for op in 0..program.len() as u32 {
        for tensor in program.outputs(op) {
            match program.sharing(op, tensor) {
                Sharing::Persistent => buffers[tensor as usize] = NONE,
                Sharing::PassedOn(input) => buffers[tensor as usize] = buffers[input as usize],
                Sharing::MayTakeOver | Sharing::Own => {}
            }
        }
    }
    buffers
}
