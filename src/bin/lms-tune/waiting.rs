//! What somebody sees and can do while a plan is looked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tf_lms::cli::{interrupt, milliseconds};
use tf_lms::tune::Progress;

use crate::args::Args;

/// How often it is looked what there is to say, and whether Ctrl-C was pressed.
const TICK: Duration = Duration::from_millis(200);

/// Tells on a terminal how far a search has come, and ends it with the best plan so far at Ctrl-C, until it is dropped.
pub struct Waiting {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Waiting {
    /// For a search that is to begin.
    pub fn new(args: &Args, progress: Progress) -> Waiting {
        interrupt::listen("lms-tune", "ending with the best plan that is found");
        let is_over = Arc::new(AtomicBool::new(false));
        let bar = bar(args);
        let thread = thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    if interrupt::asked() {
                        progress.end();
                    }
                    let best = progress.best_step_seconds();
                    bar.set_message(best.map_or("no plan yet".to_string(), |seconds| {
                        format!("best plan: {} a step; Ctrl-C takes it", milliseconds(seconds))
                    }));
                    bar.tick();
                    thread::park_timeout(TICK);
                }
                bar.finish_and_clear();
            }
        });
        Waiting { is_over, thread: Some(thread) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It only shows something: whatever became of it, the plan is there.
            let _ = thread.join();
        }
    }
}

/// A line on a terminal, nothing elsewhere.
fn bar(args: &Args) -> ProgressBar {
    if args.verbosity.quiet || args.verbosity.json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {elapsed}, {msg}");
    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}
