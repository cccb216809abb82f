//! A plan for one order of the ops and one set of parameters.

use std::collections::HashSet;

use super::starts::Parameters;
use crate::graph::NodeId;
use crate::ops::OpId;
use crate::plan::{Draft, NodeOrder, tflms, without_idle};
use crate::simulate::{Allocator, Origin, OutOfMemory, Program};
use crate::tune::Judge;
use crate::tune::planned::decide::{self, Choice, Decision, Decisions, Gone, Residence, Rule};
use crate::tune::planned::timeline::{Course, Gap, Order, Position, with_late_growth};
use crate::tune::planned::waits::{Holds, Updates, orders, paces};

/// Buffers of less than this part of the budget stay.
const LEAST_PART: f64 = 1.0 / 8192.0;

/// Buffers of up to this part of the budget may leave under several names. What layers keep of means and variances are such, and lie
/// between what is large.
const SMALL_PART: f64 = 1.0 / 1024.0;

/// Gaps of no more places are not worth to be decided.
const LEAST_GAP: u32 = 16;

/// Ops that touch no buffer of this part of the budget run when they like.
const ORDERED_PART: f64 = 1.0 / 512.0;

/// How room is made where the allocator found none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// A hole, which costs least.
    Hole,
    /// A hole, and what is small and could come to lie in it goes too.
    HoleWithoutIslands,
    /// Memory is left free around the place.
    Reserve,
}

/// The means in turn.
const MEANS: [Means; 4] = [Means::Hole, Means::Hole, Means::HoleWithoutIslands, Means::Reserve];

/// What a plan is made from.
#[derive(Debug, Clone)]
pub(in crate::tune::planned) struct Point {
    pub parameters: Parameters,
    pub decisions: Decisions,
    /// The part of the budget up to which what is decided to be made again may take what that needs.
    pub again_fill: f64,
    pub room: MadeRoom,
}

impl Point {
    /// Nothing is decided.
    pub fn new(parameters: Parameters) -> Point {
        Point { parameters, decisions: Decisions::default(), again_fill: 1.0, room: MadeRoom::default() }
    }
}

/// A gap of which something can be decided.
#[derive(Debug, Clone, Copy)]
pub(in crate::tune::planned) struct OpenGap {
    pub gap: Gap,
    pub can_be_made_again: bool,
    pub kind: Kind,
}

/// What gaps of a network's layers that are built alike have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::tune::planned) struct Kind {
    /// Of the buffer.
    pub bytes: u64,
    /// The kinds of the op that makes it, of the one before the gap, and of the one behind it.
    pub ops: [Option<OpId>; 3],
}

/// Plans for one order of the ops.
pub(in crate::tune::planned) struct Planner<'a> {
    course: Course<'a>,
    holds: Holds,
    updates: Updates,
    /// What keeps loops from running ahead of what they copy.
    paces: Vec<NodeOrder>,
}

impl<'a> Planner<'a> {
    /// Plans for a program's ops in this order.
    pub fn new(
        judge: &Judge<'a>,
        fixed: &tflms::Parameters,
        program: &'a Program,
        order: Order,
    ) -> Planner<'a> {
        let order = with_late_growth(judge.outline(), program, &order);
        let mut course = Course::new(judge.outline(), program, order, judge.machine().host_op_seconds);
        let least = judge.machine().memory.iter().copied().min().unwrap_or(0) as f64;
        course.filter(fixed);
        course.small_bytes = (least * SMALL_PART) as u64;
        course.cheap_ops = decide::cheap_ops(&course);
        let holds = Holds::new(&course, (least * ORDERED_PART) as u64);
        let updates = Updates::new(&course);
        let paces = paces(&course, &holds);
        Planner { course, holds, updates, paces }
    }

    /// What keeps loops from running ahead of what they copy.
    pub fn paces(&self) -> &[NodeOrder] {
        &self.paces
    }

    /// What is in memory before anything is decided.
    fn undecided(&self) -> Residence<'_> {
        Residence::new(&self.course, &self.holds, &self.updates)
    }

    /// How many ops a step has.
    pub fn step_ops(&self) -> u64 {
        self.course.order.len() as u64
    }

    /// A plan, and what it leaves in memory; none if the memory is too little.
    pub fn plan(&self, judge: &Judge, point: &Point) -> Option<(Draft, Residence<'_>)> {
        let Point { parameters, decisions, again_fill, room } = point;
        let machine = judge.machine();
        let budget = |gpu: usize| machine.memory_bytes(gpu).map_or(i64::MAX, |bytes| bytes as i64);
        let budgets: Vec<i64> = (0..self.course.rooms.len()).map(budget).collect();
        let part_of_all =
            |part: f64| -> Vec<i64> { budgets.iter().map(|&bytes| (bytes as f64 * part) as i64).collect() };
        let limits = part_of_all(parameters.fill);
        let least = budgets.iter().copied().min().unwrap_or(0) as f64;
        let cheap = (parameters.recompute_below, parameters.leaving);
        let cheapness = decide::cheapness(&self.course, machine, cheap);
        let choice = Choice {
            limits: &limits,
            budgets: &budgets,
            least_bytes: (least * LEAST_PART) as u64,
            cheapness: &cheapness,
            decisions,
        };
        let mut residence = self.undecided();
        room.reserves.iter().for_each(|reserve| reserve.add_to(&mut residence, 1));
        room.gone.iter().for_each(|gone| gone.leave(&mut residence));
        decisions.leave(&mut residence);
        decide::evict(&mut residence, &choice).ok()?;
        let with_early = part_of_all(parameters.early_fill);
        if parameters.recompute_below > 0.0 || decisions.have(Decision::Again) {
            let rule = Rule { below: parameters.recompute_below, chains: parameters.chains };
            let most = (&with_early[..], &part_of_all(*again_fill)[..]);
            decide::recompute(&mut residence, machine, most, rule, decisions);
        }
        decide::place_triggers(&mut residence, machine, &with_early, decisions);
        let mut draft = decide::draft(&residence);
        draft.orders.extend(orders(&self.course, &self.holds));
        draft.orders.extend(&self.paces);
        let mut draft = without_idle(self.course.outline.analysis(), draft);
        if machine.allocator == Allocator::Async {
            decide::wait_for_copies(&residence, &budgets, &mut draft);
        }
        draft.initial_values = self.course.outline.initial_values().to_vec();
        draft.host_ops = self.course.outline.host_ops().to_vec();
        Some((draft, residence))
    }
}

