//! The linear program of one GPU's step.

use std::cmp::Reverse;

use super::computes_on;
use super::linear::{LinearProgram, Terms};
use crate::simulate::{Buffer, CHUNK_BYTES, Machine};
use crate::tune::planned::{Course, LifeId, Position, Reader};

/// At how many places memory is looked at, at most.
const MOST_PLACES: usize = 256;

/// How many buffers may be absent, at most. Others that could be take no memory.
const MOST_LIVES: usize = 512;

/// Buffers of less than this part of the budget that could be absent take no memory.
const LEAST_PART: u64 = 4096;

/// In units of which time and memory are counted: so many are the step, and the budget.
const UNITS: f64 = 1000.0;

/// A step of one GPU, in an order.
pub(super) struct Gpu<'a> {
    pub course: &'a Course<'a>,
    pub machine: &'a Machine,
    pub number: u16,
}

/// A buffer: when it is made and read by ops of its GPU.
struct Life {
    number: LifeId,
    bytes: u64,
    made: u32,
    /// The places, the first being that where it is made.
    points: Vec<u32>,
}

/// A buffer may be absent between two of its uses.
#[derive(Clone, Copy)]
struct Gap {
    after: u32,
    until: u32,
    /// How long making what is read behind it takes; none if it cannot be made again.
    again_seconds: Option<f64>,
}

/// Where memory is short.
struct Tight {
    /// The places that are looked at, those where it is shortest.
    places: Vec<u32>,
    /// What is needed at each place of all if nothing is absent, in bytes.
    needs: Vec<i64>,
    /// The buffers that may be absent at the places that are looked at, and when.
    lives: Vec<(Life, Vec<Gap>)>,
}

/// What the variables of a gap are.
struct GapVariables {
    /// By its memory.
    size: f64,
    /// The parts of it that come back by a copy, and by second runs.
    parts: Vec<usize>,
    /// The first place at which it may be absent, and the first at which it is back; numbers of places that are looked at.
    first: usize,
    back: usize,
}

/// Sums over gaps, up to each place that is looked at: what is added to them at each.
struct Sums {
    absent: Vec<Terms>,
    come_in: Vec<Terms>,
    gone_out: Vec<Terms>,
    could_go_out: Vec<Terms>,
    made_again: Vec<Terms>,
    could_be_made_again: Vec<Terms>,
}

