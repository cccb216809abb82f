//! Tuning in TFLMSv2's model of memory: as TFLMSv2 does it, and as well as it can be done.
//!
//! So that our plans and TFLMSv2's can be compared on its own ground. There time is no subject: the better of two plans that fit
//! moves fewer bytes.

use crate::plan::tflms::{Parameters, SyncMode, TflmsError, draft};
use crate::plan::{Analysis, Draft};
use crate::simulate::{LevelModel, LevelPeak};

/// Each threshold of the grid is by so much smaller than the one before.
const GRID_STEP: f64 = 0.7;

/// How many thresholds above the best one are tried one by one: what fits is not monotone in the threshold.
const NEIGHBOURS: u32 = 8;

/// A plan that fits in the model.
#[derive(Debug, Clone)]
pub struct LevelPlan {
    /// What the strategy was set to.
    pub parameters: Parameters,
    /// The plan.
    pub draft: Draft,
    /// What it takes in the model.
    pub peak: LevelPeak,
    /// What is copied to the host, as far as sizes are known.
    pub out_bytes: u64,
    /// What is copied back.
    pub in_bytes: u64,
}

impl LevelPlan {
    /// What is copied in both directions.
    pub fn moved_bytes(&self) -> u64 {
        self.out_bytes.saturating_add(self.in_bytes)
    }
}

/// What tuning in TFLMSv2's model found.
#[derive(Debug)]
pub struct LevelTuning {
    /// What a step takes as it is.
    pub before: LevelPeak,
    /// Whether it fits as it is; then there are no plans.
    pub fits: bool,
    /// The end of TFLMSv2's own search; none if that fails.
    pub tflms: Option<LevelPlan>,
    /// How many plans that search judged.
    pub tflms_simulations: u32,
    /// The plan that moves the fewest bytes of all that were found to fit.
    pub best: Option<LevelPlan>,
    /// How many plans were judged in all.
    pub simulations: u32,
}

/// Tunes the parameters of TFLMSv2 for a budget, which is what learning parameters leave of the memory
/// ([`crate::simulate::usable_bytes`]). `fixed` says what is not searched: devices, filters, the mode.
///
/// # Errors
///
/// If the strategy cannot plan for this graph.
pub fn tune_by_levels(
    analysis: &Analysis,
    budget_bytes: u64,
    fixed: &Parameters,
) -> Result<LevelTuning, TflmsError> {
    let model = LevelModel::new(analysis, fixed)?;
    let levels = analysis.levels.count() as u32;
    let mut search = LevelSearch { model: &model, budget_bytes, levels, best: None, simulations: 1 };
    let before = model.peak(&Draft::default(), fixed.sync_mode);
    let mut tuning = LevelTuning {
        before,
        fits: before.bytes < budget_bytes,
        tflms: None,
        tflms_simulations: 1,
        best: None,
        simulations: 1,
    };
    if !tuning.fits {
        tuning.tflms = search.as_tflms(fixed)?;
        tuning.tflms_simulations = search.simulations;
        search.fewest_bytes(fixed)?;
        tuning.best = search.best;
        tuning.simulations = search.simulations;
    }
    Ok(tuning)
}

struct LevelSearch<'a> {
    model: &'a LevelModel<'a>,
    budget_bytes: u64,
    levels: u32,
    /// The plan with the fewest bytes so far.
    best: Option<LevelPlan>,
    simulations: u32,
}

