//! A step in one order: when each buffer of a GPU is made and read.

use rustc_hash::FxHashMap as HashMap;

use crate::graph::{FrameId, NodeId, TensorId};
use crate::order::Place;
use crate::plan::tflms::Parameters;
use crate::plan::{Analysis, returnable};
use crate::simulate::{BufferTracker, Origin, Outline, Program};

use super::ids::{Id as _, LifeId, Position, SecondRunId, Table};
use super::room::Room;
use super::schedule::Order;

/// Who reads a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tune) enum Reader {
    /// An entry of the program.
    Entry(u32),
    /// The second run of an op.
    Again(SecondRunId),
}

/// A buffer is read, at a place of the order, as a certain tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tune) struct BufferUse {
    pub place: Position,
    pub tensor: u32,
    pub reader: Reader,
}

/// The life of a buffer in a GPU's memory.
#[derive(Debug, Clone)]
pub(in crate::tune) struct Life {
    pub gpu: u16,
    /// In whole chunks.
    pub bytes: u64,
    /// The place of the op that makes it.
    pub made: Position,
    /// By place.
    pub uses: Vec<BufferUse>,
}

impl Life {
    /// The last place at which it is needed.
    pub fn end(&self) -> Position {
        self.uses.last().map_or(self.made, |last| last.place)
    }

    /// The next place after this one at which it is read.
    pub fn next_use(&self, place: Position) -> Option<Position> {
        let next = self.uses.partition_point(|read| read.place <= place);
        self.uses.get(next).map(|read| read.place)
    }
}

/// A step in one order.
#[derive(Debug)]
pub(in crate::tune) struct Course<'a> {
    pub outline: &'a Outline<'a>,
    pub program: &'a Program,
    /// The entries as they run.
    pub order: Table<Position, u32>,
    /// For each entry its place in `order`.
    pub place_of: Vec<Option<Position>>,
    /// For each place when its op begins on its device if it waits for nothing but the ops before it there.
    pub seconds: Table<Position, f64>,
    /// The lives of all buffers in GPUs' memory.
    pub lives: Table<LifeId, Life>,
    /// For each tensor of the program the life of its buffer, if that is in a GPU's memory.
    pub life_of: Vec<Option<LifeId>>,
    /// For each tensor that the host makes, and each GPU that has a copy of it, the life of that.
    pub brought: HashMap<(TensorId, Place), LifeId>,
    /// For each tensor of the program the place at which it is made.
    pub made_at: Vec<Option<Position>>,
    /// For each tensor of the program the tensor of the graph that it is.
    pub tensor_ids: Vec<Option<TensorId>>,
    /// For each tensor of the program whether it may be swapped at all.
    pub can_leave: Vec<bool>,
    /// Buffers of up to so many bytes may leave though tensors in them are read later that have more bytes than it, all together. Each
    /// returns by a copy of its own, and no more than the buffer is counted.
    pub small_bytes: u64,
    /// For each tensor of the program its op, if that may run again.
    pub cheap_ops: Vec<Option<NodeId>>,
    /// For each place what its op takes that is not there after it or before it: what it makes, and scratch.
    pub own_bytes: Table<Position, i64>,
    /// For each GPU what is taken at each place, variables and constants included.
    pub rooms: Vec<Room>,
}

