//! What is known about ops beyond their signatures: how their kernels treat memory, what they compute, and what may be done with them.
//!
//! All of it stands in one table, an op a row ([`rows`]). Who wants another op to be swapped, computed again or priced as it should be,
//! writes a row. The checker has lists of its own (`verify::op_facts`), so that no row deceives both; a test holds them against each
//! other.

mod rows;
mod work;

#[cfg(test)]
mod tests;

pub use work::{Pass, ScratchRule, Traffic, WorkKind};

/// Something that is known about an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// It is a part of control flow of version 1.
    Flow(Flow),

    /// Its first output is the buffer of its first input, whoever else reads that. A `Merge` passes on whichever input is alive.
    PassesOn,
    /// Each of its outputs is the buffer of its first input.
    PassesOnToAll,
    /// Each of its outputs is the buffer of the input of the same number.
    PassesEachOn,
    /// It does nothing but give a buffer another name, shape or type.
    View,
    /// Its outputs may be the buffers of its inputs, or parts of them: always, or where it has nothing to do, as a sum over no axes
    /// (`tests/library/buffers.rs` asks TensorFlow).
    MayPassOn,
    /// Its kernels write the result over an input of the same type and size that nobody else reads.
    ///
    /// Memory depends on it: a chain of such ops runs in one tensor's room. The CPU's and the GPU's kernels of these ops are
    /// mostly instances of the same C++ class. So these are the ops whose CPU kernel was seen to allocate nothing when
    /// its input dies, and some of the same families. Batch norm is not among them, forward or backward.
    TakesOver,
    /// It hands its input on as it is when the output is as large.
    ///
    /// So do TensorFlow's kernels (`tests/library/buffers.rs` asks them): a gradient through an op that broadcasts is summed over no axes at
    /// all where nothing was broadcast, and costs nothing then.
    Resizes,
    /// Its outputs lie in memory that is there in each step anyway: variables, what reads and updates them in place, and constants.
    Persistent,
    /// It asks a tensor for its shape only.
    ReadsNoValues,
    /// TensorFlow's shape functions leave its outputs from this one on without a shape, although the kernels make so many bytes.
    Reserve {
        /// The first such output.
        from: u32,
        /// What each of them has.
        bytes: u64,
    },

    /// It holds a variable's buffer, and gives out a reference to it.
    HoldsReference,
    /// It takes a reference and does not write to what it refers to.
    ReadsReference,
    /// It keeps a value from step to step, or names what does.
    KeepsValue,
    /// It gives a variable a value, whatever the variable held before.
    Assigns,
    /// The variable of its first input lies from then on where the value lies that it is given, which is not copied.
    MovesVariable,
    /// It gives out what a variable holds.
    HandsValueOn,
    /// It asks whether a variable holds a value.
    AsksForValue,
    /// It writes to the resource variable of its first input.
    WritesResource,
    /// TensorFlow calls it stateful, so that equal ones are not merged, but it only reads a state, gives a handle to it, or keeps it for
    /// its run alone.
    HasNoEffect,
    /// A thread of the host runs it itself, and never hands it on to another one: its kernel says that it is not expensive
    /// (`OpKernel::IsExpensive`). All others are taken to be expensive, until some hundred runs have shown that they are not
    /// (`KernelStats`).
    Cheap,
    /// It can be fed.
    Fed,
    /// A graph takes in data by it.
    TakesData,

    /// It gives the same bits each time, and a second run of it may take less time than a copy of what it makes: on a PCIe link even
    /// convolutions do. (Their gradients do not: libraries add these up in no certain order.)
    Again,
    /// It adds up its inputs, and the order depends on who else reads these: TensorFlow writes the sum over the first input that nobody else
    /// reads any more, and adds the others to that one (`AddNOp`). Of three inputs or more, the last bit depends on the order.
    OrderDepends,
    /// It has no state, and is no function of its inputs all the same.
    NoFunction,
    /// TensorFlow does not compute it before the first step, although it has no state and its inputs may be constants.
    NotFolded,

    /// It adds this input to the stack, list or TensorArray of its first.
    Adds(usize),
    /// It makes a list of its first input's parts.
    MakesList,
    /// It makes many elements of one tensor.
    Spreads,
    /// It takes elements off a stack, list or TensorArray.
    TakesOff,
    /// It takes elements off iterations before they are read, since it has little to wait for and iterations of version 1 overlap.
    RunsAhead,
    /// What it takes off it gives out in the same buffer.
    GivesElement,
    /// The list that it gives out is the one that it got, changed.
    SameList,
    /// All that it does is to begin a stack or a list, to keep an element in it, or to hand elements on as they were kept: one, or several
    /// joined. So it gives the same bits wherever it runs.
    KeepsElements,

    /// What it computes, unless memory alone decides how long it takes.
    Work(WorkKind),
    /// What it moves, if that is not each input and each output once.
    Moves(Traffic),
    /// What its kernel on a GPU takes beside its outputs. Of convolutions the work says so.
    Scratch(ScratchRule),

    /// How large its first output is at most.
    Shape(ShapeRule),
    /// It hands on the elements of its first input in another shape.
    Reshapes,
}

