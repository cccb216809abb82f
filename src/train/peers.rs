//! Whether other workers are there: asked of their servers, by the first words of HTTP/2, which each gRPC server answers; and where they
//! are, asked of their beacons.
//!
//! A process that was stopped still accepts connections (the operating system does), but says nothing.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::thread;
use std::time::Duration;

use super::whereabouts::{Question, Whereabouts};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_millis(700);

/// How long an answer of a worker's may take that its server has answered for: it was asked before that.
const LITTLE: Duration = Duration::from_millis(400);

/// The preface of HTTP/2, and a frame of no settings.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

/// How a worker was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It answers. None where its datagrams do not come through, as behind a firewall.
    Answers(Option<Whereabouts>),
    /// Something listens there, and says nothing.
    Silent,
    /// Nobody listens there.
    Gone,
}

/// Asks the workers at these addresses, all at once, in less than two seconds; in less than one those of this machine.
pub fn ask(addresses: &[String]) -> Vec<Presence> {
    let asked: Vec<_> =
        addresses.iter().cloned().map(|address| thread::spawn(move || ask_one(&address))).collect();
    asked.into_iter().map(|answer| answer.join().unwrap_or(Presence::Gone)).collect()
}

fn ask_one(address: &str) -> Presence {
    let Some(address) = address.to_socket_addrs().ok().and_then(|mut found| found.next()) else {
        return Presence::Gone;
    };
    let question = Question::send(address);
    let Ok(mut stream) = TcpStream::connect_timeout(&address, PATIENCE) else { return Presence::Gone };
    let answers = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(HELLO).ok()?;
        let mut first = [0; 9];
        stream.read_exact(&mut first).ok()
    };
    match answers(&mut stream) {
        Some(()) => Presence::Answers(question.ok().and_then(|question| question.answer(LITTLE))),
        None => Presence::Silent,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn who_says_nothing_is_told_from_who_is_not_there() {
        let listens = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = listens.local_addr().unwrap().to_string();
        let gone = {
            let closed = TcpListener::bind("127.0.0.1:0").unwrap();
            closed.local_addr().unwrap().to_string()
        };
        assert_eq!(ask(&[silent, gone]), [Presence::Silent, Presence::Gone]);
    }
}
