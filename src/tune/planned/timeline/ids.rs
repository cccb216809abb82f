//! Numbers that say what they are numbers of, and flat arrays that only take the right ones.

use std::marker::PhantomData;
use std::num::NonZero;
use std::ops::{Index, IndexMut, Sub};

/// A number that finds something in a [`Table`].
pub(in crate::tune) trait Id: Copy {
    /// The id of an index.
    fn of(index: usize) -> Self;
    /// The index.
    fn index(self) -> usize;
}

/// Makes a type of numbers. One more than the number is kept, so that an `Option` of it is no larger.
macro_rules! ids {
    ($($(#[$about:meta])* $name:ident)*) => {
        $(
            $(#[$about])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub(in crate::tune) struct $name(NonZero<u32>);

            impl Id for $name {
                fn of(index: usize) -> $name {
                    $name::new(index as u32)
                }

                fn index(self) -> usize {
                    self.number() as usize
                }
            }

            impl $name {
                /// The one of a number.
                pub const fn new(number: u32) -> $name {
                    $name(NonZero::<u32>::MIN.saturating_add(number))
                }

                /// The number.
                pub const fn number(self) -> u32 {
                    self.0.get() - 1
                }
            }
        )*
    };
}

ids! {
    /// A place in the order of a step's ops.
    Position
    /// The life of a buffer in a GPU's memory.
    LifeId
    /// A second run of an op.
    SecondRunId
}

impl Position {
    /// The place behind it.
    pub const fn next(self) -> Position {
        self.plus(1)
    }

    /// The place before it; none of the first.
    pub fn previous(self) -> Option<Position> {
        self.number().checked_sub(1).map(Position::new)
    }

    /// The place so many behind it.
    pub const fn plus(self, places: u32) -> Position {
        Position(self.0.saturating_add(places))
    }

    /// The place so many before it, or the first one.
    pub const fn minus(self, places: u32) -> Position {
        Position::new(self.number().saturating_sub(places))
    }
}

impl Sub for Position {
    type Output = u32;

    /// How many places lie between two.
    fn sub(self, earlier: Position) -> u32 {
        self.number() - earlier.number()
    }
}

/// The time between a use of a buffer and the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::tune) struct Gap {
    /// The life of the buffer.
    pub life: LifeId,
    /// The place of the use before the gap.
    pub after: Position,
}

/// A flat array with something for each place, or each life, …
#[derive(Debug, Clone)]
pub(in crate::tune) struct Table<I, T> {
    values: Vec<T>,
    ids: PhantomData<I>,
}

impl<I: Id, T> Table<I, T> {
    /// The same for so many.
    pub fn filled(value: T, count: usize) -> Table<I, T>
    where
        T: Clone,
    {
        Table::from(vec![value; count])
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Adds one for the next number, which it returns.
    pub fn push(&mut self, value: T) -> I {
        self.values.push(value);
        I::of(self.values.len() - 1)
    }

    /// Takes the last one away.
    pub fn pop(&mut self) {
        self.values.pop();
    }

    /// What there is for a number, if there are so many.
    pub fn get(&self, id: I) -> Option<&T> {
        self.values.get(id.index())
    }

    /// All, in the order of their numbers.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.values.iter()
    }

    /// All, in the order of their numbers.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.values.iter_mut()
    }

    /// All with their numbers.
    pub fn numbered(&self) -> impl DoubleEndedIterator<Item = (I, &T)> {
        self.values.iter().enumerate().map(|(index, value)| (I::of(index), value))
    }

    /// All numbers.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.values.len()).map(I::of)
    }

    /// All, in the order of their numbers.
    pub fn as_slice(&self) -> &[T] {
        &self.values
    }
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Table<I, T> {
        Table::from(Vec::new())
    }
}

impl<I, T> From<Vec<T>> for Table<I, T> {
    fn from(values: Vec<T>) -> Table<I, T> {
        Table { values, ids: PhantomData }
    }
}

impl<I, T> FromIterator<T> for Table<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(values: A) -> Table<I, T> {
        Table::from(Vec::from_iter(values))
    }
}

impl<I: Id, T> Index<I> for Table<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.values[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Table<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.values[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_and_none_takes_no_room() {
        for number in [0, 1, 77, u32::MAX - 1] {
            assert_eq!(Position::new(number).number(), number);
        }
        assert_eq!(size_of::<Option<Position>>(), size_of::<u32>());
        assert!(Position::new(3) < Position::new(4));
        assert_eq!(Position::new(3).next(), Position::new(4));
        assert_eq!(
            (Position::new(3).previous(), Position::new(0).previous()),
            (Some(Position::new(2)), None)
        );
        assert_eq!(Position::new(3).minus(5), Position::new(0));
        assert_eq!(Position::new(7) - Position::new(3), 4);
    }
}