impl Planner<'_> {
    /// The gaps of buffers of at least so many bytes in which they could leave.
    pub fn gaps(&self, least_bytes: u64) -> Vec<OpenGap> {
        let residence = self.undecided();
        let mut gaps = Vec::new();
        for (number, life) in self.course.lives.numbered().filter(|(_, life)| life.bytes >= least_bytes) {
            let mut uses: Vec<Position> =
                std::iter::once(life.made).chain(life.uses.iter().map(|read| read.place)).collect();
            uses.dedup();
            for after in uses {
                let gap = Gap { life: number, after };
                let absence = residence.possible_absence(gap);
                if let Some(absence) = absence.filter(|absence| absence.until > after.plus(LEAST_GAP)) {
                    let is_cheap = self.course.cheap_ops[absence.tensor as usize].is_some();
                    let can_be_made_again = is_cheap && !absence.has_other_names;
                    let ops = [life.made, after, absence.until].map(|place| self.op_at(place));
                    gaps.push(OpenGap { gap, can_be_made_again, kind: Kind { bytes: life.bytes, ops } });
                }
            }
        }
        gaps
    }

    /// The kind of op at a place; none if that is a copy.
    fn op_at(&self, place: Position) -> Option<OpId> {
        self.course.node_at(place).map(|node| self.course.outline.analysis().graph.op_id(node))
    }

    /// Makes room where the allocator found none: a hole, or room around the place; none if neither is to be had.
    pub fn make_room(
        &self,
        judge: &Judge,
        (draft, residence): (&Draft, &Residence),
        shortage: &OutOfMemory,
        room: &mut MadeRoom,
    ) -> Option<()> {
        let program = Program::new(self.course.outline, draft);
        let place = self.place_of(&program, draft, shortage)?;
        let means = MEANS[room.rounds as usize % MEANS.len()];
        room.rounds += 1;
        let before = room.gone.len();
        if means != Means::Reserve {
            // What second runs read goes only where nothing else is in the way: it leaves before anything else is decided, as if there were
            // none of them.
            let undecided = self.undecided();
            let mut in_the_way = |of: &Residence| {
                let mut gone = decide::hole(of, &program, shortage, place);
                if means == Means::HoleWithoutIslands {
                    gone.extend(decide::islands(of, &program, shortage, place));
                }
                gone.retain(|&gone| room.known.insert(gone));
                gone
            };
            let mut gone = in_the_way(residence);
            if gone.is_empty() {
                gone = in_the_way(&undecided);
            }
            if gone.is_empty() {
                gone = decide::displaced(&undecided, &program, shortage, place);
                gone.retain(|&gone| room.known.insert(gone));
            }
            room.gone.extend(gone);
        }
        if room.gone.len() == before {
            let round = (room.reserves.len() as u32).min(3);
            let width = (self.course.order.len() as u32 / 128).max(4) << round;
            let budget = judge.machine().memory_bytes(shortage.gpu)? as i64;
            let idle = (budget - residence.room(shortage.gpu).at(place)).max(0);
            room.reserves.push(Reserve {
                gpu: shortage.gpu,
                first: place.minus(width),
                end: place.plus(width / 2),
                bytes: idle + shortage.wanted_bytes as i64 / 2,
            });
        }
        Some(())
    }

    /// The place at which memory ran out.
    fn place_of(&self, program: &Program, draft: &Draft, shortage: &OutOfMemory) -> Option<Position> {
        let graph = self.course.outline.analysis().graph;
        let mut op = shortage.op?;
        while let Origin::Signal(before) = program.origin(op) {
            op = before;
        }
        // What a trigger starts is counted from the place behind it.
        let place_behind = |triggers: &[NodeId]| Some(self.course.place_of_node(*triggers.first()?)?.next());
        match program.origin(op) {
            Origin::Op(node) => self.course.place_of_node(node),
            Origin::Recomputation(_, again) => place_behind(&draft.recomputations[again as usize].triggers),
            Origin::SwapIn(tensor, which) | Origin::Swap(tensor, which) => {
                let swap = draft.swaps.iter().find(|swap| swap.tensor == tensor)?;
                place_behind(&swap.uses[which as usize].triggers)
            }
            Origin::Copy(tensor) | Origin::SwapOut(tensor) => {
                self.course.place_of_node(graph.producer(tensor))
            }
            Origin::Signal(_) => None,
        }
    }
}

