//! What a plan would cost if memory were in no pieces.
//!
//! TensorFlow's own allocator needs one piece that is large enough for each tensor, and where memory is scarce a plan has much leave only to
//! make such pieces. CUDA's allocator maps pages, and needs none; a variable of the environment has TensorFlow take it. Which of them a
//! plan is for, the user says. Here is found what the other one would gain, where much may be gained.

use super::{Budget, Error, Simulated};
use crate::simulate::{Allocator, Outline};
use crate::tune::{Tuning, Verdict};

/// A plan that is no slower than so many times what no plan goes below is let be.
const FAST_ENOUGH: f64 = 1.25;

/// What is not shorter than this part of the plan's step is not worth another allocator.
const WORTHWHILE: f64 = 0.9;

impl Simulated<'_> {
    /// The step, in seconds, with a plan for CUDA's allocator, if that is much shorter than with the plan that was found for TensorFlow's, or if
    /// none was found for that. `bound_seconds` is what no plan goes below. The search takes as much effort as the first.
    ///
    /// # Errors
    ///
    /// As [`Simulated::tune`].
    pub fn step_in_no_pieces(
        &self,
        outline: &Outline,
        budget: &Budget,
        tuning: &Tuning,
        bound_seconds: Option<f64>,
    ) -> Result<Option<f64>, Error> {
        let machine = self.machine(budget)?;
        let memory = |gpu: usize| machine.memory_bytes(gpu).unwrap_or(u64::MAX);
        let least = bound_seconds.unwrap_or(0.0).max(tuning.before.step_seconds);
        let most = match &tuning.verdict {
            _ if budget.allocator == Allocator::Async => return Ok(None),
            Verdict::FitsWithSwapping(found) if found.outcome.step_seconds > FAST_ENOUGH * least => {
                WORTHWHILE * found.outcome.step_seconds
            }
            // Below the floor no allocator helps.
            Verdict::DoesNotFit
                if (0..).zip(&tuning.floors).all(|(gpu, floor)| floor.memory_bytes <= memory(gpu)) =>
            {
                f64::INFINITY
            }
            Verdict::Fits | Verdict::FitsWithSwapping(_) | Verdict::DoesNotFit => return Ok(None),
        };
        let budget = Budget { allocator: Allocator::Async, ..budget.clone() };
        let (other, _) = self.tune(outline, &budget)?;
        Ok(other.outcome().map(|outcome| outcome.step_seconds).filter(|&seconds| seconds < most))
    }
}
