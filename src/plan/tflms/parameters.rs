//! The parameters of TFLMSv2, under its names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::graph::Device;
use crate::plan::Filters;

/// Whether a graph is run to train or to predict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Forward and backward.
    Training,
    /// Forward only.
    Inference,
}

/// What waits for copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct SyncMode {
    /// Whether the producer's successors wait until its output is out.
    pub swap_out: bool,
    /// Whether a swap-in waits until its consumer is all but ready.
    pub swap_in: bool,
}

/// A synchronization mode that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the synchronization mode is 0 (none), 1 (swap-outs), 2 (swap-ins) or 3 (both), not {0}")]
pub struct SyncModeError(u8);

impl TryFrom<u8> for SyncMode {
    type Error = SyncModeError;

    fn try_from(mode: u8) -> Result<SyncMode, SyncModeError> {
        if mode > 3 {
            Err(SyncModeError(mode))
        } else {
            Ok(SyncMode { swap_out: mode & 1 != 0, swap_in: mode & 2 != 0 })
        }
    }
}

impl From<SyncMode> for u8 {
    fn from(mode: SyncMode) -> u8 {
        u8::from(mode.swap_out) + 2 * u8::from(mode.swap_in)
    }
}

/// Some levels, written like an index or slice of Python: `3`, `3:5`, `:7`, `-4:`, `::2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LevelSlice {
    text: String,
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
    single: bool,
}

/// Text that is no index and no slice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no levels (expected an index or slice as in Python: 3, 3:5, :7, -4:, ::2)")]
pub struct LevelSliceError(String);

impl FromStr for LevelSlice {
    type Err = LevelSliceError;

    fn from_str(text: &str) -> Result<LevelSlice, LevelSliceError> {
        let error = || LevelSliceError(text.to_string());
        let number = |part: &str| match part.trim() {
            "" => Ok(None),
            part => part.parse::<i64>().map(Some).map_err(|_| error()),
        };
        let parts: Vec<&str> = text.split(':').collect();
        let (start, stop, step) = match parts.as_slice() {
            [index] => (number(index)?.ok_or_else(error)?.into(), None, None),
            [start, stop] => (number(start)?, number(stop)?, None),
            [start, stop, step] => (number(start)?, number(stop)?, number(step)?),
            _ => return Err(error()),
        };
        let step = step.unwrap_or(1);
        if step < 1 {
            return Err(error());
        }
        Ok(LevelSlice { text: text.to_string(), start, stop, step, single: parts.len() == 1 })
    }
}

impl TryFrom<String> for LevelSlice {
    type Error = LevelSliceError;

    fn try_from(text: String) -> Result<LevelSlice, LevelSliceError> {
        text.parse()
    }
}

impl From<LevelSlice> for String {
    fn from(slice: LevelSlice) -> String {
        slice.text
    }
}

impl fmt::Display for LevelSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl LevelSlice {
    /// The levels that it names of a graph with so many.
    pub fn levels(&self, count: usize) -> impl Iterator<Item = u32> + use<> {
        let count = count as i64;
        let place = |index: i64| if index < 0 { index.saturating_add(count) } else { index };
        let (first, end) = match self.start {
            Some(index) if self.single => {
                let index = place(index);
                // An index that no level has names none.
                if (0..count).contains(&index) { (index, index + 1) } else { (0, 0) }
            }
            start => {
                let bound = |index: i64| place(index).clamp(0, count);
                (bound(start.unwrap_or(0)), self.stop.map_or(count, bound))
            }
        };
        (first..end).step_by(usize::try_from(self.step).unwrap_or(usize::MAX)).map(|level| level as u32)
    }
}

/// What TFLMSv2 could be told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// A tensor leaves for those consumers that are more levels away from its producer than this.
    pub swapout_threshold: u32,
    /// A tensor starts to come back at least so many levels before its first consumer.
    pub swapin_ahead: u32,
    /// Consumers whose levels, sorted, are at most this far from the one before share a swap-in; 0 shares none.
    pub swapin_groupby: u32,
    /// What waits for copies.
    pub sync_mode: SyncMode,
    /// Levels whose ops run one after the other.
    #[serde(default)]
    pub serialization: Vec<LevelSlice>,
    /// Ops of levels that together touch more bytes than this run one after the other.
    #[serde(default)]
    pub serialization_by_size: Option<u64>,
    /// The only GPUs to edit; none means all.
    #[serde(default)]
    pub gpu_devices: Vec<String>,
    /// What the graph is run for.
    pub mode: Mode,
    /// Which ops take part.
    #[serde(default)]
    pub filters: Filters,
}

impl Default for Parameters {
    /// As much as TFLMSv2 swaps with 1/1/0/0.
    fn default() -> Parameters {
        Parameters {
            swapout_threshold: 1,
            swapin_ahead: 1,
            swapin_groupby: 0,
            sync_mode: SyncMode { swap_out: false, swap_in: false },
            serialization: Vec::new(),
            serialization_by_size: None,
            gpu_devices: Vec::new(),
            mode: Mode::Training,
            filters: Filters::default(),
        }
    }
}

impl Parameters {
    /// The patterns of the GPUs to edit.
    ///
    /// # Errors
    ///
    /// If one is no device name.
    pub fn gpu_patterns(&self) -> Result<Vec<Device>, crate::graph::DeviceError> {
        self.gpu_devices.iter().map(|name| Device::parse(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(slice: &str) -> Vec<u32> {
        slice.parse::<LevelSlice>().unwrap().levels(6).collect()
    }

    #[test]
    fn slices_are_those_of_python() {
        assert_eq!(levels("3"), [3]);
        assert_eq!(levels("-1"), [5]);
        assert_eq!(levels("9"), [0; 0]);
        assert_eq!(levels("3:5"), [3, 4]);
        assert_eq!(levels(":2"), [0, 1]);
        assert_eq!(levels("-2:"), [4, 5]);
        assert_eq!(levels("::2"), [0, 2, 4]);
        assert_eq!(levels("4:99"), [4, 5]);
        assert_eq!(levels("5:2"), [0; 0]);
        for wrong in ["", "a", "1:2:3:4", "::0", "::-1"] {
            assert!(wrong.parse::<LevelSlice>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn synchronization_modes_are_bits() {
        for mode in 0..=3 {
            assert_eq!(u8::from(SyncMode::try_from(mode).unwrap()), mode);
        }
        assert!(SyncMode::try_from(4).is_err());
    }
}