impl Gpu<'_> {
    /// What no step goes below that takes no longer than `most_seconds`; none if that is not found out.
    pub fn bound(&self, most_seconds: f64) -> Option<f64> {
        let compute_seconds = self.seconds_before().last().copied().unwrap_or(0.0);
        let Some(budget) = self.machine.memory_bytes(usize::from(self.number)) else {
            return Some(compute_seconds);
        };
        let tight = self.tight_places(budget);
        if tight.places.is_empty() || most_seconds <= 0.0 {
            return Some(compute_seconds);
        }
        let scale = Scale { seconds: most_seconds / UNITS, bytes: budget as f64 / UNITS };
        let program = self.program(&tight, scale, budget);
        // Beside what computing takes, which all plans take.
        Some(compute_seconds + program.bound()?.max(0.0) * scale.seconds)
    }

    /// The least that a buffer has to have to be counted if it could be absent.
    fn least_bytes(&self) -> u64 {
        self.machine.memory_bytes(usize::from(self.number)).unwrap_or(0) / LEAST_PART
    }

    /// For each place, and behind the last, how long the GPU computes before it.
    fn seconds_before(&self) -> Vec<f64> {
        let program = self.course.program;
        let mut sum = 0.0;
        let mut before = vec![0.0];
        before.extend(self.course.order.iter().map(|&op| {
            sum += if computes_on(program, op, self.number) { program.seconds(op) } else { 0.0 };
            sum
        }));
        before
    }

    /// The buffers of this GPU that its own ops make.
    fn lives(&self) -> Vec<Life> {
        let Course { program, order, .. } = self.course;
        let mut lives = Vec::new();
        for (number, life) in self.course.lives.numbered() {
            if life.gpu != self.number || !computes_on(program, order[life.made], self.number) {
                continue;
            }
            let reads = life.uses.iter().filter(|read| match read.reader {
                Reader::Entry(op) => computes_on(program, op, self.number),
                Reader::Again(_) => false,
            });
            let places = std::iter::once(life.made).chain(reads.map(|read| read.place));
            let mut points: Vec<u32> = places.map(Position::number).collect();
            points.dedup();
            lives.push(Life { number, bytes: life.bytes, made: life.made.number(), points });
        }
        lives
    }

    /// Where memory is short, and what may be absent there.
    fn tight_places(&self, budget: u64) -> Tight {
        let lives = self.lives();
        let mut needs = self.needs(&lives);
        let tight_before = |needs: &[i64]| -> Vec<u32> {
            let mut count = 0;
            let counted = needs.iter().map(|&need| {
                count += u32::from(need > budget as i64);
                count
            });
            std::iter::once(0).chain(counted).collect()
        };
        // How many tight places are before each.
        let before = tight_before(&needs);
        let covered = |after: u32, until: u32| before[until as usize] - before[after as usize + 1];
        let mut absent: Vec<(u64, Life)> = Vec::new();
        for life in lives {
            let pairs = life.points.windows(2);
            let places: u32 = pairs.map(|pair| covered(pair[0], pair[1])).sum();
            if places > 0 {
                absent.push((u64::from(places) * life.bytes, life));
            }
        }
        absent.sort_by_key(|(worth, life)| (Reverse(*worth), life.number));
        let least_bytes = self.least_bytes();
        let is_counted = |number: usize, life: &Life| number < MOST_LIVES && life.bytes >= least_bytes;
        let mut counted = Vec::new();
        for (number, (_, life)) in absent.into_iter().enumerate() {
            if is_counted(number, &life) {
                counted.push(life);
                continue;
            }
            let end = life.points.last().copied().unwrap_or(life.made);
            (life.made..=end).for_each(|place| needs[place as usize] -= life.bytes as i64);
        }
        let tight: Vec<u32> =
            (0u32..).zip(&needs).filter(|&(_, &need)| need > budget as i64).map(|(place, _)| place).collect();
        let shortest = |group: &[u32]| {
            group.iter().copied().max_by_key(|&place| (needs[place as usize], Reverse(place)))
        };
        let group = tight.len().div_ceil(MOST_PLACES).max(1);
        let places: Vec<u32> = tight.chunks(group).filter_map(shortest).collect();
        let lives = counted
            .into_iter()
            .map(|life| {
                let gaps = self.gaps(&life, &places);
                (life, gaps)
            })
            .filter(|(_, gaps)| !gaps.is_empty())
            .collect();
        Tight { places, needs, lives }
    }

    /// For each place the bytes that are taken when its op is launched, if no buffer is absent; nothing where another device works.
    fn needs(&self, lives: &[Life]) -> Vec<i64> {
        let Course { program, order, .. } = self.course;
        let mut changes = vec![0i64; order.len() + 1];
        for life in lives {
            let end = life.points.last().copied().unwrap_or(life.made);
            changes[life.made as usize] += life.bytes as i64;
            changes[end as usize + 1] -= life.bytes as i64;
        }
        let persistent = program.persistent_bytes().nth(usize::from(self.number)).unwrap_or(0) as i64;
        let mut alive = persistent;
        order
            .iter()
            .zip(changes)
            .map(|(&op, change)| {
                alive += change;
                match computes_on(program, op, self.number) {
                    true => alive + program.workspace_bytes(op) as i64 - self.taken_over(op),
                    false => 0,
                }
            })
            .collect()
    }

    /// The bytes of what an op makes that may be written over what it reads, with a plan in which that is not read any more.
    fn taken_over(&self, op: u32) -> i64 {
        let program = self.course.program;
        let is_like = |tensor: u32| {
            let like = |read: u32| {
                program.tensor_bytes(read) == program.tensor_bytes(tensor)
                    && program.tensor_place(read) == program.tensor_place(tensor)
            };
            program.reads(op).flatten().any(like)
        };
        let outputs = program.outputs(op).filter(|&tensor| {
            let life = self.course.life_of(tensor);
            let is_new = life.is_some_and(|life| self.course.order[life.made] == op);
            is_new && program.buffer(tensor) == Buffer::DyingInput && is_like(tensor)
        });
        outputs.map(|tensor| program.tensor_bytes(tensor) as i64).max().unwrap_or(0)
    }

    /// When a buffer may be absent at one of these places.
    fn gaps(&self, life: &Life, places: &[u32]) -> Vec<Gap> {
        let of = |pair: &[u32]| {
            let (after, until) = (pair[0], pair[1]);
            let is_looked_at = places.partition_point(|&place| place <= after)
                < places.partition_point(|&place| place < until);
            is_looked_at.then(|| Gap { after, until, again_seconds: self.again_seconds(life, until) })
        };
        life.points.windows(2).filter_map(of).collect()
    }

    /// How long it takes at least to make again what is read of a buffer at a place, if nothing of it is left; none if that cannot be.
    fn again_seconds(&self, life: &Life, place: u32) -> Option<f64> {
        let uses = &self.course.lives[life.number].uses;
        let reads = uses.iter().filter(|read| read.place.number() == place);
        let seconds: Vec<f64> = reads.filter_map(|read| self.chain_seconds(life, read.tensor)).collect();
        seconds.into_iter().reduce(f64::min)
    }

    /// How long the ops take that lead from the first tensor of a buffer to this one.
    fn chain_seconds(&self, life: &Life, tensor: u32) -> Option<f64> {
        let course = self.course;
        let least_bytes = self.least_bytes();
        let mut seconds = 0.0;
        let mut seen = vec![tensor];
        let mut next = 0;
        while let Some(&tensor) = seen.get(next) {
            next += 1;
            let node = course.cheap_ops[tensor as usize]?;
            let entry = course.outline.entry(node)?;
            // One run may make several tensors again; what is small is not counted anyway.
            let lives = course.program.outputs(entry).map(|output| course.life_of[output as usize]);
            let is_counted = |&other: &LifeId| course.lives[other].bytes >= least_bytes;
            let mut made: Vec<LifeId> = lives.flatten().filter(is_counted).collect();
            made.sort_unstable();
            made.dedup();
            seconds += course.outline.seconds(node) / made.len().max(1) as f64;
            for read in course.program.reads_alone(entry).flatten() {
                if course.life_of[read as usize] == Some(life.number) && !seen.contains(&read) {
                    seen.push(read);
                }
            }
        }
        Some(seconds)
    }

    /// What a step costs beside computing each op once.
    fn program(&self, tight: &Tight, scale: Scale, budget: u64) -> LinearProgram {
        let Tight { places, needs, lives } = tight;
        let mut program = LinearProgram::default();
        let count = places.len();
        let empty = || vec![Terms::new(); count + 1];
        let mut sums = Sums {
            absent: empty(),
            come_in: empty(),
            gone_out: empty(),
            could_go_out: empty(),
            made_again: empty(),
            could_be_made_again: empty(),
        };
        for (life, gaps) in lives {
            self.add_life(&mut program, &mut sums, places, (life, gaps), scale);
        }
        let before = self.seconds_before();
        let mut computed = 0.0;
        let rates = [self.machine.in_bytes_per_second, self.machine.out_bytes_per_second]
            .map(|rate| rate * scale.seconds / scale.bytes);
        // The place behind the last is the end of the step.
        let mut last: Option<Point> = None;
        for number in 0..=count {
            let place = places.get(number).copied();
            let seconds = before[place.map_or(before.len() - 1, |place| place as usize)] / scale.seconds;
            let passed = seconds - std::mem::replace(&mut computed, seconds);
            let is_end = place.is_none();
            let point = Point::new(&mut program, &mut sums, (number, is_end), last.as_ref());
            point.connect(&mut program, last.as_ref(), passed, rates);
            if let Some(place) = place {
                // What is there is what is needed but for what is absent, and with what came early and what is not out yet.
                let terms = vec![
                    (point.absent, -1.0),
                    (point.came_in, 1.0),
                    (point.come_in, -1.0),
                    (point.not_out, 1.0),
                ];
                let room = budget as f64 - needs[place as usize] as f64;
                program.at_most(terms, room / scale.bytes);
            }
            last = Some(point);
        }
        program
    }

    fn add_life(
        &self,
        program: &mut LinearProgram,
        sums: &mut Sums,
        places: &[u32],
        (life, gaps): (&Life, &[Gap]),
        scale: Scale,
    ) {
        let size = life.bytes as f64 / scale.bytes;
        // What is copied is less than whole chunks.
        let copied = life.bytes.saturating_sub(CHUNK_BYTES - 1) as f64 / scale.bytes;
        // How much of it has ever gone out.
        let mut out: Option<usize> = None;
        for gap in gaps {
            let first = places.partition_point(|&place| place <= gap.after);
            let back = places.partition_point(|&place| place < gap.until);
            let swapped = program.variable(1.0, 0.0);
            let mut parts = vec![swapped];
            sums.come_in[back].push((swapped, copied));
            if let Some(seconds) = gap.again_seconds {
                let again = program.variable(1.0, 0.0);
                parts.push(again);
                program.at_most(vec![(swapped, 1.0), (again, 1.0)], 1.0);
                sums.made_again[back].push((again, seconds / scale.seconds));
                sums.could_be_made_again[first].push((again, seconds / scale.seconds));
            } else {
                program.at_most(vec![(swapped, 1.0)], 1.0);
            }
            let gone = program.variable(1.0, 0.0);
            program.at_most(vec![(swapped, 1.0), (gone, -1.0)], 0.0);
            sums.gone_out[first].push((gone, copied));
            if let Some(before) = out {
                program.at_most(vec![(before, 1.0), (gone, -1.0)], 0.0);
                sums.gone_out[first].push((before, -copied));
            }
            out = Some(gone);
            let gap = GapVariables { size, parts, first, back };
            gap.add_to(&mut sums.absent);
        }
        if let Some(out) = out {
            let made = places.partition_point(|&place| place <= life.made);
            sums.could_go_out[made].push((out, copied));
        }
    }
}

