//! Finds the fields of protobuf text without knowing what they mean.

use std::ops::Range;

/// What is wrong with a text, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyntaxError {
    /// Byte offset in the text.
    pub offset: usize,
    pub message: String,
}

impl SyntaxError {
    pub fn new(offset: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError { offset, message: message.into() }
    }

    /// The same error in a text in which this one begins at `start`.
    pub fn at(self, start: usize) -> SyntaxError {
        SyntaxError { offset: start + self.offset, ..self }
    }

    /// Line and column, both counted from 1, the column in characters.
    pub fn position(&self, text: &str) -> (usize, usize) {
        let before = &text.as_bytes()[..self.offset.min(text.len())];
        let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |newline| newline + 1);
        let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
        (line, String::from_utf8_lossy(&before[line_start..]).chars().count() + 1)
    }
}

/// What stands after a field's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextValue {
    /// A message: what is between its braces.
    Message(Range<usize>),
    /// A list of messages: what is between the braces of each.
    List(Vec<Range<usize>>),
    /// A number, string, name, or a list of these.
    Scalar,
}

/// One field of a text message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextField {
    name: Range<usize>,
    pub value: TextValue,
    /// From the name to the end of the value, with the `,` or `;` that may follow.
    pub span: Range<usize>,
}

impl TextField {
    pub fn name<'a>(&self, text: &'a str) -> &'a str {
        &text[self.name.clone()]
    }
}

/// Messages may nest this deep, as in protobuf's own parsers.
const DEEPEST: usize = 100;

