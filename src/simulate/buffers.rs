//! In which buffer a tensor is: its own, or that of another.
//!
//! All that knows memory asks here: the executor, which follows buffers as ops are launched, the planner, which follows them in its order,
//! and those who only want to know whose buffer is passed on, whatever else is alive.

use super::program::{Buffer, NONE, Program};

/// What an output's buffer is, by what its entry reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// It is there in each step anyway.
    Persistent,
    /// It is the buffer of this input, whoever else reads that, or of what an equal op makes.
    PassedOn(u32),
    /// It is that of an input which dies, or else its own.
    MayTakeOver,
    /// It is its own.
    Own,
}

impl Program {
    /// Whose buffer an output of an entry is in. What passes on something that no step makes is there in each step too.
    pub fn sharing(&self, op: u32, output: u32) -> Sharing {
        let reads = self.reads.row(op as usize);
        let passed_on = |input: Option<u32>| match input {
            Some(input) if input != NONE => Sharing::PassedOn(input),
            _ => Sharing::Persistent,
        };
        match self.buffer(output) {
            Buffer::Persistent => Sharing::Persistent,
            Buffer::Input(slot) => passed_on(reads.get(slot as usize).copied()),
            Buffer::Same(tensor) => Sharing::PassedOn(tensor),
            Buffer::AnyInput => passed_on(reads.iter().copied().find(|&input| input != NONE)),
            Buffer::DyingInput => Sharing::MayTakeOver,
            Buffer::Own => Sharing::Own,
        }
    }
}

/// Follows buffers as entries run, in whatever order.
#[derive(Debug)]
pub struct BufferTracker<'a> {
    program: &'a Program,
    /// For each tensor the one whose buffer it is in.
    buffers: Vec<u32>,
    /// For each buffer how many inputs are still to read it.
    readers: Vec<u32>,
    /// For each buffer the tensor that was written to it last.
    written: Vec<u32>,
}

/// The outputs of an entry that runs now.
#[derive(Debug)]
pub struct Outputs {
    op: u32,
    next: u32,
    end: u32,
    /// Whether one of them has taken an input's buffer over: only one can.
    has_taken: bool,
}

/// A tensor that was made, and its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// The tensor.
    pub tensor: u32,
    /// The one whose buffer it is in; none if that is there in each step anyway.
    pub buffer: Option<u32>,
    /// Whether it is written over what the buffer held, which nobody else is to read any more.
    pub is_taken_over: bool,
}

impl Made {
    /// Whether it has a buffer of its own.
    pub fn has_own(&self) -> bool {
        self.buffer == Some(self.tensor)
    }
}

