//! A step as a timeline.

use serde_json::{Map, Value, json};

use super::{Names, Recording};
use crate::chart::{ChartError, Engine, Timeline, Track};
use crate::graph::Graph;
use crate::order::Place;
use crate::simulate::Origin;

impl Recording<'_> {
    /// What ran when: a track for the host and three for each GPU, the memory in use as counters, and an arrow from each
    /// swap-out to each of its swap-ins.
    ///
    /// # Errors
    ///
    /// If a time is no finite number.
    pub fn timeline(&self, graph: &Graph) -> Result<Timeline, ChartError> {
        let names = Names::new(graph, self.program());
        let mut timeline = Timeline::new();
        // The host comes first, then the GPUs by number, whichever works first.
        timeline.engine(Engine::Host);
        for gpu in 0..self.outcome().gpus.len() as u32 {
            timeline.engine(Engine::Compute { gpu });
        }
        for span in self.spans() {
            let track = timeline.engine(span.engine);
            let seconds = span.end_seconds - span.start_seconds;
            let args = self.args(graph, span.op);
            timeline.add_span(track, &names.entry(span.op), span.start_seconds, seconds, args)?;
        }
        self.add_counters(&mut timeline)?;
        self.add_arrows(&mut timeline, &names)?;
        Ok(timeline)
    }

    /// What is shown when one selects a span.
    fn args(&self, graph: &Graph, op: u32) -> Map<String, Value> {
        let (key, value) = match self.program().origin(op) {
            Origin::Op(node) | Origin::Recomputation(node, _) => ("op", json!(graph.op(node).name())),
            _ => {
                let tensors = self.program().outputs(op);
                ("bytes", json!(tensors.map(|tensor| self.program().tensor_bytes(tensor)).sum::<u64>()))
            }
        };
        Map::from_iter([(key.to_string(), value)])
    }

    fn add_counters(&self, timeline: &mut Timeline) -> Result<(), ChartError> {
        let gpus = (0..self.outcome().gpus.len() as u16)
            .map(|gpu| (Place::Gpu(gpu), Engine::Compute { gpu: gpu.into() }));
        for (place, engine) in [(Place::Host, Engine::Host)].into_iter().chain(gpus) {
            let track = timeline.engine(engine);
            for (_, change) in self.changes(place) {
                timeline.add_counter(track, "memory in use", change.seconds, change.bytes)?;
            }
        }
        Ok(())
    }

    fn add_arrows(&self, timeline: &mut Timeline, names: &Names) -> Result<(), ChartError> {
        for op in 0..self.program().len() as u32 {
            let Origin::SwapIn(tensor, _) = self.program().origin(op) else { continue };
            let start = |timeline: &mut Timeline, op: Option<u32>| -> Option<(Track, f64)> {
                // A tensor without bytes is launched but not copied.
                let span = self.span(op?).filter(|span| span.engine != Engine::Host)?;
                Some((timeline.engine(span.engine), span.start_seconds))
            };
            let from = start(timeline, names.swap_out(tensor));
            let to = start(timeline, Some(op));
            if let (Some(from), Some(to)) = (from, to) {
                timeline.add_arrow(&names.entry(op), from, to)?;
            }
        }
        Ok(())
    }
}