/// What was done for the allocator.
#[derive(Debug, Clone, Default)]
pub(in crate::tune::planned) struct MadeRoom {
    rounds: u32,
    /// In the order in which they were found, which is that in which they leave.
    gone: Vec<Gone>,
    /// The same, to be asked whether one is there.
    known: HashSet<Gone>,
    reserves: Vec<Reserve>,
}

impl MadeRoom {
    /// Leaves less free: with all of it there is no plan.
    pub fn take_back(&mut self) {
        self.reserves.pop();
    }

    /// Takes back what is left free from what a plan leaves in memory.
    pub fn give_back(&self, residence: &mut Residence) {
        self.reserves.iter().for_each(|reserve| reserve.add_to(residence, -1));
    }
}

/// Memory that is left free at some places.
#[derive(Debug, Clone)]
pub(in crate::tune::planned) struct Reserve {
    gpu: usize,
    first: Position,
    end: Position,
    bytes: i64,
}

impl Reserve {
    /// Takes the memory so many times.
    pub fn add_to(&self, residence: &mut Residence, times: i64) {
        residence.take(self.gpu, (self.first, self.end), self.bytes * times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::DeviceProfile;
    use crate::simulate::{Holder, Machine, Piece};
    use crate::tune::planned::decide::{Chains, Leaving};
    use crate::tune::planned::search::starts::Schedule;
    use crate::tune::planned::testing::with_outline;
    use crate::tune::planned::timeline::frugal;

    /// A plan for a network in a part of the memory that it takes, with second runs.
    fn with_plan(check: impl FnOnce(&Planner, &Judge, (&Draft, &Residence))) {
        with_outline("deeplabv3plus_65_b2", 1e-5, |outline| {
            let program = Program::new(outline, &Draft::default());
            let machine = Machine::new(DeviceProfile::built_in("v100-pcie3").unwrap(), 1, vec![320 << 20]);
            let judge = Judge::new(outline, &machine);
            let planner = Planner::new(&judge, &tflms::Parameters::default(), &program, frugal(&program));
            let point = Point::new(Parameters {
                schedule: Schedule::Frugal,
                fill: 0.8,
                early_fill: 0.8,
                recompute_below: 1.0,
                chains: Chains::Long,
                leaving: Leaving::Furthest,
            });
            let (draft, residence) = planner.plan(&judge, &point).unwrap();
            check(&planner, &judge, (&draft, &residence));
        });
    }

    /// What stays may lie in the way of something large though a second run is to read it: then it leaves all the same.
    #[test]
    fn what_second_runs_read_makes_room_too() {
        with_plan(|planner, judge, (draft, residence)| {
            let course = &planner.course;
            let graph = course.outline.analysis().graph;
            let program = Program::new(course.outline, draft);
            let undecided = planner.undecided();
            let mut tried = 0;
            for (_, run) in residence.second_runs().numbered() {
                for read in run.reads.iter().filter(|read| read.from.is_none()) {
                    let Some(life) = course.life_of[read.tensor as usize] else { continue };
                    // It stays when it is idle before the run, and could be gone then if there were no such run.
                    let of = undecided.life(life);
                    let after = of.uses[..of.uses.partition_point(|read| read.place < run.place)].last();
                    let after = after.map_or(of.made, |read| read.place);
                    let absence = undecided.possible_absence(Gap { life, after });
                    let Some(place) = absence.map(|absence| absence.trigger.min(run.place.minus(1))) else {
                        continue;
                    };
                    let (Some(id), Some(node)) =
                        (course.tensor_ids[read.tensor as usize], course.node_at(place))
                    else {
                        continue;
                    };
                    if !residence.absences(life).is_empty() || place <= after {
                        continue;
                    }
                    let made = program.outputs(course.outline.entry(graph.producer(id)).unwrap());
                    let bytes = residence.life(life).bytes;
                    let holder = Holder::Tensor(made.start + graph.output_index(id));
                    let free = Piece { bytes, holder: Holder::Nobody };
                    let shortage = OutOfMemory {
                        gpu: 0,
                        op: course.outline.entry(node),
                        wanted_bytes: 3 * bytes,
                        used_bytes: bytes,
                        pieces: vec![free, Piece { bytes, holder }, free],
                    };
                    let mut room = MadeRoom::default();
                    planner.make_room(judge, (draft, residence), &shortage, &mut room).unwrap();
                    assert_eq!(room.gone, [Gone::At { life, place }]);
                    tried += 1;
                }
            }
            assert!(tried > 0, "{} second runs", residence.second_runs().len());
        });
    }
}
