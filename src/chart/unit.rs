//! Numbers as an axis shows them.

/// A unit and how much of the base unit it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    pub(super) size: f64,
}

const fn unit(name: &'static str, size: f64) -> Unit {
    Unit { name, size }
}

const BYTES: [Unit; 7] = [
    unit("EiB", (1_u64 << 60) as f64),
    unit("PiB", (1_u64 << 50) as f64),
    unit("TiB", (1_u64 << 40) as f64),
    unit("GiB", (1_u64 << 30) as f64),
    unit("MiB", (1_u64 << 20) as f64),
    unit("KiB", (1_u64 << 10) as f64),
    unit("bytes", 1.0),
];

const SECONDS: [Unit; 3] = [unit("s", 1.0), unit("ms", 1e-3), unit("µs", 1e-6)];

impl Unit {
    /// The unit for an axis that ends at so many bytes.
    pub(super) fn of_bytes(most: f64) -> Unit {
        fitting(&BYTES, most)
    }

    /// The unit for an axis that ends at so many seconds.
    pub(super) fn of_seconds(most: f64) -> Unit {
        fitting(&SECONDS, most)
    }
}

fn fitting(units: &[Unit], most: f64) -> Unit {
    let smallest = units[units.len() - 1];
    units.iter().copied().find(|unit| most >= unit.size).unwrap_or(smallest)
}

/// Bytes in the unit that fits them: `24.6 GiB`.
pub(super) fn bytes_text(bytes: u64) -> String {
    with_unit(bytes as f64, Unit::of_bytes(bytes as f64))
}

/// Seconds in the unit that fits them: `1.32 s`.
pub(super) fn seconds_text(seconds: f64) -> String {
    with_unit(seconds, Unit::of_seconds(seconds))
}

fn with_unit(value: f64, unit: Unit) -> String {
    format!("{} {}", number(value / unit.size, value / unit.size), unit.name)
}

/// A number with three digits that count for a scale that ends at `end`, without zeros behind the point.
pub(super) fn number(value: f64, end: f64) -> String {
    let magnitude = if end > 0.0 { end.log10().floor() } else { 0.0 };
    let decimals = (2.0 - magnitude).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.decimals$}");
    let trimmed = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if trimmed == "-0" { "0".to_string() } else { trimmed.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit() {
        assert_eq!(bytes_text(0), "0 bytes");
        assert_eq!(bytes_text(1023), "1023 bytes");
        assert_eq!(bytes_text(1024), "1 KiB");
        assert_eq!(bytes_text(32 << 30), "32 GiB");
        assert_eq!(bytes_text(26_424_770_000), "24.6 GiB");
        assert_eq!(bytes_text(u64::MAX), "16 EiB");
        assert_eq!(seconds_text(0.0), "0 µs");
        assert_eq!(seconds_text(0.0123), "12.3 ms");
        assert_eq!(seconds_text(2.5), "2.5 s");
    }

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!(number(20.0, 160.0), "20");
        assert_eq!(number(0.25, 1.5), "0.25");
        assert_eq!(number(7500.0, 9500.0), "7500");
        assert_eq!(number(0.0004, 0.0005), "0.0004");
        assert_eq!(number(-0.0, 1.0), "0");
    }
}
