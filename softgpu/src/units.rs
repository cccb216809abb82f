//! Sizes, rates and times as people write them.

use std::time::Duration;

const UNITS: [(&str, f64); 9] = [
    ("B", 1.0),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KIB", 1024.0),
    ("MIB", 1048576.0),
    ("GIB", 1073741824.0),
    ("TIB", 1099511627776.0),
];

/// `512MiB`, `16GB`, `1.5GiB`, `17179869184`; at least one byte.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let unit = unit.to_ascii_uppercase();
    let factor = match unit.as_str() {
        "" => 1.0,
        _ => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor).unwrap_or(f64::NAN),
    };
    let value = number.parse().unwrap_or(f64::NAN) * factor;
    if value >= 1.0 && value <= 2f64.powi(53) {
        Ok(value.round() as u64)
    } else {
        Err("expected a size such as 512MiB, 16GB or 17179869184".into())
    }
}

/// `16GB/s`, or `unlimited` for none.
pub fn rate(text: &str) -> Result<Option<u64>, String> {
    if text == "unlimited" {
        return Ok(None);
    }
    let size = text.strip_suffix("/s").and_then(|size| bytes(size).ok());
    size.map(Some).ok_or_else(|| "expected a rate such as 16GB/s or 900MiB/s, or unlimited".into())
}

/// `500ms`, `2s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let factor = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        _ => f64::NAN,
    };
    let seconds = number.parse().unwrap_or(f64::NAN) * factor;
    if (0.0..=86400.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("expected a time such as 500ms or 2s, at most a day".into())
    }
}

fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(bytes("512MiB"), Ok(512 << 20));
        assert_eq!(bytes("16GB"), Ok(16_000_000_000));
        assert_eq!(bytes("1.5 gib"), Ok(3 << 29));
        assert_eq!(bytes("17179869184"), Ok(16 << 30));
        for bad in ["", "MiB", "0", "-1", "12XB", "1e9", "inf", "NaN", "1.2.3", "9999999TiB"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates() {
        assert_eq!(rate("16GB/s"), Ok(Some(16_000_000_000)));
        assert_eq!(rate("unlimited"), Ok(None));
        assert!(rate("16GB").is_err());
        assert!(rate("0GB/s").is_err());
    }

    #[test]
    fn times() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for bad in ["5", "s", "-1s", "1h", "100000s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
