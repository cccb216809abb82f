//! Where TensorFlow's server listens.
//!
//! Whatever address a worker has, TensorFlow's server listens on all of the machine's: `[::]` and its port. What it takes there is neither
//! encrypted nor authenticated, so everyone who reaches the machine could run ops in this process. There is no setting against that. But
//! a library calls `bind` by its name, and the dynamic linker looks for that name in the program first. So the program has a `bind`, which
//! does what the operating system's does, but puts the worker's own address in the place of "all addresses".

use std::net::IpAddr;

/// From now on, who wants to listen on all addresses listens on this one.
pub fn only_on(address: IpAddr) {
    #[cfg(target_os = "linux")]
    linux::only_on(address);
    #[cfg(not(target_os = "linux"))]
    let _ = address;
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::{c_int, c_void};
    use std::net::{IpAddr, SocketAddr};
    use std::os::fd::BorrowedFd;
    use std::sync::OnceLock;

    use rustix::io::Errno;
    use rustix::net::{SocketAddrAny, addr::SocketAddrLen};

    static ONLY: OnceLock<IpAddr> = OnceLock::new();

    pub fn only_on(address: IpAddr) {
        // A process has one server, so the first is the only one.
        let _ = ONLY.set(address);
    }

    unsafe extern "C" {
        fn __errno_location() -> *mut c_int;
    }

    /// The operating system's `bind`, but for "all addresses".
    ///
    /// # Safety
    ///
    /// As for the operating system's: an address of this length.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn bind(socket: c_int, address: *const c_void, length: SocketAddrLen) -> c_int {
        /// No address is longer.
        const LONGEST: SocketAddrLen = 110;
        let bound = if socket < 0 {
            Err(Errno::BADF)
        } else if address.is_null() || !(2..=LONGEST).contains(&length) {
            Err(Errno::INVAL)
        } else {
            // SAFETY: the caller gives an address of this length, and a socket that is open as long as the call.
            let (address, socket) =
                unsafe { (SocketAddrAny::read(address.cast(), length), BorrowedFd::borrow_raw(socket)) };
            match SocketAddr::try_from(address.clone()) {
                Ok(internet) => narrowed(internet).and_then(|address| rustix::net::bind(socket, &address)),
                Err(_) => rustix::net::bind(socket, &address),
            }
        };
        match bound {
            Ok(()) => 0,
            Err(error) => {
                // SAFETY: the place of this thread's error number.
                unsafe { *__errno_location() = error.raw_os_error() };
                -1
            }
        }
    }

    /// An address to listen on, if it is not to be on all.
    fn narrowed(address: SocketAddr) -> Result<SocketAddr, Errno> {
        let Some(&only) = ONLY.get().filter(|_| address.ip().is_unspecified()) else { return Ok(address) };
        let ip = match (address.ip(), only) {
            (IpAddr::V6(_), IpAddr::V4(only)) => IpAddr::V6(only.to_ipv6_mapped()),
            (IpAddr::V4(_), IpAddr::V6(_)) => return Err(Errno::ADDRNOTAVAIL),
            (_, only) => only,
        };
        Ok(SocketAddr::new(ip, address.port()))
    }
}
