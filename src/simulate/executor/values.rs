//! What variables are and were: whose memory is there for those who read it before it was changed.

use super::Run;
use crate::order::Place;
use crate::simulate::changed_variables::ChangedVariables;
use crate::simulate::memory::Held;
use crate::simulate::outcome::{Observer, OutOfMemory};
use crate::simulate::program::{NONE, Program};

/// What a variable is until it is changed.
struct Value {
    variable: u32,
    /// How many inputs are still to read it.
    readers: u32,
    /// The memory that is given back with the last of them, if the variable has been changed.
    kept: Held,
}

/// The values of all variables that a step changes in place.
pub(super) struct Values<'a> {
    changed: &'a ChangedVariables,
    all: Vec<Value>,
    /// For each variable what it is now.
    current: Vec<u32>,
    /// For each tensor the value that it is; empty if no variable is changed.
    of_tensor: Vec<u32>,
}

impl<'a> Values<'a> {
    /// The step has not begun.
    pub fn new(program: &'a Program) -> Values<'a> {
        let changed = &*program.changed_variables;
        let variables = 0..changed.variables.len() as u32;
        let all = variables.clone().map(|variable| Value { variable, readers: 0, kept: Held::Nowhere });
        let tensors = if variables.is_empty() { 0 } else { program.tensors.len() };
        Values { changed, all: all.collect(), current: variables.collect(), of_tensor: vec![NONE; tensors] }
    }

    /// A tensor was made that has no memory of its own: it may be what a variable is, or another name of that.
    pub fn made(&mut self, op: u32, tensor: u32, passed_on: Option<u32>, readers: u32) {
        if self.of_tensor.is_empty() {
            return;
        }
        let value = match (self.changed.read_by(op), passed_on) {
            (Some(variable), _) => self.current[variable as usize],
            (None, Some(input)) => self.of_tensor[input as usize],
            (None, None) => NONE,
        };
        self.of_tensor[tensor as usize] = value;
        if let Some(value) = self.all.get_mut(value as usize) {
            value.readers += readers;
        }
    }
}

impl<O: Observer> Run<'_, O> {
    /// Copies the variables that an op changes in place while others are still to read what they were.
    pub(super) fn copy_changed(&mut self, op: u32) -> Result<(), OutOfMemory> {
        let all = self.values.changed;
        for &variable in all.changed_by(op) {
            let changed = all.variables[variable as usize];
            let place = Place::Gpu(changed.gpu);
            let value = self.values.current[variable as usize] as usize;
            if self.values.all[value].readers == 0 && !changed.is_always_copied {
                continue;
            }
            let held = self.allocate(op, place, changed.bytes)?;
            self.observer.kept(variable);
            // While there was no room, copies may have ended that read it.
            if self.values.all[value].readers == 0 {
                self.give_back(place, held, changed.bytes);
                self.observer.dropped(variable);
                continue;
            }
            self.values.all[value].kept = held;
            self.values.current[variable as usize] = self.values.all.len() as u32;
            self.values.all.push(Value { variable, readers: 0, kept: Held::Nowhere });
        }
        Ok(())
    }

    /// One input fewer is to read a tensor that may be what a variable is or was.
    pub(super) fn give_up_value(&mut self, tensor: u32) {
        let Some(&value) = self.values.of_tensor.get(tensor as usize) else { return };
        let Some(value) = self.values.all.get_mut(value as usize) else { return };
        value.readers -= 1;
        if value.readers > 0 {
            return;
        }
        let variable = value.variable;
        let held = std::mem::replace(&mut value.kept, Held::Nowhere);
        if !matches!(held, Held::Nowhere) {
            let changed = self.values.changed.variables[variable as usize];
            self.give_back(Place::Gpu(changed.gpu), held, changed.bytes);
            self.observer.dropped(variable);
        }
    }
}
