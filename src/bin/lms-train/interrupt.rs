//! Ctrl-C: the first ends training after the step that runs, the second ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// The exit status of a program that ended by Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Begins to listen.
pub fn listen() {
    // Where there can be no handler, Ctrl-C ends the program at once, as it always does.
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
        eprintln!("\nlms-train: ending after this step; Ctrl-C again ends at once");
    });
}

/// Whether the user wants an end.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
