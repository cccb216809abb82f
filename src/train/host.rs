//! The memory of this process on the host.

use std::fs;

/// How much of the host's memory this process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostMemory {
    /// Bytes now.
    pub resident_bytes: u64,
    /// The most bytes so far.
    pub peak_bytes: u64,
}

impl HostMemory {
    /// What the system says; none where there is no `/proc`.
    pub fn now() -> Option<HostMemory> {
        HostMemory::of(&fs::read_to_string("/proc/self/status").ok()?)
    }

    /// Takes the text of `/proc/PID/status` apart.
    fn of(status: &str) -> Option<HostMemory> {
        let bytes = |name: &str| -> Option<u64> {
            let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
        };
        Some(HostMemory { resident_bytes: bytes("VmRSS")?, peak_bytes: bytes("VmHWM")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_read() {
        let status = "Name:\tlms-train\nVmPeak:\t  900 kB\nVmHWM:\t    300 kB\nVmRSS:\t    200 kB\n";
        let memory = HostMemory { resident_bytes: 200 << 10, peak_bytes: 300 << 10 };
        assert_eq!(HostMemory::of(status), Some(memory));
        assert_eq!(HostMemory::of("VmRSS:\t many kB\nVmHWM:\t 1 kB"), None);
    }
}
