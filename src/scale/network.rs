//! A network as people write it: `25GB/s,5us`.

use std::str::FromStr;

use crate::size::parse_size;

/// What joins workers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Network {
    /// How many bytes go each way in a second.
    pub bytes_per_second: f64,
    /// What sending anything takes beside its bytes, in seconds.
    pub latency_seconds: f64,
}

/// What a network is expected to look like.
const EXPECTED: &str = "expected a rate and a latency, such as 25GB/s,5us";

/// Units of time and how many seconds they are.
const UNITS: [(&str, f64); 5] = [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let (rate, latency) = text.split_once(',').ok_or_else(|| EXPECTED.to_string())?;
        let latency_seconds = parse_seconds(latency.trim()).ok_or_else(|| EXPECTED.to_string())?;
        Ok(Network { bytes_per_second: parse_rate(rate.trim())?, latency_seconds })
    }
}

/// Reads a rate in bytes per second: `25GB/s`, `3GiB/s`.
///
/// # Errors
///
/// If it is none, or 0.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.strip_suffix("/s").and_then(|size| parse_size(size).ok()).filter(|&bytes| bytes > 0);
    rate.map(|bytes| bytes as f64).ok_or_else(|| "expected a rate such as 25GB/s or 900MiB/s".to_string())
}

fn parse_seconds(text: &str) -> Option<f64> {
    let (number, size) = UNITS.iter().find_map(|&(unit, size)| Some((text.strip_suffix(unit)?, size)))?;
    let number: f64 = number.trim().parse().ok()?;
    let seconds = number * size;
    (seconds >= 0.0 && seconds.is_finite()).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_read_as_people_write_it() {
        let read = |text: &str| text.parse::<Network>();
        let of = |bytes_per_second, latency_seconds| Ok(Network { bytes_per_second, latency_seconds });
        assert_eq!(read("25GB/s,5us"), of(25e9, 5.0 * 1e-6));
        assert_eq!(read("1GiB/s, 1.5 ms"), of((1u64 << 30) as f64, 1.5e-3));
        assert_eq!(read("900MB/s,0s"), of(9e8, 0.0));
        assert_eq!(read("3GB/s,20µs"), of(3e9, 20.0 * 1e-6));
        for wrong in [
            "",
            "25GB/s",
            "25GB,5us",
            "0B/s,5us",
            "25GB/s,5",
            "25GB/s,-5us",
            "25GB/s,us",
            "fast,5us",
            "1GB/s,NaNs",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
