//! A file in pieces: ranges of what was read, and new bytes between them.

use std::io::{self, BufWriter, Write};
use std::ops::Range;

use super::wire::put_length_delimited_header;

#[derive(Debug, Clone)]
enum Piece {
    Source(Range<usize>),
    New(Vec<u8>),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Piece::Source(range) => range.len(),
            Piece::New(bytes) => bytes.len(),
        }
    }
}

/// Bytes that are mostly those of `source`.
#[derive(Debug, Clone)]
pub struct Rope<'a> {
    source: &'a [u8],
    pieces: Vec<Piece>,
    len: u64,
}

impl<'a> Rope<'a> {
    /// An empty rope over `source`.
    pub(super) fn new(source: &'a [u8]) -> Rope<'a> {
        Rope { source, pieces: Vec::new(), len: 0 }
    }

    /// A rope of one piece: all of `bytes`.
    pub(super) fn of(bytes: Vec<u8>) -> Rope<'static> {
        let mut rope = Rope::new(&[]);
        rope.push_new(bytes);
        rope
    }

    /// Appends a range of the source.
    pub(super) fn push_source(&mut self, range: Range<usize>) {
        self.len += range.len() as u64;
        match self.pieces.last_mut() {
            Some(Piece::Source(last)) if last.end == range.start => last.end = range.end,
            _ if range.is_empty() => {}
            _ => self.pieces.push(Piece::Source(range)),
        }
    }

    /// Appends bytes that are not in the source.
    pub(super) fn push_new(&mut self, bytes: Vec<u8>) {
        self.len += bytes.len() as u64;
        match self.pieces.last_mut() {
            Some(Piece::New(last)) => last.extend(bytes),
            _ if bytes.is_empty() => {}
            _ => self.pieces.push(Piece::New(bytes)),
        }
    }

    /// Appends another rope over the same source.
    pub(super) fn push_rope(&mut self, other: Rope<'a>) {
        for piece in other.pieces {
            match piece {
                Piece::Source(range) => self.push_source(range),
                Piece::New(bytes) => self.push_new(bytes),
            }
        }
    }

    /// The same bytes as field `number` of a message: with a key and length before them.
    pub(super) fn enclosed(self, number: u32) -> Rope<'a> {
        let mut header = Vec::with_capacity(8);
        put_length_delimited_header(number, self.len, &mut header);
        let mut rope = Rope::new(self.source);
        rope.push_new(header);
        rope.push_rope(self);
        rope
    }

    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes all bytes.
    pub fn write_to(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        // Most pieces are small.
        let mut out = BufWriter::with_capacity(1 << 16, out);
        for piece in &self.pieces {
            match piece {
                Piece::Source(range) => out.write_all(&self.source[range.clone()])?,
                Piece::New(bytes) => out.write_all(bytes)?,
            }
        }
        out.flush()
    }

    /// All bytes in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.pieces.iter().map(Piece::len).sum());
        for piece in &self.pieces {
            match piece {
                Piece::Source(range) => bytes.extend_from_slice(&self.source[range.clone()]),
                Piece::New(new) => bytes.extend_from_slice(new),
            }
        }
        bytes
    }
}
