//! Which TensorFlow the plug-in was checked with.
//!
//! The native kernels lean on the layout of C++ objects (see `kernels::native`), which TensorFlow may change with
//! any minor version. So a TensorFlow other than the one that the tests ran with is refused by name.

/// The version, without the patch number, that the tests ran with.
pub const CHECKED: &str = "2.21";

/// Is TensorFlow `version` one that the plug-in was checked with?
pub fn check(version: &str) -> Result<(), String> {
    let mut parts = version.splitn(3, '.');
    if let (Some(major), Some(minor)) = (parts.next(), parts.next())
        && format!("{major}.{minor}") == CHECKED
    {
        return Ok(());
    }
    Err(format!(
        "this plug-in was checked with TensorFlow {CHECKED} only and this is TensorFlow {version}: \
         install tensorflow-cpu=={CHECKED}.*, or build the plug-in that belongs to this version"
    ))
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn only_the_checked_minor_version_passes() {
        for good in ["2.21.0", "2.21.1", "2.21.0-rc1"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["2.20.0", "2.22.0", "2.2.21", "3.21.0", "2.210.0", "12.21.0", "2", ""] {
            assert!(check(bad).unwrap_err().contains(bad), "{bad}");
        }
    }
}
