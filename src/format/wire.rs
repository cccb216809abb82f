//! The protobuf wire format, one field at a time and in place.
//!
//! Decoding a graph into generated structs loses the fields that those structs do not know and costs several times the
//! file's size. This module only finds out where each field of a message begins and ends; whoever needs a field's
//! meaning decodes that field alone.

use std::ops::Range;

use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};

/// Where a message stops being a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at byte {offset}")]
pub struct WireError {
    /// Offset from the start of the buffer that was being read.
    pub offset: usize,
    /// What was found there.
    pub problem: &'static str,
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// A varint: integers, booleans, enums.
    Varint(u64),
    /// A string, bytes, message or packed list: the range of its content in the buffer.
    Bytes(Range<usize>),
    /// A fixed-width number or a group, which no message that this library looks into has.
    Other,
}

/// One field of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The field's number.
    pub number: u32,
    /// What it holds.
    pub payload: Payload,
    /// The whole field in the buffer: key, length and content.
    pub span: Range<usize>,
}

impl Field {
    /// The content of the field if it is length-delimited and has this number.
    pub fn bytes(&self, number: u32) -> Option<Range<usize>> {
        match &self.payload {
            Payload::Bytes(range) if self.number == number => Some(range.clone()),
            _ => None,
        }
    }
}

/// Iterates over the fields of the message that lies at `range` of `buffer`.
///
/// After the first error the iterator ends.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    buffer: &'a [u8],
    position: usize,
    end: usize,
}

impl<'a> Fields<'a> {
    /// The fields of the message at `range`, which must lie within `buffer`.
    pub fn new(buffer: &'a [u8], range: Range<usize>) -> Fields<'a> {
        debug_assert!(range.start <= range.end && range.end <= buffer.len());
        Fields { buffer, position: range.start, end: range.end }
    }

    /// The fields of a message that fills `buffer`.
    pub fn of(buffer: &'a [u8]) -> Fields<'a> {
        Fields::new(buffer, 0..buffer.len())
    }

    fn fail(&mut self, problem: &'static str) -> WireError {
        let offset = self.position;
        self.position = self.end;
        WireError { offset, problem }
    }

    fn read(&mut self) -> Result<Field, WireError> {
        let start = self.position;
        let mut rest = &self.buffer[start..self.end];
        let Ok((number, wire_type)) = decode_key(&mut rest) else {
            return Err(self.fail("no protobuf field"));
        };
        let payload = match wire_type {
            WireType::Varint => match decode_varint(&mut rest) {
                Ok(value) => Payload::Varint(value),
                Err(_) => return Err(self.fail("a broken varint")),
            },
            WireType::LengthDelimited => match decode_varint(&mut rest) {
                Ok(length) if length <= rest.len() as u64 => {
                    let begin = self.end - rest.len();
                    rest = &rest[length as usize..];
                    Payload::Bytes(begin..begin + length as usize)
                }
                Ok(_) => return Err(self.fail("a field that is longer than what holds it")),
                Err(_) => return Err(self.fail("a broken length")),
            },
            other => {
                let context = prost::encoding::DecodeContext::default();
                if prost::encoding::skip_field(other, number, &mut rest, context).is_err() {
                    return Err(self.fail("a broken field"));
                }
                Payload::Other
            }
        };
        self.position = self.end - rest.len();
        Ok(Field { number, payload, span: start..self.position })
    }
}

impl Iterator for Fields<'_> {
    type Item = Result<Field, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.position < self.end).then(|| self.read())
    }
}

/// Writes the key and length that precede a length-delimited field's content.
pub fn put_length_delimited_header(number: u32, length: u64, out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(length, out);
}

/// Writes a string field.
pub fn put_string(number: u32, value: &str, out: &mut Vec<u8>) {
    put_length_delimited_header(number, value.len() as u64, out);
    out.extend_from_slice(value.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Result<Vec<Field>, WireError> {
        Fields::of(bytes).collect()
    }

    #[test]
    fn reads_each_wire_type_and_says_where_it_lies() {
        // 1: varint 300; 2: "ab"; 3: fixed32; 4: fixed64
        let mut bytes = vec![0x08, 0xac, 0x02, 0x12, 2, b'a', b'b', 0x1d, 1, 2, 3, 4, 0x21];
        bytes.extend([0; 8]);
        let found = fields(&bytes).unwrap();
        let numbers: Vec<u32> = found.iter().map(|f| f.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert_eq!(found[0].payload, Payload::Varint(300));
        assert_eq!(found[1].bytes(2), Some(5..7));
        assert_eq!(found[1].bytes(3), None);
        assert_eq!(found[2].payload, Payload::Other);
        assert_eq!(found[3].span, 12..21);
    }

    #[test]
    fn every_truncation_is_an_error_or_ends_between_fields() {
        let bytes = [0x08, 0xac, 0x02, 0x12, 2, b'a', b'b'];
        for end in 0..bytes.len() {
            assert_eq!(fields(&bytes[..end]).is_ok(), end == 0 || end == 3, "cut at {end}");
        }
    }

    #[test]
    fn a_length_beyond_the_end_is_no_overflow() {
        let mut bytes = vec![0x12];
        encode_varint(u64::MAX, &mut bytes);
        assert_eq!(fields(&bytes).unwrap_err().problem, "a field that is longer than what holds it");
    }

    #[test]
    fn an_error_ends_the_iteration() {
        let bytes = [0xff; 4];
        let mut fields = Fields::of(&bytes);
        assert!(fields.next().unwrap().is_err());
        assert!(fields.next().is_none());
    }
}
