//! Finds out how a tensor lives.

use super::recorder::{Cause, Span, Takeover};
use super::{
    BufferKind, Consumer, Explanation, Fate, Interval, Names, Recording, Residence, Return, SecondRun,
    SwapLife, Trigger, stay,
};
use crate::chart::Engine;
use crate::graph::{NodeId, TensorId};
use crate::order::Place;
use crate::plan::{Draft, Filters, TensorSwap};
use crate::simulate::{Origin, Outline, Sharing};

/// A plan of which tensors are explained.
#[derive(Debug, Clone, Copy)]
pub struct Explained<'a> {
    /// The plan; one that changes nothing is none.
    pub draft: &'a Draft,
    /// The name of the strategy that made it.
    pub strategy: &'a str,
    /// The filters that it was made with.
    pub filters: &'a Filters,
}

/// Explains a tensor: who makes and reads it, where it lies, and what a plan does with it and why.
///
/// `before` is the step without a plan, `after` the one with it; without a plan it is the same recording twice.
/// The tensor must be one that a node makes.
pub fn explain(
    outline: &Outline,
    plan: Explained,
    before: &Recording,
    after: &Recording,
    tensor: TensorId,
) -> Explanation {
    let swap = plan.draft.swaps.iter().find(|swap| swap.tensor == tensor);
    Explainer { outline, before, after, names: Names::new(outline.analysis().graph, after.program()), swap }
        .explain(plan, tensor)
}

struct Explainer<'a> {
    outline: &'a Outline<'a>,
    before: &'a Recording<'a>,
    after: &'a Recording<'a>,
    names: Names<'a>,
    swap: Option<&'a TensorSwap>,
}

