//! Memory for what ops make: taken when they are launched, given back with the last who reads it.

use std::collections::HashMap;

use super::Run;
use crate::order::Place;
use crate::simulate::Allocator;
use crate::simulate::buffers::Sharing;
use crate::simulate::initial::Moved;
use crate::simulate::memory::{Held, Memory};
use crate::simulate::outcome::{Holder, Observer, OutOfMemory, Piece};
use crate::simulate::pool::Chunk;
use crate::simulate::program::{NONE, Op};

impl<O: Observer> Run<'_, O> {
    /// Gives a variable the memory of what is assigned to it, and its own to that, which is given back when nobody reads it any more; or
    /// takes memory for it.
    pub(super) fn move_variable(&mut self, op: u32, moved: Moved) -> Result<(), OutOfMemory> {
        if moved.is_taken {
            let place = Place::Gpu(moved.gpu);
            let taken = self.allocate(op, place, moved.bytes)?;
            if let Some(home) = self.gpus[usize::from(moved.gpu)].homes.get_mut(&moved.number) {
                let before = std::mem::replace(home, taken);
                self.give_back(place, before, moved.bytes);
            } else {
                self.give_back(place, taken, moved.bytes);
            }
            return Ok(());
        }
        let value = self.program.reads.row(op as usize).iter().rev().copied().find(|&value| value != NONE);
        let Some(buffer) = value.and_then(|value| self.buffers.buffer_of(value)) else { return Ok(()) };
        let tensor = &self.program.tensors[buffer as usize];
        let Some(home) = self.gpus[usize::from(moved.gpu)].homes.get_mut(&moved.number) else {
            return Ok(());
        };
        let held = &mut self.held[buffer as usize];
        let is_own = tensor.place == Place::Gpu(moved.gpu) && tensor.bytes == moved.bytes;
        if is_own && !matches!(held, Held::Nowhere) {
            std::mem::swap(home, held);
        }
        Ok(())
    }

    /// Finds a buffer for each output. Whether nobody reads one of them.
    pub(super) fn make_outputs(&mut self, op: u32) -> Result<bool, OutOfMemory> {
        let program = self.program;
        let mut unread = false;
        let mut outputs = self.buffers.run(op);
        while let Some(made) = self.buffers.make(&mut outputs) {
            let tensor = &program.tensors[made.tensor as usize];
            unread |= tensor.uses == 0;
            let Some(buffer) = made.buffer else {
                let passed_on = match program.sharing(op, made.tensor) {
                    Sharing::PassedOn(input) => Some(input),
                    _ => None,
                };
                self.values.made(op, made.tensor, passed_on, tensor.uses);
                continue;
            };
            if made.is_taken_over {
                self.observer.taken_over(self.host_seconds, made.tensor, buffer);
            }
            if made.has_own() && tensor.bytes > 0 {
                self.held[made.tensor as usize] = self.allocate(op, tensor.place, tensor.bytes)?;
                self.observer.allocated(made.tensor, tensor.place, tensor.bytes);
            }
        }
        Ok(unread)
    }

    /// Takes the scratch memory of an op's kernel, piece by piece.
    pub(super) fn take_workspace(&mut self, op: u32, entry: &Op) -> Result<Vec<(Held, u64)>, OutOfMemory> {
        match entry.from {
            Place::Gpu(_) => {
                let pieces = entry.workspace.pieces();
                pieces.map(|bytes| Ok((self.allocate(op, entry.from, bytes)?, bytes))).collect()
            }
            Place::Host => Ok(Vec::new()),
        }
    }

    /// One input fewer is to read a tensor.
    pub(super) fn give_up(&mut self, tensor: u32) {
        if let Some(buffer) = self.buffers.give_up(tensor) {
            self.free(buffer);
        }
        self.give_up_value(tensor);
    }

    pub(super) fn free(&mut self, buffer: u32) {
        let tensor = &self.program.tensors[buffer as usize];
        let held = std::mem::replace(&mut self.held[buffer as usize], Held::Nowhere);
        if !matches!(held, Held::Nowhere) {
            self.give_back(tensor.place, held, tensor.bytes);
            self.observer.freed(buffer);
        }
    }

    /// Takes memory; where there is none, waits for copies to give up theirs.
    pub(super) fn allocate(&mut self, op: u32, place: Place, bytes: u64) -> Result<Held, OutOfMemory> {
        let Place::Gpu(number) = place else {
            self.host_bytes += bytes;
            self.host_peak_bytes = self.host_peak_bytes.max(self.host_bytes);
            self.observer.memory(self.host_seconds, place, self.host_bytes);
            return Ok(Held::Counted);
        };
        let number = usize::from(number);
        let mut was_computed = false;
        loop {
            let gpu = &mut self.gpus[number];
            if let Some(held) = gpu.memory.allocate(bytes) {
                let used = gpu.memory.used_bytes();
                if used > gpu.outcome.peak_bytes {
                    gpu.outcome.peak_bytes = used;
                    gpu.outcome.peak_op = Some(op);
                    gpu.outcome.peak_seconds = self.host_seconds;
                }
                self.observer.memory(self.host_seconds, place, used);
                return Ok(held);
            }
            let waited_from = self.host_seconds;
            let goes_on = match self.machine.allocator {
                Allocator::BestFit => self.others_go_on()? || self.complete_next(),
                Allocator::Async => {
                    self.complete_until(self.host_seconds.max(self.gpus[number].compute));
                    self.host_seconds = self.host_seconds.max(self.gpus[number].compute);
                    !std::mem::replace(&mut was_computed, true)
                }
            };
            if !goes_on {
                return Err(OutOfMemory {
                    gpu: number,
                    op: Some(op),
                    wanted_bytes: bytes,
                    used_bytes: self.gpus[number].memory.used_bytes(),
                    pieces: self.pieces(number),
                });
            }
            self.observer.turns_to(op);
            self.gpus[number].outcome.waited_seconds += self.host_seconds - waited_from;
        }
    }

    /// What is where in a GPU's pool.
    fn pieces(&self, gpu: usize) -> Vec<Piece> {
        let Memory::Pool(pool) = &self.gpus[gpu].memory else { return Vec::new() };
        let mut holders = HashMap::new();
        for (held, tensor) in self.held.iter().zip(0u32..) {
            let is_here = self.program.tensors[tensor as usize].place == Place::Gpu(gpu as u16);
            if let (Held::Chunk(chunk), true) = (held, is_here) {
                holders.insert(*chunk, Holder::Tensor(self.buffers.written_last(tensor)));
            }
        }
        let holder = |chunk: Option<Chunk>| match chunk {
            Some(chunk) => holders.get(&chunk).copied().unwrap_or(Holder::Other),
            None => Holder::Nobody,
        };
        pool.chunks().map(|(bytes, chunk)| Piece { bytes, holder: holder(chunk) }).collect()
    }

    pub(super) fn give_back(&mut self, place: Place, held: Held, bytes: u64) {
        let used = match place {
            Place::Host => {
                self.host_bytes -= bytes;
                self.host_bytes
            }
            Place::Gpu(number) => {
                let gpu = &mut self.gpus[usize::from(number)];
                gpu.memory.free(held, bytes);
                gpu.memory.used_bytes()
            }
        };
        self.observer.memory(self.host_seconds, place, used);
    }
}
