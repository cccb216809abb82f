//! Explanations as text.

use std::fmt;

use super::{
    BufferKind, Consumer, Explanation, Fate, FilteredOps, Interval, Residence, Return, SecondRun, StayReason,
    SwapLife, Trigger,
};
use crate::size::Size;

/// How many ops a line names.
const MOST_NAMES: usize = 3;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.tensor)?;
        line(f, "made by", &format!("{} ({}) on {}", self.producer, self.op, self.producer_place))?;
        if let Some(runs) = self.made_after.or(self.made_before) {
            line(f, "", &format!("which runs {runs}"))?;
        }
        line(f, "size", &self.size())?;
        line(f, "lies", &format!("on {}, {}", self.place, self.buffer))?;
        let held = [("without the plan", self.held_before), ("with the plan", self.held_after)];
        for (which, held) in held.into_iter().filter_map(|(which, held)| Some((which, held?))) {
            line(f, "in memory", &format!("{held} {which}"))?;
        }
        for consumer in &self.consumers {
            line(f, "read by", &consumer.to_string())?;
        }
        if self.consumers_outside_step > 0 {
            let ops = self.consumers_outside_step;
            line(f, "read by", &format!("{ops} {} that no step runs", plural(ops, "op", "ops")))?;
        }
        match &self.fate {
            Fate::Swapped(swap) => show_swap(f, swap)?,
            Fate::Recomputed => {}
            Fate::Stays(reason) => line(f, "not swapped", &reason.to_string())?,
        }
        self.second_runs.iter().try_for_each(|run| show_second_run(f, run))
    }
}

impl Explanation {
    fn size(&self) -> String {
        let shape = match &self.shape {
            None => "of unknown shape".to_string(),
            Some(shape) => {
                let sizes = shape.iter().map(|&size| match size {
                    ..0 => "?".to_string(),
                    size => size.to_string(),
                });
                format!("[{}]", sizes.collect::<Vec<_>>().join(", "))
            }
        };
        let bytes = self.bytes.map_or("of unknown size".to_string(), |bytes| Size(bytes).to_string());
        format!("{bytes}: {} {shape}", self.data_type)
    }
}

fn line(f: &mut fmt::Formatter<'_>, what: &str, text: &str) -> fmt::Result {
    writeln!(f, "  {what:<12} {text}")
}

fn show_swap(f: &mut fmt::Formatter<'_>, swap: &SwapLife) -> fmt::Result {
    match swap.leaves {
        _ if swap.is_on_host => {
            line(f, "leaves", "never: it is on the host, and comes from there in each step")?
        }
        Some(leaves) => line(f, "leaves", &leaves.to_string())?,
        None => line(f, "leaves", "never: the plan swaps it, but the step has nothing to copy")?,
    }
    if !swap.waiting.is_empty() {
        line(f, "", &format!("{} wait until it is out", names(swap.waiting.iter())))?;
    }
    for back in &swap.returns {
        show_return(f, back)?;
    }
    Ok(())
}

fn show_return(f: &mut fmt::Formatter<'_>, back: &Return) -> fmt::Result {
    let when = match (back.copy, back.away_seconds) {
        (Some(copy), Some(away)) => format!("{copy}, after {} away", Milliseconds(away)),
        (Some(copy), None) => copy.to_string(),
        (None, _) => "never".to_string(),
    };
    line(f, "returns", &format!("{when}, for {}", names(back.consumers.iter())))?;
    if back.triggers.is_empty() {
        return line(f, "", "as soon as it is out: nothing triggers it");
    }
    show_triggers(f, &back.triggers)
}

fn show_second_run(f: &mut fmt::Formatter<'_>, run: &SecondRun) -> fmt::Result {
    let when = run.runs.map_or("never".to_string(), |runs| runs.to_string());
    let readers = match run.consumers.is_empty() {
        true => "other second runs".to_string(),
        false => names(run.consumers.iter()),
    };
    line(f, "made again", &format!("{when}, for {readers}"))?;
    show_triggers(f, &run.triggers)
}