impl GapVariables {
    fn add_to(&self, absent: &mut [Terms]) {
        for &part in &self.parts {
            absent[self.first].push((part, self.size));
            absent[self.back].push((part, -self.size));
        }
    }
}

/// Seconds and bytes of a unit.
#[derive(Clone, Copy)]
struct Scale {
    seconds: f64,
    bytes: f64,
}

/// The variables of a place that is looked at: all of them what there was up to it, but for memory.
struct Point {
    /// How long the GPU has been idle, or done what is not looked at, and how long it has made things again.
    idle: usize,
    again: usize,
    /// The bytes that have come in and gone out.
    came_in: usize,
    went_out: usize,
    /// The bytes that had to come in, and to go out; and those that could have gone out.
    come_in: usize,
    gone_out: usize,
    could_go_out: usize,
    /// The time that had to be spent, and could have been, with making things again.
    made_again: usize,
    could_be_made_again: usize,
    /// The bytes that are absent, and those of them that are still on their way out.
    absent: usize,
    not_out: usize,
}

impl Point {
    /// The variables of a place, and what the sums are there.
    fn new(
        program: &mut LinearProgram,
        sums: &mut Sums,
        (number, is_end): (usize, bool),
        last: Option<&Point>,
    ) -> Point {
        let cost = if is_end { 1.0 } else { 0.0 };
        let all =
            |terms: &[Terms]| -> f64 { terms.iter().flatten().map(|&(_, factor)| factor.max(0.0)).sum() };
        let ends = [
            &sums.come_in,
            &sums.gone_out,
            &sums.could_go_out,
            &sums.made_again,
            &sums.could_be_made_again,
            &sums.absent,
        ]
        .map(|terms| all(terms));
        let [come_in_end, gone_out_end, could_go_out_end, made_again_end, could_be_end, absent_end] = ends;
        let mut sum = |terms: &mut Vec<Terms>, end: f64, before: Option<usize>| {
            let variable = program.variable(end, 0.0);
            // The sum is the last one and what is added to it here.
            let mut row: Terms =
                terms[number].iter().map(|&(variable, factor)| (variable, -factor)).collect();
            row.push((variable, 1.0));
            row.extend(before.map(|before| (before, -1.0)));
            program.equal(row, 0.0);
            variable
        };
        let come_in = sum(&mut sums.come_in, come_in_end, last.map(|last| last.come_in));
        let gone_out = sum(&mut sums.gone_out, gone_out_end, last.map(|last| last.gone_out));
        let could_go_out = sum(&mut sums.could_go_out, could_go_out_end, last.map(|last| last.could_go_out));
        let made_again = sum(&mut sums.made_again, made_again_end, last.map(|last| last.made_again));
        let could_be_made_again =
            sum(&mut sums.could_be_made_again, could_be_end, last.map(|last| last.could_be_made_again));
        let absent = sum(&mut sums.absent, absent_end, last.map(|last| last.absent));
        Point {
            idle: program.variable(UNITS, cost),
            again: program.variable(UNITS, cost),
            came_in: program.variable(come_in_end, 0.0),
            went_out: program.variable(could_go_out_end, 0.0),
            come_in,
            gone_out,
            could_go_out,
            made_again,
            could_be_made_again,
            absent,
            not_out: program.variable(gone_out_end, 0.0),
        }
    }

