//! Ctrl-C: the first ends what is done as soon as that makes sense, the second ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// The exit status of a program that ended by Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Begins to listen. At the first Ctrl-C the tool of this name says what it does now, as in "ending after this step".
pub fn listen(tool: &'static str, ending: &'static str) {
    // Where there can be no handler, Ctrl-C ends the program at once, as it always does.
    let _ = ctrlc::set_handler(move || {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
        eprintln!("\n{tool}: {ending}; Ctrl-C again ends at once");
    });
}

/// Whether the user wants an end.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
