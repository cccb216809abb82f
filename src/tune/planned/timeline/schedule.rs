//! In which order a step's ops run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::order::Place;
use crate::simulate::{Machine, Observer, Program, simulate};

/// An order of a program's entries in which each comes after all that it waits for.
pub(in crate::tune) type Order = Vec<u32>;

/// The order in which TensorFlow's executor launches the entries when memory has no end.
pub(in crate::tune::planned) fn natural(program: &Program, machine: &Machine) -> Order {
    #[derive(Default)]
    struct Launches(Order);
    impl Observer for Launches {
        fn launch(&mut self, op: u32, _: f64, _: f64) {
            self.0.push(op);
        }
    }
    let mut launches = Launches::default();
    // Counting memory without a limit cannot run out of it.
    let _ = simulate(program, &machine.with_memory(Vec::new()), &mut launches);
    launches.0
}

/// An order with a low peak: what gives back more memory than it takes runs as soon as it can (gradients of weights, updates);
/// else what can go on with what was made last, so that of several branches one is finished before the next is begun.
///
/// Both are what a compiler does to keep few registers alive (Sethi and Ullman; here without their proof, as steps are no
/// trees).
pub(in crate::tune::planned) fn frugal(program: &Program) -> Order {
    let mut greedy = Greedy::new(program);
    let mut order = Vec::with_capacity(program.len());
    while let Some(op) = greedy.next() {
        order.push(op);
        greedy.run(op);
    }
    order
}

/// What comes first: the least growth of memory, in classes; of what takes memory for nothing that is there, the smallest; then
/// what became ready last; then the order of the file.
type Rank = Reverse<(Growth, u64, Reverse<u32>, u32)>;

/// What running an op does to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Growth {
    /// It takes no more than it gives back.
    None,
    /// It takes more, for what it reads there.
    Some,
    /// It takes memory and reads nothing there, as what fills a tensor with zeros: such a thing has time until it is needed.
    FromNothing,
}

struct Greedy<'a> {
    program: &'a Program,
    waits: Vec<u32>,
    /// For each tensor how many inputs are still to read it.
    readers: Vec<u32>,
    ready: BinaryHeap<(Rank, u32)>,
    clock: u32,
    is_done: Vec<bool>,
    /// For each tensor the entries that read it: the last of them frees it, and so may come earlier than it seemed.
    all_readers: Vec<Vec<u32>>,
}

impl<'a> Greedy<'a> {
    fn new(program: &'a Program) -> Greedy<'a> {
        let count = program.len();
        let mut waits = vec![0u32; count];
        let mut all_readers = vec![Vec::new(); program.tensor_count()];
        for op in 0..count as u32 {
            for &next in program.successors(op) {
                waits[next as usize] += 1;
            }
            for tensor in program.reads(op).flatten() {
                all_readers[tensor as usize].push(op);
            }
        }
        let readers = (0..program.tensor_count() as u32).map(|tensor| program.readers(tensor)).collect();
        let mut greedy = Greedy {
            program,
            waits,
            readers,
            ready: BinaryHeap::new(),
            clock: 0,
            is_done: vec![false; count],
            all_readers,
        };
        for op in 0..count as u32 {
            if greedy.waits[op as usize] == 0 {
                greedy.offer(op);
            }
        }
        greedy
    }

    /// The bytes on GPUs that running an op takes, less those that it gives back.
    fn growth(&self, op: u32) -> i64 {
        let program = self.program;
        let on_gpu = |tensor: u32| match program.tensor_place(tensor) {
            Place::Gpu(_) => program.tensor_bytes(tensor) as i64,
            Place::Host => 0,
        };
        let takes: i64 =
            program.outputs(op).filter(|&tensor| program.buffer(tensor).may_be_own()).map(on_gpu).sum();
        let mut gives = 0;
        for tensor in program.reads(op).flatten() {
            let is_last = self.readers[tensor as usize] <= 1;
            let is_own = program.buffer(tensor).may_be_own();
            gives += if is_last && is_own { on_gpu(tensor) } else { 0 };
        }
        takes - gives
    }

    fn offer(&mut self, op: u32) {
        self.clock += 1;
        let bytes = self.growth(op);
        let on_gpu = |tensor| matches!(self.program.tensor_place(tensor), Place::Gpu(_));
        let (growth, size) = match bytes {
            ..=0 => (Growth::None, 0),
            _ if self.program.reads(op).flatten().any(on_gpu) => (Growth::Some, 0),
            _ => (Growth::FromNothing, bytes.unsigned_abs()),
        };
        self.ready.push((Reverse((growth, size, Reverse(self.clock), op)), op));
    }

    fn next(&mut self) -> Option<u32> {
        loop {
            let (_, op) = self.ready.pop()?;
            // An op may have been offered again, when it turned out to free more.
            if !self.is_done[op as usize] {
                return Some(op);
            }
        }
    }

    fn run(&mut self, op: u32) {
        let program = self.program;
        self.is_done[op as usize] = true;
        for tensor in program.reads(op).flatten() {
            let left = &mut self.readers[tensor as usize];
            *left = left.saturating_sub(1);
            if *left == 1 {
                let last = self.all_readers[tensor as usize].iter().copied();
                let mut waiting =
                    last.filter(|&reader| !self.is_done[reader as usize] && self.waits[reader as usize] == 0);
                if let Some(reader) = waiting.next_back() {
                    self.offer(reader);
                }
            }
        }
        // The first of the file comes first: it is offered last.
        for &next in program.successors(op).iter().rev() {
            let waits = &mut self.waits[next as usize];
            *waits -= 1;
            if *waits == 0 {
                self.offer(next);
            }
        }
    }
}