impl LevelSearch<'_> {
    /// Plans and judges; the plan, if it fits. Remembers the best.
    fn attempt(&mut self, parameters: &Parameters) -> Result<Option<LevelPlan>, TflmsError> {
        let draft = draft(self.model.analysis(), parameters)?;
        self.simulations += 1;
        let peak = self.model.peak(&draft, parameters.sync_mode);
        if peak.bytes >= self.budget_bytes {
            return Ok(None);
        }
        let (mut out_bytes, mut in_bytes) = (0u64, 0u64);
        for swap in &draft.swaps {
            let bytes = self.model.analysis().sizes.bytes(swap.tensor).unwrap_or(0);
            out_bytes = out_bytes.saturating_add(bytes);
            in_bytes = in_bytes.saturating_add(bytes.saturating_mul(swap.uses.len() as u64));
        }
        let plan = LevelPlan { parameters: parameters.clone(), draft, peak, out_bytes, in_bytes };
        if self.best.as_ref().is_none_or(|best| plan.moved_bytes() < best.moved_bytes()) {
            self.best = Some(plan.clone());
        }
        Ok(Some(plan))
    }

    /// TFLMSv2's search: the largest threshold at the first synchronization mode with which threshold 1 fits, then how far
    /// ahead, then how near consumers must be to share a copy.
    fn as_tflms(&mut self, fixed: &Parameters) -> Result<Option<LevelPlan>, TflmsError> {
        let mut found = None;
        for mode in modes() {
            let start = Parameters {
                swapout_threshold: 1,
                swapin_ahead: 1,
                swapin_groupby: 0,
                sync_mode: mode,
                ..fixed.clone()
            };
            found = self.attempt(&start)?;
            if found.is_some() {
                break;
            }
        }
        let Some(found) = found else { return Ok(None) };
        let found = self
            .largest(found, 1, |value, parameters| Parameters { swapout_threshold: value, ..parameters })?;
        // Copies that come back synchronously neither come ahead nor, as TFLMSv2 has it, are shared.
        if found.parameters.sync_mode.swap_in {
            return Ok(Some(found));
        }
        let found =
            self.largest(found, 1, |value, parameters| Parameters { swapin_ahead: value, ..parameters })?;
        let group_by = |value, parameters| Parameters { swapin_groupby: value, ..parameters };
        if let Some(all) = self.attempt(&group_by(self.levels, found.parameters.clone()))? {
            return Ok(Some(all));
        }
        // Of smaller values TFLMSv2 takes the first that fits, not the largest.
        let mut high = self.levels;
        while high > 1 {
            let middle = high / 2;
            if let Some(shared) = self.attempt(&group_by(middle, found.parameters.clone()))? {
                return Ok(Some(shared));
            }
            high = middle - 1;
        }
        Ok(Some(found))
    }

    /// Bisects for the largest value of one parameter that fits, from `low` on.
    fn largest(
        &mut self,
        mut found: LevelPlan,
        mut low: u32,
        set: impl Fn(u32, Parameters) -> Parameters,
    ) -> Result<LevelPlan, TflmsError> {
        let mut high = self.levels;
        while low <= high {
            let middle = low + (high - low) / 2;
            match self.attempt(&set(middle, found.parameters.clone()))? {
                Some(better) => {
                    found = better;
                    low = middle + 1;
                }
                None => high = middle.saturating_sub(1),
            }
        }
        Ok(found)
    }

    /// Looks through thresholds, modes and ways to share copies for a plan that moves fewer bytes.
    fn fewest_bytes(&mut self, fixed: &Parameters) -> Result<(), TflmsError> {
        let least = self.least_bytes(fixed)?;
        // Nothing in the model depends on whether copies to the host are synchronous.
        let synchronous = SyncMode { swap_out: true, swap_in: true };
        for sync_mode in [SyncMode { swap_out: false, swap_in: false }, synchronous] {
            for swapin_groupby in [self.levels, self.levels / 4, self.levels / 16, 0] {
                let start = Parameters { sync_mode, swapin_groupby, swapin_ahead: 1, ..fixed.clone() };
                self.descend(&start, &least)?;
            }
        }
        let Some(best) = &self.best else { return Ok(()) };
        let (start, first) = (best.parameters.clone(), best.parameters.swapout_threshold + 1);
        for swapout_threshold in first..first.saturating_add(NEIGHBOURS).min(self.levels) {
            self.attempt(&Parameters { swapout_threshold, ..start.clone() })?;
        }
        Ok(())
    }

    /// Lowers the threshold until a plan fits, then bisects upwards; passes over thresholds that cannot move fewer bytes than
    /// the best.
    fn descend(&mut self, start: &Parameters, least: &[u64]) -> Result<(), TflmsError> {
        let at = |swapout_threshold| Parameters { swapout_threshold, ..start.clone() };
        let best = self.best.as_ref().map_or(u64::MAX, LevelPlan::moved_bytes);
        let lowest = least.partition_point(|&bytes| bytes >= best).max(1) as u32;
        // Where nothing leaves, nothing is gained.
        let mut too_high = least.partition_point(|&bytes| bytes > 0) as u32;
        let mut low = loop {
            if too_high <= lowest {
                return Ok(());
            }
            let next = ((f64::from(too_high) * GRID_STEP) as u32).max(lowest);
            if self.attempt(&at(next))?.is_some() {
                break next;
            }
            too_high = next;
        };
        while low + 1 < too_high {
            let middle = low + (too_high - low) / 2;
            if self.attempt(&at(middle))?.is_some() {
                low = middle;
            } else {
                too_high = middle;
            }
        }
        Ok(())
    }

    /// For each threshold the bytes that a plan moves at least: each tensor that leaves once in both directions.
    fn least_bytes(&self, fixed: &Parameters) -> Result<Vec<u64>, TflmsError> {
        let Analysis { graph, levels, sizes, .. } = self.model.analysis();
        let all = Parameters { swapout_threshold: 0, swapin_groupby: self.levels, ..fixed.clone() };
        let mut least = vec![0u64; levels.count() + 1];
        for swap in &draft(self.model.analysis(), &all)?.swaps {
            let consumers = swap.uses.iter().flat_map(|swap_in| &swap_in.consumers);
            let last = consumers.map(|&node| levels.level(node)).max().unwrap_or(0);
            // It leaves with every threshold that is less than its distance.
            let distance = last.saturating_sub(levels.level(graph.producer(swap.tensor)));
            if let Some(below) = distance.checked_sub(1) {
                let bytes = sizes.bytes(swap.tensor).unwrap_or(0);
                let sum = &mut least[below as usize];
                *sum = sum.saturating_add(bytes.saturating_mul(2));
            }
        }
        for threshold in (1..least.len()).rev() {
            least[threshold - 1] = least[threshold - 1].saturating_add(least[threshold]);
        }
        Ok(least)
    }
}

fn modes() -> impl Iterator<Item = SyncMode> {
    (0u8..4).filter_map(|mode| SyncMode::try_from(mode).ok())
}
