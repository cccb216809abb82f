//! Numbers of bytes as people write and read them.

use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;

/// A number of bytes, shown with a unit: `8.57 GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let (mut value, mut unit) = (self.0 as f64 / 1024.0, 0);
        // What would be rounded to 1024.00 is 1.00 of the next unit.
        while value >= 1023.995 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        f.pad(&format!("{value:.2} {}", UNITS[unit]))
    }
}

/// Reads a size: `16GiB`, `16GB`, `900MiB`, `17179869184`.
///
/// # Errors
///
/// If it is no size.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let size = ByteSize::from_str(text);
    size.map(|size| size.as_u64())
        .map_err(|_| "expected a size such as 16GiB, 16GB, 900MiB or 17179869184".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_size("16GiB"), Ok(16 << 30));
        assert_eq!(parse_size("16GB"), Ok(16_000_000_000));
        assert_eq!(parse_size("900MiB"), Ok(900 << 20));
        assert_eq!(parse_size("17179869184"), Ok(16 << 30));
        for wrong in ["", "-1", "GiB", "16 parsecs"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_shown_with_two_decimals() {
        let shown = |bytes| Size(bytes).to_string();
        assert_eq!(shown(0), "0 B");
        assert_eq!(shown(1023), "1023 B");
        assert_eq!(shown(9_202_000_000), "8.57 GiB");
        assert_eq!(shown((1 << 30) - 1), "1.00 GiB");
        assert_eq!(format!("{:>10}|", Size(1024)), "  1.00 KiB|");
    }
}