impl<'a> Course<'a> {
    /// Lays a program out in an order. `host_op_seconds` is what launching an op takes at least.
    pub fn new(
        outline: &'a Outline<'a>,
        program: &'a Program,
        order: Order,
        host_op_seconds: f64,
    ) -> Course<'a> {
        let order: Table<Position, u32> = order.into();
        let mut place_of = vec![None; program.len()];
        for (place, &op) in order.numbered() {
            place_of[op as usize] = Some(place);
        }
        let mut course = Course {
            outline,
            program,
            place_of,
            seconds: Table::default(),
            lives: Table::default(),
            life_of: vec![None; program.tensor_count()],
            brought: HashMap::default(),
            made_at: vec![None; program.tensor_count()],
            tensor_ids: vec![None; program.tensor_count()],
            can_leave: vec![false; program.tensor_count()],
            small_bytes: 0,
            cheap_ops: vec![None; program.tensor_count()],
            own_bytes: Table::filled(0, order.len()),
            rooms: Vec::new(),
            order,
        };
        course.follow_buffers();
        course.find_swappable();
        course.follow_clocks(host_op_seconds);
        course.fill_rooms();
        course
    }

    /// The place behind the last.
    pub fn end(&self) -> Position {
        Position::of(self.order.len())
    }

    /// The place of an op of the graph; none if no step runs it.
    pub fn place_of_node(&self, node: NodeId) -> Option<Position> {
        self.place_of[self.outline.entry(node)? as usize]
    }

    /// The life of the buffer that a tensor of the program is in, if that is in a GPU's memory.
    pub fn life_of(&self, tensor: u32) -> Option<&Life> {
        self.life_of[tensor as usize].map(|life| &self.lives[life])
    }

    /// The node that runs at a place; none if that is a copy.
    pub fn node_at(&self, place: Position) -> Option<NodeId> {
        match self.program.origin(self.order[place]) {
            Origin::Op(node) => Some(node),
            _ => None,
        }
    }

    /// Finds out which tensors share buffers, as the executor does when it runs in this order.
    fn follow_buffers(&mut self) {
        let program = self.program;
        let graph = self.outline.analysis().graph;
        let mut buffers = BufferTracker::new(program);
        for (place, &op) in self.order.numbered() {
            let mut outputs = buffers.run(op);
            while let Some(made) = buffers.make(&mut outputs) {
                let tensor = made.tensor;
                self.made_at[tensor as usize] = Some(place);
                let Some(buffer) = made.buffer else { continue };
                let bytes = program.tensor_bytes(buffer);
                if made.has_own()
                    && bytes > 0
                    && let Place::Gpu(gpu) = program.tensor_place(tensor)
                {
                    let life = self.lives.push(Life { gpu, bytes, made: place, uses: Vec::new() });
                    self.life_of[tensor as usize] = Some(life);
                    self.own_bytes[place] += bytes as i64;
                } else {
                    self.life_of[tensor as usize] = self.life_of[buffer as usize];
                }
            }
            for read in program.reads(op).flatten() {
                buffers.give_up(read);
                if let Some(life) = self.life_of[read as usize] {
                    let life = &mut self.lives[life];
                    let read = BufferUse { place, tensor: read, reader: Reader::Entry(op) };
                    if life.uses.last() != Some(&read) {
                        life.uses.push(read);
                    }
                }
            }
            if matches!(program.place(op), Place::Gpu(_)) {
                self.own_bytes[place] += program.workspace_bytes(op) as i64;
            }
            match program.origin(op) {
                Origin::Op(node) => {
                    for (tensor, id) in program.outputs(op).zip(graph.outputs(node)) {
                        self.tensor_ids[tensor as usize] = Some(id);
                    }
                }
                // What a GPU has of a tensor of the host is this copy.
                Origin::Copy(id) if self.outline.placement().output(id) == Place::Host => {
                    for tensor in program.outputs(op) {
                        self.tensor_ids[tensor as usize] = Some(id);
                        if let Some(life) = self.life_of[tensor as usize] {
                            self.brought.insert((id, program.tensor_place(tensor)), life);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Keeps what filters, or the choice of GPUs to edit, do not let leave.
    pub fn filter(&mut self, parameters: &Parameters) {
        let graph = self.outline.analysis().graph;
        let patterns = parameters.gpu_patterns().unwrap_or_default();
        let is_edited: Vec<bool> = self
            .outline
            .placement()
            .gpus()
            .iter()
            .map(|gpu| patterns.is_empty() || patterns.iter().any(|pattern| gpu.matches(pattern)))
            .collect();
        for (tensor, id) in self.tensor_ids.iter().enumerate() {
            let Some(life) = self.life_of[tensor].filter(|_| self.can_leave[tensor]) else { continue };
            self.can_leave[tensor] = is_edited[usize::from(self.lives[life].gpu)]
                && id.is_some_and(|id| {
                    let readers = || graph.uses(id).iter().map(|reader| reader.node);
                    parameters.filters.admit_producer(graph, graph.producer(id))
                        && readers().all(|node| parameters.filters.admit_consumer(graph, node))
                });
        }
    }

    fn find_swappable(&mut self) {
        let Analysis { graph, ref_variables, flow, .. } = self.outline.analysis();
        for (tensor, id) in self.tensor_ids.iter().enumerate() {
            self.can_leave[tensor] = self.life_of[tensor].is_some()
                && id.is_some_and(|id| {
                    let producer = graph.producer(id);
                    flow.output_frame(producer) == FrameId::TOP
                        && !self.outline.is_in_list(id)
                        && (returnable(graph, ref_variables, id).is_ok() || self.outline.is_host_op(producer))
                });
        }
    }

    fn follow_clocks(&mut self, host_op_seconds: f64) {
        let mut clocks = vec![0.0f64; self.program.persistent_bytes().count() + 1];
        for &op in self.order.iter() {
            let place = self.program.place(op);
            let host = clocks[0];
            let clock = &mut clocks[place.index()];
            *clock = clock.max(host);
            self.seconds.push(*clock);
            if !self.program.is_copy(op) {
                *clock += self.program.seconds(op);
            }
            clocks[0] += host_op_seconds;
        }
    }

    fn fill_rooms(&mut self) {
        let places = self.order.len();
        let (first, end) = (Position::new(0), self.end());
        self.rooms = self
            .program
            .persistent_bytes()
            .map(|bytes| {
                let mut room = Room::new(places);
                room.add(first, end, bytes as i64);
                room
            })
            .collect();
        for life in self.lives.iter() {
            self.rooms[usize::from(life.gpu)].add(life.made, life.end().next(), life.bytes as i64);
        }
        for (place, &op) in self.order.numbered() {
            if let Place::Gpu(gpu) = self.program.place(op) {
                let scratch = self.program.workspace_bytes(op);
                self.rooms[usize::from(gpu)].add(place, place.next(), scratch as i64);
            }
        }
    }
}