/// A part of control flow of version 1. Ops on references are the same parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Hands its input on to one of two outputs.
    Switch,
    /// Hands its input on to one of many outputs.
    SwitchMany,
    /// Hands on whichever input is alive.
    Merge,
    /// Leads into a loop.
    Enter,
    /// Leads out of a loop.
    Exit,
    /// Leads from one iteration into the next.
    NextIteration,
    /// Whether a loop goes on.
    LoopCond,
}

/// How large an op's first output is at most, where inputs are bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeRule {
    /// As large as its first input.
    LikeFirst,
    /// As large as this input.
    LikeInput(usize),
    /// It goes over the elements of several inputs, each broadcast to the others.
    Broadcast,
    /// It makes one value of all those along some axes.
    Reduction,
    /// It goes over windows of images, and leaves the number of channels to the inference: neither the batch nor the image grows.
    Windows,
    /// Its sizes are the values of this input.
    Given(usize),
}

/// All facts of one op.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Those of its own row first.
    all: Vec<Fact>,
}

impl Facts {
    /// The facts of the op of this name.
    pub(super) fn of(op: &str) -> Facts {
        let own = rows::OPS.binary_search_by_key(&op, |(name, _)| name).map(|row| rows::OPS[row].1);
        let families = rows::FAMILIES.iter().filter(|(start, _)| op.starts_with(start));
        let all = own.into_iter().chain(families.map(|(_, facts)| *facts)).flatten().copied();
        Facts { all: all.collect() }
    }

    /// Whether something is known of the op.
    pub fn has(&self, fact: Fact) -> bool {
        self.all.contains(&fact)
    }

    /// What the op is in control flow; none for most.
    pub fn flow(&self) -> Option<Flow> {
        self.find(|fact| if let Fact::Flow(flow) = fact { Some(flow) } else { None })
    }

    /// The input whose buffer an output is, whoever else reads it; none if it has a buffer of its own.
    pub fn passes_on(&self, output: u32) -> Option<u32> {
        self.find(|fact| match fact {
            Fact::PassesOn if output == 0 => Some(0),
            Fact::PassesOnToAll => Some(0),
            Fact::PassesEachOn => Some(output),
            _ => None,
        })
    }

    /// The bytes of an output whose shape TensorFlow does not tell.
    pub fn reserve_bytes(&self, output: u32) -> Option<u64> {
        self.find(|fact| match fact {
            Fact::Reserve { from, bytes } if output >= from => Some(bytes),
            _ => None,
        })
    }

    /// The input that the op adds to the stack, list or TensorArray of its first.
    pub fn adds(&self) -> Option<usize> {
        self.find(|fact| if let Fact::Adds(input) = fact { Some(input) } else { None })
    }

    /// How large the first output is at most.
    pub fn shape(&self) -> Option<ShapeRule> {
        self.find(|fact| if let Fact::Shape(rule) = fact { Some(rule) } else { None })
    }

    /// What the op's kernel on a GPU takes beside its outputs, if it is no convolution.
    pub fn scratch(&self) -> Option<ScratchRule> {
        self.find(|fact| if let Fact::Scratch(rule) = fact { Some(rule) } else { None })
    }

    /// Whether the host counts the op as cheap: so it does with control flow, and with what is fed.
    pub fn is_cheap(&self) -> bool {
        self.flow().is_some() || self.has(Fact::Cheap) || self.has(Fact::Fed)
    }

    /// What sort of work the op is. What passes a buffer on is free, unless its row says otherwise.
    pub fn work(&self) -> WorkKind {
        let said = self.find(|fact| match fact {
            Fact::Work(work) => Some(work),
            Fact::Moves(traffic) => Some(WorkKind::Memory(traffic)),
            _ => None,
        });
        let unsaid = || match self.passes_on(0) {
            Some(_) => WorkKind::Free,
            None => WorkKind::Memory(Traffic::Everything { again: &[] }),
        };
        said.unwrap_or_else(unsaid)
    }

    fn find<T>(&self, wanted: impl FnMut(Fact) -> Option<T>) -> Option<T> {
        self.all.iter().copied().find_map(wanted)
    }
}
