//! How much longer a step takes because of what is decided of each gap.

use std::collections::{BTreeMap, HashMap};

use crate::graph::TensorId;
use crate::order::Place;
use crate::plan::Draft;
use crate::simulate::{Machine, Observer, Origin, Program, simulate};
use crate::tune::planned::decide::{Comeback, Residence};
use crate::tune::planned::timeline::{Gap, Table};

/// A GPU that stands still for less loses nothing worth a look.
const LEAST_SECONDS: f64 = 1e-5;

/// Seconds that gaps cost with a plan, in the order of gaps; nothing if the plan does not fit.
///
/// A second run costs what it takes. While a GPU stands still, each copy that is under way costs the time that passes, and that which
/// ends last, for which the GPU waits, the whole of it once more: it may have waited for others.
pub(super) fn blame(residence: &Residence, draft: &Draft, machine: &Machine) -> Vec<(Gap, f64)> {
    let program = Program::new(residence.course().outline, draft);
    let mut watch = Watch { gpus: Vec::new(), costs: BTreeMap::new() };
    if simulate(&program, machine, &mut watch).is_err() {
        return Vec::new();
    }
    let returns = Returns::of(residence);
    // In one order, since sums of fractions depend on it.
    let mut costs: BTreeMap<Gap, f64> = BTreeMap::new();
    for (op, seconds) in watch.costs {
        for &gap in returns.gaps(program.origin(op)) {
            *costs.entry(gap).or_default() += seconds;
        }
    }
    add_second_runs(residence, &mut costs);
    costs.into_iter().collect()
}

/// For each tensor the gaps that a copy of it ends, in the order of its returns.
#[derive(Default)]
struct Returns {
    of: HashMap<TensorId, Vec<Gap>>,
}

impl Returns {
    fn of(residence: &Residence) -> Returns {
        let mut returns = Returns::default();
        for (gap, _, name) in residence.copies() {
            if let Some(tensor) = residence.course().tensor_ids[name as usize] {
                returns.of.entry(tensor).or_default().push(gap);
            }
        }
        returns
    }

    /// The gaps that a copy is made for: one to the GPU for one, that to the host for all.
    fn gaps(&self, copy: Origin) -> &[Gap] {
        let all = |tensor| self.of.get(&tensor).map_or(&[][..], Vec::as_slice);
        match copy {
            Origin::SwapIn(tensor, number) => {
                all(tensor).get(number as usize).map_or(&[], std::slice::from_ref)
            }
            Origin::Copy(tensor) => all(tensor),
            _ => &[],
        }
    }
}

/// Adds what second runs take, those too that make what others read.
fn add_second_runs(residence: &Residence, costs: &mut BTreeMap<Gap, f64>) {
    let mut is_counted = Table::filled(false, residence.second_runs().len());
    for (gap, absence) in residence.all() {
        let Comeback::Again(run) = absence.comeback else { continue };
        let mut open = vec![run];
        let mut seconds = 0.0;
        while let Some(run) = open.pop() {
            if !std::mem::replace(&mut is_counted[run], true) {
                let run = &residence.second_runs()[run];
                seconds += residence.course().outline.seconds(run.node);
                open.extend(run.reads.iter().filter_map(|read| read.from));
            }
        }
        *costs.entry(gap).or_default() += seconds;
    }
}

/// A copy that is or was under way.
struct Copy {
    op: u32,
    start_seconds: f64,
    end_seconds: f64,
}

/// Notes what GPUs wait for.
struct Watch {
    gpus: Vec<Gpu>,
    /// For each copy what it costs.
    costs: BTreeMap<u32, f64>,
}

/// What a GPU did so far.
#[derive(Default)]
struct Gpu {
    computed_until: f64,
    /// Copies that may end after that.
    copies: Vec<Copy>,
}

impl Watch {
    fn gpu(&mut self, place: Place) -> Option<&mut Gpu> {
        let Place::Gpu(number) = place else { return None };
        let count = self.gpus.len().max(usize::from(number) + 1);
        self.gpus.resize_with(count, Gpu::default);
        self.gpus.get_mut(usize::from(number))
    }
}

impl Observer for Watch {
    fn compute(&mut self, _: u32, gpu: Place, start_seconds: f64, end_seconds: f64) {
        let Some(gpu) = self.gpu(gpu) else { return };
        let from = std::mem::replace(&mut gpu.computed_until, end_seconds);
        gpu.copies.retain(|copy| copy.end_seconds > from);
        if start_seconds - from < LEAST_SECONDS {
            return;
        }
        let mut last: Option<&Copy> = None;
        let mut costs: Vec<(u32, f64)> = Vec::new();
        for copy in gpu.copies.iter().filter(|copy| copy.start_seconds < start_seconds) {
            let seconds = copy.end_seconds.min(start_seconds) - copy.start_seconds.max(from);
            costs.push((copy.op, seconds));
            let is_waited_for = copy.end_seconds <= start_seconds;
            if is_waited_for && last.is_none_or(|last| last.end_seconds <= copy.end_seconds) {
                last = Some(copy);
            }
        }
        costs.extend(last.map(|last| (last.op, start_seconds - from)));
        for (op, seconds) in costs {
            *self.costs.entry(op).or_default() += seconds;
        }
    }

    fn copy(&mut self, op: u32, gpu: Place, _: bool, start_seconds: f64, end_seconds: f64) {
        if let Some(gpu) = self.gpu(gpu) {
            gpu.copies.push(Copy { op, start_seconds, end_seconds });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_cost_the_time_in_which_a_gpu_stands_still() {
        let mut watch = Watch { gpus: Vec::new(), costs: BTreeMap::new() };
        let gpu = Place::Gpu(1);
        watch.compute(0, gpu, 0.0, 10.0);
        watch.copy(1, gpu, false, 2.0, 4.0);
        watch.copy(2, gpu, true, 8.0, 14.0);
        watch.copy(3, gpu, false, 14.0, 18.0);
        watch.copy(4, gpu, true, 16.0, 30.0);
        watch.compute(5, gpu, 18.0, 40.0);
        watch.compute(6, gpu, 40.0, 41.0);
        let costs: Vec<(u32, f64)> = watch.costs.into_iter().collect();
        // The GPU waits from 10 to 18, for the third copy in the end.
        assert_eq!(costs, [(2, 4.0), (3, 4.0 + 8.0), (4, 2.0)]);
    }
}