fn show_triggers(f: &mut fmt::Formatter<'_>, triggers: &[Trigger]) -> fmt::Result {
    let triggers = triggers.iter().map(|trigger| match trigger.runs {
        Some(runs) => format!("{} (done at {})", trigger.name, Milliseconds(runs.end_seconds)),
        None => trigger.name.clone(),
    });
    line(f, "", &format!("triggered by {}", names(triggers)))
}

/// The first of some names, and how many more there are.
fn names<T: AsRef<str>>(names: impl ExactSizeIterator<Item = T>) -> String {
    let more = names.len().saturating_sub(MOST_NAMES);
    let first: Vec<String> = names.take(MOST_NAMES).map(|name| name.as_ref().to_string()).collect();
    let first = first.join(", ");
    if more > 0 { format!("{first} and {more} more") } else { first }
}

fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// Seconds, shown as milliseconds.
struct Milliseconds(f64);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ms", self.0 * 1e3)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {:.3} to {}", self.start_seconds * 1e3, Milliseconds(self.end_seconds))
    }
}

impl fmt::Display for Residence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Residence::Host => f.write_str("the host"),
            Residence::Gpu { number, device } => write!(f, "GPU {number} ({device})"),
        }
    }
}

impl fmt::Display for BufferKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BufferKind::Own => f.write_str("in a buffer of its own"),
            BufferKind::PassedOn { of } => write!(f, "in the buffer of {of}"),
            BufferKind::TakenOver { of } => {
                write!(f, "written over the buffer of {of}, which nobody needs any more")
            }
            BufferKind::Persistent => f.write_str("in a buffer that stays from step to step"),
            BufferKind::Nothing => f.write_str("in no buffer"),
        }
    }
}

impl fmt::Display for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels = self.levels_away;
        write!(f, "{} ({}) on {}, ", self.name, self.op, self.place)?;
        write!(f, "{levels} {} away", plural(levels as usize, "level", "levels"))?;
        if let Some(runs) = self.runs_after.or(self.runs_before) {
            write!(f, ", {runs}")?;
        }
        match self.reads_return {
            Some(number) => write!(f, ", from return {}", number + 1),
            None => Ok(()),
        }
    }
}

impl fmt::Display for StayReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StayReason::NotInStep => f.write_str("no step runs its producer"),
            StayReason::DeadBranch => f.write_str("it is in a branch that no training step takes"),
            StayReason::OnHost => {
                f.write_str("it is on the host, and copied from there when the step begins")
            }
            StayReason::ComputedBeforehand => f.write_str("TensorFlow computes it before the first step"),
            StayReason::NotSwappable { because } => f.write_str(because),
            StayReason::NotOnGpu => f.write_str("it is not on a GPU"),
            StayReason::Empty => f.write_str("it has no bytes"),
            StayReason::NotRead => f.write_str("nobody reads it in the step"),
            StayReason::FewDimensions { dimensions: Some(dimensions) } => {
                let word = plural(*dimensions, "dimension", "dimensions");
                write!(f, "it has {dimensions} {word}; only tensors of at least two are worth it")
            }
            StayReason::FewDimensions { dimensions: None } => f.write_str("its shape is unknown"),
            StayReason::NothingSwapped => f.write_str("there is no plan that swaps anything"),
            StayReason::ConsumersNear { levels_away, swapped_from_levels } => write!(
                f,
                "its consumers are too near: the farthest is {levels_away} {} away, and the plan swaps from \
                 {swapped_from_levels} on",
                plural(*levels_away as usize, "level", "levels")
            ),
            StayReason::Filtered { filter, ops: FilteredOps::Producer } => {
                write!(f, "{filter} leaves its producer out")
            }
            StayReason::Filtered { filter, ops: FilteredOps::Consumers } => {
                write!(f, "{filter} leaves its consumers out")
            }
            StayReason::NotNeeded => f.write_str("the plan keeps within its budget without it"),
            StayReason::NotChosen => {
                f.write_str("the strategy leaves it out, for what its producer or its consumers are")
            }
        }
    }
}