impl Explainer<'_> {
    fn explain(&self, plan: Explained, tensor: TensorId) -> Explanation {
        let analysis = self.outline.analysis();
        let graph = analysis.graph;
        let producer = graph.producer(tensor);
        let (consumers, consumers_outside_step) = self.consumers(tensor);
        let second_runs = self.second_runs(plan.draft, tensor);
        let is_host_op = plan.draft.is_host_op(producer);
        let is_on_host = plan.draft.begins_on_host(graph, self.outline.placement(), tensor);
        let place = |place| self.residence(if is_host_op { Place::Host } else { place });
        let fate = match self.swap {
            Some(swap) => Fate::Swapped(self.swap_life(swap, is_on_host)),
            None if !second_runs.is_empty() => Fate::Recomputed,
            None => Fate::Stays(stay::reason(self.outline, plan, tensor)),
        };
        Explanation {
            tensor: graph.tensor_name(tensor).to_string(),
            producer: graph.name(producer).to_string(),
            op: graph.op(producer).name().to_string(),
            producer_place: place(self.outline.placement().op(producer)),
            made_before: self.runs(self.before, producer),
            made_after: self.runs(self.after, producer),
            data_type: graph.output_type(tensor).dtype.to_string(),
            shape: analysis.shapes.get(tensor).map(<[i64]>::to_vec),
            bytes: analysis.sizes.bytes(tensor),
            place: place(self.outline.placement().output(tensor)),
            buffer: self.number(tensor).map_or(BufferKind::Nothing, |number| self.buffer(number)),
            held_before: self.held(self.before, tensor),
            held_after: self.held(self.after, tensor),
            consumers,
            consumers_outside_step,
            fate,
            second_runs,
        }
    }

    /// The second runs of a tensor's op that are there for this output.
    fn second_runs(&self, draft: &Draft, tensor: TensorId) -> Vec<SecondRun> {
        let graph = self.outline.analysis().graph;
        let program = self.after.program();
        let mut entries = vec![None; draft.recomputations.len()];
        for op in 0..program.len() as u32 {
            if let Origin::Recomputation(_, number) = program.origin(op) {
                entries[number as usize] = Some(op);
            }
        }
        let of_tensor = draft.recomputations.iter().zip(entries).filter(|(again, _)| {
            again.op == graph.producer(tensor)
                && (again.outputs.is_empty() || again.outputs.iter().any(|(output, _)| *output == tensor))
        });
        of_tensor
            .map(|(again, entry)| SecondRun {
                consumers: again
                    .outputs
                    .iter()
                    .filter(|(output, _)| *output == tensor)
                    .flat_map(|(_, consumers)| consumers)
                    .map(|&node| graph.name(node).to_string())
                    .collect(),
                triggers: self.triggers(&again.triggers),
                runs: entry.and_then(|op| self.after.span(op)).map(interval),
            })
            .collect()
    }

    fn triggers(&self, nodes: &[NodeId]) -> Vec<Trigger> {
        let name = |node| self.outline.analysis().graph.name(node).to_string();
        nodes.iter().map(|&node| Trigger { name: name(node), runs: self.runs(self.after, node) }).collect()
    }

    fn residence(&self, place: Place) -> Residence {
        match place {
            Place::Host => Residence::Host,
            Place::Gpu(number) => {
                let device = self.outline.placement().gpus().get(usize::from(number));
                Residence::Gpu { number, device: device.map(ToString::to_string).unwrap_or_default() }
            }
        }
    }

    /// The number of a tensor in any program of the outline; none if no step makes it.
    fn number(&self, tensor: TensorId) -> Option<u32> {
        let graph = self.outline.analysis().graph;
        if self.outline.liveness().is_dead(graph, tensor) {
            return None;
        }
        let entry = self.outline.entry(graph.producer(tensor))?;
        Some(self.after.program().outputs(entry).start + graph.output_index(tensor))
    }

    /// When an op runs.
    fn runs(&self, recording: &Recording, node: NodeId) -> Option<Interval> {
        recording.span(self.outline.entry(node)?).map(interval)
    }

    /// From when to when a tensor's own buffer, or the one that it takes over, is in use.
    fn held(&self, recording: &Recording, tensor: TensorId) -> Option<Interval> {
        let number = self.number(tensor)?;
        let (start_seconds, buffer) = match takeover(recording, number) {
            Some(takeover) => (takeover.seconds, takeover.buffer),
            None => (recording.seconds_of(Cause::Allocated(number))?, number),
        };
        let freed = recording.seconds_of(Cause::Freed(buffer));
        Some(Interval { start_seconds, end_seconds: freed.unwrap_or(recording.outcome().step_seconds) })
    }

    /// Whose memory a tensor of the program is in.
    fn buffer(&self, number: u32) -> BufferKind {
        let program = self.after.program();
        let mut owner = number;
        loop {
            match program.sharing(program.maker(owner), owner) {
                Sharing::Persistent => return BufferKind::Persistent,
                Sharing::PassedOn(input) => owner = input,
                Sharing::MayTakeOver | Sharing::Own => break,
            }
        }
        if owner != number {
            BufferKind::PassedOn { of: self.names.tensor(owner) }
        } else if program.tensor_bytes(number) == 0 {
            BufferKind::Nothing
        } else {
            let takeover = takeover(self.after, number);
            takeover.map_or(BufferKind::Own, |taken| BufferKind::TakenOver {
                of: self.names.tensor(taken.buffer),
            })
        }
    }

    /// Who reads a tensor in the step, and how many do outside.
    fn consumers(&self, tensor: TensorId) -> (Vec<Consumer>, usize) {
        let analysis = self.outline.analysis();
        let graph = analysis.graph;
        let mut nodes: Vec<NodeId> = graph.uses(tensor).iter().map(|reader| reader.node).collect();
        nodes.dedup();
        let all = nodes.len();
        nodes.retain(|&node| self.outline.entry(node).is_some());
        let made_at = analysis.levels.level(graph.producer(tensor));
        let mut consumers: Vec<Consumer> = nodes
            .iter()
            .map(|&node| Consumer {
                name: graph.name(node).to_string(),
                op: graph.op(node).name().to_string(),
                place: self.residence(self.outline.placement().op(node)),
                // The reader that closes a loop is before the producer.
                levels_away: analysis.levels.level(node).saturating_sub(made_at),
                runs_before: self.runs(self.before, node),
                runs_after: self.runs(self.after, node),
                reads_return: self
                    .swap
                    .and_then(|swap| swap.uses.iter().position(|swap_in| swap_in.consumers.contains(&node))),
            })
            .collect();
        let start = |runs: &Option<Interval>| runs.map_or(f64::INFINITY, |runs| runs.start_seconds);
        consumers.sort_by(|a, b| start(&a.runs_after).total_cmp(&start(&b.runs_after)));
        (consumers, all - nodes.len())
    }

    fn swap_life(&self, swap: &TensorSwap, is_on_host: bool) -> SwapLife {
        let graph = self.outline.analysis().graph;
        let names = |nodes: &[NodeId]| nodes.iter().map(|&node| graph.name(node).to_string()).collect();
        let leaves = self.names.swap_out(swap.tensor).and_then(|copy| self.copied(copy));
        let mut copies = vec![None; swap.uses.len()];
        for op in 0..self.after.program().len() as u32 {
            if let Origin::SwapIn(tensor, which) = self.after.program().origin(op)
                && tensor == swap.tensor
            {
                copies[which as usize] = self.copied(op);
            }
        }
        let returns = swap.uses.iter().zip(copies).map(|(swap_in, copy)| Return {
            consumers: names(&swap_in.consumers),
            triggers: self.triggers(&swap_in.triggers),
            copy,
            away_seconds: leaves.zip(copy).map(|(leaves, copy)| copy.start_seconds - leaves.end_seconds),
        });
        SwapLife { is_on_host, leaves, waiting: names(&swap.waiting), returns: returns.collect() }
    }

    /// When bytes are copied; none if there are none to copy.
    fn copied(&self, op: u32) -> Option<Interval> {
        self.after.span(op).filter(|span| span.engine != Engine::Host).map(interval)
    }
}

/// How a tensor of the program came to be written over another.
fn takeover<'a>(recording: &'a Recording, tensor: u32) -> Option<&'a Takeover> {
    recording.takeovers().iter().find(|takeover| takeover.tensor == tensor)
}

fn interval(span: &Span) -> Interval {
    Interval { start_seconds: span.start_seconds, end_seconds: span.end_seconds }
}