    /// What holds between a place and the one before it, between which the GPU computes for so long, and at the place itself.
    fn connect(&self, program: &mut LinearProgram, last: Option<&Point>, passed: f64, rates: [f64; 2]) {
        let mut at_most = |mine: &[(usize, f64)], lasts: &[(Option<usize>, f64)], right: f64| {
            let mut terms = mine.to_vec();
            terms.extend(lasts.iter().filter_map(|&(variable, factor)| Some((variable?, factor))));
            program.at_most(terms, right);
        };
        let of = |which: fn(&Point) -> usize| last.map(which);
        // Time passes, and bytes do not come back.
        if last.is_some() {
            at_most(&[(self.idle, -1.0)], &[(of(|last| last.idle), 1.0)], 0.0);
            at_most(&[(self.again, -1.0)], &[(of(|last| last.again), 1.0)], 0.0);
            at_most(&[(self.came_in, -1.0)], &[(of(|last| last.came_in), 1.0)], 0.0);
            at_most(&[(self.went_out, -1.0)], &[(of(|last| last.went_out), 1.0)], 0.0);
        }
        // Links are no faster than they are.
        let [in_rate, out_rate] = rates;
        let link = [
            (self.came_in, of(|last| last.came_in), in_rate),
            (self.went_out, of(|last| last.went_out), out_rate),
        ];
        for (mine, last_one, rate) in link {
            if rate.is_finite() {
                at_most(
                    &[(mine, 1.0), (self.idle, -rate), (self.again, -rate)],
                    &[(last_one, -1.0), (of(|last| last.idle), rate), (of(|last| last.again), rate)],
                    passed * rate,
                );
            }
        }
        at_most(&[(self.come_in, 1.0), (self.came_in, -1.0)], &[], 0.0);
        at_most(&[(self.went_out, 1.0), (self.could_go_out, -1.0)], &[], 0.0);
        at_most(&[(self.gone_out, 1.0), (self.went_out, -1.0), (self.not_out, -1.0)], &[], 0.0);
        at_most(&[(self.made_again, 1.0), (self.again, -1.0)], &[], 0.0);
        at_most(&[(self.again, 1.0), (self.could_be_made_again, -1.0)], &[], 0.0);
    }
}