/// Reads the fields in a range of a text.
#[derive(Debug, Clone)]
pub(super) struct Scanner<'a> {
    text: &'a [u8],
    position: usize,
    end: usize,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Scanner<'a> {
        Scanner::within(text, 0..text.len())
    }

    pub fn within(text: &'a str, range: Range<usize>) -> Scanner<'a> {
        Scanner { text: text.as_bytes(), position: range.start, end: range.end }
    }

    /// The fields one after the other; ends after the first error.
    pub fn fields(mut self) -> impl Iterator<Item = Result<TextField, SyntaxError>> + use<'a> {
        std::iter::from_fn(move || {
            self.skip_blank();
            if self.position >= self.end {
                return None;
            }
            let field = self.field(0);
            if field.is_err() {
                self.position = self.end;
            }
            Some(field)
        })
    }

    fn peek(&self) -> Option<u8> {
        (self.position < self.end).then(|| self.text[self.position])
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError::new(self.position, message))
    }

    fn found(&self) -> String {
        match self.peek() {
            None => "the end".to_string(),
            Some(byte) if byte.is_ascii_graphic() => format!("'{}'", byte as char),
            Some(byte) => format!("byte {byte:#04x}"),
        }
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => self.position += 1,
                b'#' => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.position += 1;
                    }
                }
                _ => break,
            }
        }
    }

    fn field(&mut self, depth: usize) -> Result<TextField, SyntaxError> {
        let start = self.position;
        let name = self.field_name()?;
        self.skip_blank();
        let colon = self.peek() == Some(b':');
        if colon {
            self.position += 1;
            self.skip_blank();
        }
        let value = match self.peek() {
            Some(b'{' | b'<') => TextValue::Message(self.message(depth)?),
            Some(b'[') => self.list(depth)?,
            _ if colon => {
                self.scalar()?;
                TextValue::Scalar
            }
            _ => {
                return self
                    .error(format!("expected ':' or '{{' after the field's name, found {}", self.found()));
            }
        };
        let mut end = self.position;
        self.skip_blank();
        if let Some(b',' | b';') = self.peek() {
            self.position += 1;
            end = self.position;
        }
        Ok(TextField { name, value, span: start..end })
    }

    fn field_name(&mut self) -> Result<Range<usize>, SyntaxError> {
        let start = self.position;
        if self.peek() == Some(b'[') {
            // An extension's or Any's type name.
            while self.peek().is_some_and(|byte| byte != b']') {
                self.position += 1;
            }
            if self.peek().is_none() {
                return self.error("expected ']', found the end");
            }
            self.position += 1;
            return Ok(start..self.position);
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            self.position += 1;
        }
        if self.position == start || self.text[start].is_ascii_digit() {
            self.position = start;
            return self.error(format!("expected a field's name, found {}", self.found()));
        }
        Ok(start..self.position)
    }

    /// Skips a message and returns what is between its braces.
    fn message(&mut self, depth: usize) -> Result<Range<usize>, SyntaxError> {
        if depth >= DEEPEST {
            return self.error(format!("messages nest deeper than {DEEPEST}"));
        }
        let open = self.position;
        let close = if self.text[open] == b'{' { b'}' } else { b'>' };
        self.position += 1;
        loop {
            self.skip_blank();
            match self.peek() {
                None => {
                    self.position = open;
                    return self.error(format!("this '{}' is never closed", self.text[open] as char));
                }
                Some(byte) if byte == close => {
                    self.position += 1;
                    return Ok(open + 1..self.position - 1);
                }
                Some(_) => {
                    self.field(depth + 1)?;
                }
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<TextValue, SyntaxError> {
        let open = self.position;
        self.position += 1;
        let (mut bodies, mut scalars) = (Vec::new(), 0);
        loop {
            self.skip_blank();
            match self.peek() {
                None => {
                    self.position = open;
                    return self.error("this '[' is never closed");
                }
                Some(b']') => {
                    self.position += 1;
                    break;
                }
                Some(b',') => self.position += 1,
                Some(b'{' | b'<') => bodies.push(self.message(depth)?),
                Some(_) => {
                    self.scalar()?;
                    scalars += 1;
                }
            }
        }
        if bodies.is_empty() {
            Ok(TextValue::Scalar)
        } else if scalars == 0 {
            Ok(TextValue::List(bodies))
        } else {
            self.position = open;
            self.error("a list of both messages and scalars")
        }
    }

    /// Skips a number, a name, or one or more strings.
    fn scalar(&mut self) -> Result<(), SyntaxError> {
        match self.peek() {
            Some(b'"' | b'\'') => {
                while let Some(quote @ (b'"' | b'\'')) = self.peek() {
                    self.string(quote)?;
                    let end = self.position;
                    self.skip_blank();
                    if !matches!(self.peek(), Some(b'"' | b'\'')) {
                        // The blank belongs to what follows.
                        self.position = end;
                    }
                }
                Ok(())
            }
            Some(b'-' | b'+' | b'.' | b'_') => self.word(),
            Some(byte) if byte.is_ascii_alphanumeric() => self.word(),
            _ => self.error(format!("expected a value, found {}", self.found())),
        }
    }

    fn word(&mut self) -> Result<(), SyntaxError> {
        if let Some(b'-' | b'+') = self.peek() {
            self.position += 1;
            self.skip_blank();
        }
        let start = self.position;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte)) {
            self.position += 1;
        }
        if self.position == start {
            return self.error(format!("expected a number, found {}", self.found()));
        }
        Ok(())
    }

    fn string(&mut self, quote: u8) -> Result<(), SyntaxError> {
        let open = self.position;
        self.position += 1;
        loop {
            match self.peek() {
                None | Some(b'\n') => {
                    self.position = open;
                    return self.error("this string is never closed");
                }
                Some(b'\\') => self.position += 2,
                Some(byte) => {
                    self.position += 1;
                    if byte == quote {
                        return Ok(());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<(String, String)>, SyntaxError> {
        Scanner::new(text)
            .fields()
            .map(|field| field.map(|f| (f.name(text).to_string(), text[f.span.clone()].to_string())))
            .collect()
    }

    fn error_at(text: &str) -> (usize, usize, String) {
        let error = names(text).unwrap_err();
        let (line, column) = error.position(text);
        (line, column, error.message)
    }

    #[test]
    fn finds_fields_in_every_notation() {
        let text = "# first\na: 1 b { c: \"}\" } d < e: -2.5e3 >, f: [1, 2]; g: 'x' \"y\"\nh: [{i: 1}, <i: 2>] [x.y/z] { }";
        let found = names(text).unwrap();
        let spans: Vec<&str> = found.iter().map(|(_, span)| span.as_str()).collect();
        assert_eq!(
            spans,
            [
                "a: 1",
                "b { c: \"}\" }",
                "d < e: -2.5e3 >,",
                "f: [1, 2];",
                "g: 'x' \"y\"",
                "h: [{i: 1}, <i: 2>]",
                "[x.y/z] { }"
            ]
        );
    }

    #[test]
    fn errors_name_the_line_and_column() {
        assert_eq!(error_at("a: 1\nb {\n  c: }\n").0, 3);
        assert_eq!(error_at("node {\n  name: \"x\"\n"), (1, 6, "this '{' is never closed".into()));
        assert_eq!(error_at("node {\n  name: \"x\n}\n"), (2, 9, "this string is never closed".into()));
        assert_eq!(error_at("é: 1").1, 1);
        assert_eq!(error_at("a 5"), (1, 3, "expected ':' or '{' after the field's name, found '5'".into()));
        assert!(error_at(&"a{".repeat(200)).2.contains("deeper"));
    }

    #[test]
    fn no_prefix_of_a_text_makes_it_panic() {
        let text = "a: 1 b { c: \"}\\\"\" } d < e: -2.5e3 >, f: [1, 2]; h: [{i: 1}, <i: 2>] [x.y/z] { }";
        for end in 0..text.len() {
            let _ = names(&text[..end]);
        }
    }
}