impl<'a> BufferTracker<'a> {
    /// Nothing has run yet.
    pub fn new(program: &'a Program) -> BufferTracker<'a> {
        let tensors = program.tensor_count();
        let written = (0..tensors as u32).collect();
        BufferTracker { program, buffers: vec![NONE; tensors], readers: vec![0; tensors], written }
    }

    /// An entry runs: what it makes comes from [`BufferTracker::make`].
    pub fn run(&self, op: u32) -> Outputs {
        let outputs = self.program.outputs(op);
        Outputs { op, next: outputs.start, end: outputs.end, has_taken: false }
    }

    /// Makes the next of an entry's outputs, if there is one left.
    pub fn make(&mut self, outputs: &mut Outputs) -> Option<Made> {
        let tensor = outputs.next;
        if tensor == outputs.end {
            return None;
        }
        outputs.next += 1;
        let buffer = match self.program.sharing(outputs.op, tensor) {
            Sharing::Persistent => NONE,
            Sharing::PassedOn(input) => self.buffers[input as usize],
            Sharing::MayTakeOver if !outputs.has_taken => {
                let taken = self.dying_input(outputs.op, tensor);
                outputs.has_taken = taken.is_some();
                taken.unwrap_or(tensor)
            }
            Sharing::MayTakeOver | Sharing::Own => tensor,
        };
        self.buffers[tensor as usize] = buffer;
        if buffer == NONE {
            return Some(Made { tensor, buffer: None, is_taken_over: false });
        }
        self.readers[buffer as usize] += self.program.readers(tensor);
        let is_taken_over = buffer != tensor && self.program.buffer(tensor) == Buffer::DyingInput;
        if is_taken_over {
            self.written[buffer as usize] = tensor;
        }
        Some(Made { tensor, buffer: Some(buffer), is_taken_over })
    }

    /// The first input's buffer that an output can be written over: nobody else is to read it, and the input has its size and place. The
    /// buffer may be larger, if the input is a part of it.
    fn dying_input(&self, op: u32, output: u32) -> Option<u32> {
        let tensors = &self.program.tensors;
        let tensor = &tensors[output as usize];
        let inputs = self.program.reads.row(op as usize).iter();
        let buffers = inputs.filter_map(|&input| Some((input, self.buffer_of(input)?)));
        let mut dying = buffers.filter(|&(input, buffer)| {
            self.readers[buffer as usize] == 1
                && tensors[input as usize].bytes == tensor.bytes
                && tensors[buffer as usize].place == tensor.place
        });
        dying.next().map(|(_, buffer)| buffer)
    }

    /// The buffer that a tensor is in; none if it is there in each step anyway, or not made yet.
    pub fn buffer_of(&self, tensor: u32) -> Option<u32> {
        self.buffers.get(tensor as usize).copied().filter(|&buffer| buffer != NONE)
    }

    /// The tensor that was written last to the buffer that was made for another: what is in it now.
    pub fn written_last(&self, buffer: u32) -> u32 {
        self.written.get(buffer as usize).copied().unwrap_or(buffer)
    }

    /// One input fewer is to read a tensor. Its buffer, if that was the last one.
    pub fn give_up(&mut self, tensor: u32) -> Option<u32> {
        let buffer = self.buffer_of(tensor)?;
        let readers = &mut self.readers[buffer as usize];
        *readers -= 1;
        (*readers == 0).then_some(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::{Op, Origin, Tensor};
    use super::*;
    use crate::cost::Workspace;
    use crate::graph::{NodeId, Rows};
    use crate::order::Place;

    /// A program of ops: which tensors each reads, and which it makes, of 256 bytes each.
    fn program(all: &[(&[u32], &[Buffer])]) -> Program {
        let place = Place::Gpu(0);
        let (mut ops, mut tensors, mut reads): (Vec<Op>, Vec<Tensor>, Vec<(usize, u32)>) = Default::default();
        for (number, (inputs, outputs)) in all.iter().enumerate() {
            reads.extend(inputs.iter().map(|&input| (number, input)));
            ops.push(Op {
                origin: Origin::Op(NodeId(number as u32)),
                from: place,
                to: place,
                receiver: place,
                is_copy: false,
                is_expensive: false,
                seconds: 0.0,
                workspace: Workspace::NONE,
                copies: 0,
                waits: 0,
                first_tensor: tensors.len() as u32,
                tensors: outputs.len() as u32,
            });
            let tensor = |&buffer| Tensor { bytes: 256, content_bytes: 256, place, buffer, uses: 0 };
            tensors.extend(outputs.iter().map(tensor));
        }
        for &(_, input) in reads.iter().filter(|(_, input)| *input != NONE) {
            tensors[input as usize].uses += 1;
        }
        let none = || std::iter::empty::<(usize, u32)>();
        Program {
            reads: Rows::group(all.len(), || reads.iter().copied(), NONE),
            successors: Rows::group(all.len(), none, NONE),
            ops,
            tensors,
            persistent: vec![Vec::new()],
            initial: Default::default(),
            changed_variables: Default::default(),
            merged: Default::default(),
            rests: Vec::new(),
            parts: Default::default(),
        }
    }

    /// What became of the tensors of a program as all ran in their order.
    #[derive(Debug, Default)]
    struct Followed {
        /// For each the one whose buffer it is in, and whether it took that over.
        made: Vec<(Option<u32>, bool)>,
        /// In which order buffers were not needed any more.
        unread: Vec<u32>,
        /// For each buffer what was written to it last.
        written: Vec<u32>,
    }

    fn followed(program: &Program) -> Followed {
        let mut buffers = BufferTracker::new(program);
        let mut followed = Followed::default();
        for op in 0..program.len() as u32 {
            let mut outputs = buffers.run(op);
            while let Some(made) = buffers.make(&mut outputs) {
                assert_eq!(made.has_own(), made.buffer == Some(made.tensor));
                assert_eq!(buffers.buffer_of(made.tensor), made.buffer);
                followed.made.push((made.buffer, made.is_taken_over));
            }
            for read in program.reads(op).flatten() {
                followed.unread.extend(buffers.give_up(read));
            }
        }
        followed.written =
            (0..program.tensor_count() as u32).map(|buffer| buffers.written_last(buffer)).collect();
        followed
    }

    #[test]
    fn what_nobody_else_is_to_read_is_taken_over() {
        let program = program(&[
            (&[], &[Buffer::Own]),
            // Another name of the same buffer, so that it is still to be read when its first name is not.
            (&[0], &[Buffer::Input(0)]),
            (&[0], &[Buffer::DyingInput]),
            (&[1, 2], &[Buffer::DyingInput, Buffer::DyingInput]),
            (&[3, 4], &[]),
        ]);
        let Followed { made, unread, written } = followed(&program);
        let own = |tensor| (Some(tensor), false);
        // Of two that could take something over only the first does.
        assert_eq!(made, [own(0), own(0), own(2), (Some(0), true), own(4)]);
        assert_eq!(unread, [2, 0, 4]);
        // Another name writes nothing.
        assert_eq!(written, [3, 1, 2, 3, 4]);
    }

    #[test]
    fn what_is_there_anyway_stays_so_under_any_name() {
        let program = program(&[
            (&[], &[Buffer::Persistent, Buffer::Own]),
            (&[0], &[Buffer::Input(0)]),
            (&[NONE, 1], &[Buffer::AnyInput]),
            (&[NONE], &[Buffer::Input(0)]),
            (&[2, 3], &[]),
        ]);
        let Followed { made, unread, .. } = followed(&program);
        assert_eq!(made, [(None, false), (Some(1), false), (None, false), (Some(1), false), (None, false)]);
        assert_eq!(unread, [1]);
        assert_eq!(program.sharing(2, 3), Sharing::PassedOn(1));
        assert_eq!(program.sharing(3, 4), Sharing::Persistent);
    }
}
