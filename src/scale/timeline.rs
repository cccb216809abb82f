//! A step of many workers: buckets on their way one after the other, beside the rest of the step.

use super::{Bucket, Step};

/// What came of a step of many workers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Together {
    /// How long it takes.
    pub seconds: f64,
    /// For how long buckets are on their way.
    pub reduce_seconds: f64,
}

/// A step where each bucket is on its way for so many seconds.
///
/// A bucket starts at the later of its gradients' readiness and the end of the bucket before. What lies behind a mean follows it: what is
/// copied back, computed, and launched by the host, each of these one after the other, and at least the longest chain of that. So no
/// step is told as longer than it would be; that copies get in each other's way anew when they come later is not in it.
pub fn together(step: &Step, bucket_seconds: impl Fn(&Bucket) -> f64) -> Together {
    let mut ends: Vec<f64> = Vec::with_capacity(step.buckets.len());
    let (mut reduced, mut copied, mut computed, mut launched) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
    let (mut seconds, mut reduce_seconds) = (step.seconds, 0.0);
    for bucket in &step.buckets {
        // Gradients that depend on a mean that comes later are later by as much.
        let late = bucket
            .behind
            .and_then(|before| Some(ends.get(before)? - step.buckets.get(before)?.ready_seconds));
        let ready = bucket.ready_seconds + late.unwrap_or(0.0).max(0.0);
        let takes = bucket_seconds(bucket);
        reduce_seconds += takes;
        reduced = ready.max(reduced) + takes;
        ends.push(reduced);
        copied = reduced.max(copied) + bucket.copied_in_seconds;
        computed = reduced.max(computed) + bucket.computed_seconds;
        launched = reduced.max(launched) + bucket.launched_seconds;
        seconds = seconds.max(reduced + bucket.tail_seconds);
    }
    Together { seconds: seconds.max(copied).max(computed).max(launched), reduce_seconds }
}
