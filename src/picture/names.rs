//! What entries and tensors of a program are called.

use std::collections::HashMap;

use crate::graph::{Graph, TensorId};
use crate::simulate::{Origin, Program};

/// Names what a program runs, in the words of its graph.
#[derive(Debug)]
pub struct Names<'a> {
    graph: &'a Graph<'a>,
    program: &'a Program,
    /// For each swapped tensor the copy by which it leaves.
    swap_outs: HashMap<TensorId, u32>,
}

impl<'a> Names<'a> {
    /// For a program of this graph.
    pub fn new(graph: &'a Graph<'a>, program: &'a Program) -> Names<'a> {
        let mut swap_outs = HashMap::new();
        for op in 0..program.len() as u32 {
            let (Origin::Swap(tensor, _) | Origin::SwapOut(tensor)) = program.origin(op) else { continue };
            let read = program.reads(op).flatten().map(|read| program.maker(read));
            // A return may read the op that waits for the copy, and not the copy itself.
            for maker in read.filter(|&maker| matches!(program.origin(maker), Origin::Copy(_))) {
                swap_outs.insert(tensor, maker);
            }
        }
        Names { graph, program, swap_outs }
    }

    /// The copy by which a swapped tensor leaves.
    pub fn swap_out(&self, tensor: TensorId) -> Option<u32> {
        self.swap_outs.get(&tensor).copied()
    }

    /// An op's own name, or what is done to which tensor.
    pub fn entry(&self, op: u32) -> String {
        let name = |tensor| self.graph.tensor_name(tensor);
        match self.program.origin(op) {
            Origin::Op(node) => self.graph.name(node).to_string(),
            Origin::Recomputation(node, _) => format!("second run of {}", self.graph.name(node)),
            Origin::Swap(tensor, _) => format!("swap of {}", name(tensor)),
            Origin::SwapOut(tensor) => format!("end of the swap-out of {}", name(tensor)),
            Origin::Copy(tensor) if self.swap_out(tensor) == Some(op) => {
                format!("swap-out of {}", name(tensor))
            }
            Origin::Copy(tensor) => format!("copy of {}", name(tensor)),
            Origin::SwapIn(tensor, _) => format!("swap-in of {}", name(tensor)),
            Origin::Signal(before) => format!("signal of {}", self.entry(before)),
        }
    }

    /// A tensor of the program: `NODE:0`, or the copy that it is.
    pub fn tensor(&self, tensor: u32) -> String {
        if let Some(of) = self.program.rest_of(tensor) {
            return format!("{} of other iterations", self.graph.tensor_name(of));
        }
        let maker = self.program.maker(tensor);
        let output = tensor - self.program.outputs(maker).start;
        match self.program.origin(maker) {
            Origin::Op(_) | Origin::Recomputation(..) => format!("{}:{output}", self.entry(maker)),
            _ => self.entry(maker),
        }
    }
}
