//! This program once more, in a process of its own: memory that ran out, or a crash, then ends only that.

use std::env;
use std::ffi::OsString;
use std::io;
use std::process::{Command, Output, Stdio};

/// Flags by their names.
#[derive(Debug, Clone, Copy)]
pub struct Flags<'a> {
    /// Those that take no value.
    pub switches: &'a [&'a str],
    /// Those that take one.
    pub valued: &'a [&'a str],
}

impl Flags<'_> {
    /// A command line without these.
    fn without(&self, line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
        let mut left = Vec::new();
        let mut line = line.into_iter();
        while let Some(word) = line.next() {
            let text = word.to_string_lossy();
            let name = text.split_once('=').map(|(name, _)| name);
            if self.valued.contains(&text.as_ref()) {
                line.next();
            } else if !self.switches.contains(&text.as_ref())
                && !name.is_some_and(|name| self.valued.contains(&name))
            {
                left.push(word);
            }
        }
        left
    }
}

/// This process's command line without the program's name and some flags.
pub fn line_without(flags: &Flags) -> Vec<OsString> {
    flags.without(env::args_os().skip(1))
}

/// This program with this process's flags but for some, and with others instead.
pub fn command<S: AsRef<str>>(set: &[S], but_for: &Flags) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    // In front: behind a `--` of the user's they would be no flags.
    command.args(set.iter().map(AsRef::as_ref)).args(line_without(but_for)).stdin(Stdio::null());
    Ok(command)
}

/// How a process ended, and what it said of that.
pub fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let mut lines = text.lines().rev();
    // An error can have several lines, and TensorFlow may have said something else last.
    let words = lines.clone().find_map(|line| line.strip_prefix("lms-train: ")).or(lines.next());
    format!("{}: {}", output.status, words.unwrap_or("no message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_taken_out_with_their_values() {
        let flags = Flags { switches: &["--json", "-q"], valued: &["--device", "--steps"] };
        let line =
            ["model", "--device", "soft", "-q", "--steps=2", "--json", "--feed", "x=zeros", "--seed", "3"];
        let left = flags.without(line.map(OsString::from));
        assert_eq!(left, ["model", "--feed", "x=zeros", "--seed", "3"]);
    }
}
